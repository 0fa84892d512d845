"""Programs with nothing to choose, and programs that schedule rules were not made for."""

import numpy as np
import pytest
from tvm import te
from tvm.script import tirx as T
from tvm.target import Target
from tvm.tirx import PrimFunc

from pruner.errors import ConfigError, UntunableError
from pruner.search.space import Space
from pruner.workload import make_task
from tests.search.space_util import TARGET, check_rows, matmul


@T.prim_func
def without_blocks(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
    for i in range(4):
        y[i] = x[i]


def _elementwise(*shape: int, dtype: str = "float32") -> PrimFunc:
    x = te.placeholder(shape, name="x", dtype=dtype)
    return te.create_prim_func([x, te.compute(shape, lambda *i: x(*i) + x(*i), name="y")])


def _constant(*shape: int) -> PrimFunc:
    x = te.placeholder(shape, name="x")
    return te.create_prim_func([x, te.compute(shape, lambda *i: T.float32(1.0), name="y")])


def _self_matmul() -> PrimFunc:
    x = te.placeholder((32, 32), name="x")
    r = te.reduce_axis((0, 32), name="r")
    return te.create_prim_func(
        [x, te.compute((32, 32), lambda i, j: te.sum(x[i, r] * x[r, j], axis=r), name="y")]
    )


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (matmul(0, 8, 8), "zero times"),
        (matmul(8, 8, 0), "zero times"),
        (_elementwise(0, 4), "zero times"),
        (_elementwise(1), "leave it as it is"),
        (without_blocks, "not written in blocks"),
    ],
)
def test_programs_without_a_choice_are_untunable(program: PrimFunc, said: str) -> None:
    with pytest.raises(UntunableError, match=said):
        Space.of(make_task(program, TARGET, "odd"))


def test_a_target_without_schedule_rules_is_one_message() -> None:
    with pytest.raises(ConfigError, match="no schedule rules"):
        Space.of(make_task(_elementwise(8), Target({"kind": "ext_dev"}), "odd"))


@pytest.mark.parametrize(
    "program",
    [
        matmul(127, 131, 13),
        matmul(1, 1, 1),
        matmul(1, 1000, 64),
        matmul(4, 4, 2048),
        matmul(1, 1, 4096),
        matmul(64, 64, 64, "uint8"),
        matmul(64, 64, 64, "int32"),
        _self_matmul(),
        _constant(16, 16),
        _elementwise(64, 64),
        _elementwise(64, 64, dtype="uint8"),
    ],
)
def test_odd_programs_can_be_drawn_changed_and_materialised(program: PrimFunc) -> None:
    space = Space.of(make_task(program, TARGET, "odd"))
    rng = np.random.default_rng(0)
    rows = space.mutate(space.sample(10, rng), rng)
    check_rows(rows)
    assert sum(len(index) for index, _ in space.nests(rows)) == 10
    for candidate in rows[space.legal(rows)]:
        assert space.encode(candidate.materialise().trace).keys()[0].tobytes() == candidate.key

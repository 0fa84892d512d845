"""Statement features from the decisions against TVM's own extractor on the materialised programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from tvm import te
from tvm.target import Target

from pruner.features import chunks, statement_fast
from pruner.features.batch import FeatureExtractor
from pruner.features.dataflow import DataflowFeatures
from pruner.features.statement import StatementFeatures
from pruner.features.statement_columns import LEFT_OUT, columns
from pruner.features.statement_fast import StatementFastFeatures
from pruner.features.stores import Lowered
from pruner.search.candidate import TraceCandidate
from pruner.search.population import Population
from pruner.search.space import Space
from pruner.testing.suite import equal_batches
from pruner.workload import Task, load_task, make_task
from tests.analyzer import gpu_util
from tests.features.accepted_rows import DEVICES, TARGETS, accepted, sample
from tests.search.odd_programs import row_argmax, swish

KEPT = [i for i, column in enumerate(columns()) if column not in LEFT_OUT]
NAMES = ("C1D", "C2D", "C3D", "CAP", "CBR", "DEP", "DIL", "GMM", "GRP", "NRM", "SFM", "T2D", "TBG")


def differing(rows: Population, target: str) -> dict[int, list[str]]:
    """The candidates whose rows differ from TVM's, with the columns."""
    ours = StatementFastFeatures(device=DEVICES[target]).extract(rows)
    theirs = StatementFeatures(device=DEVICES[target]).extract(rows)
    np.testing.assert_array_equal(ours.offsets, theirs.offsets)
    wrong = np.abs(ours.values - theirs.values[:, KEPT]) > 1e-5
    found = {}
    for i in range(len(rows)):
        odd = wrong[ours.offsets[i] : ours.offsets[i + 1]].any(axis=0)
        if odd.any():
            found[i] = [columns()[KEPT[c]] for c in np.flatnonzero(odd)]
    return found


@pytest.mark.parametrize("target", ["llvm", "cuda"])
@pytest.mark.parametrize("name", NAMES)
def test_equals_tvms_extractor(name: str, target: str) -> None:
    rows = sample(f"{name}/0", target, 8)
    found = differing(rows, target)
    # Of buffers of one name and size, TVM's hash table decides which is first.
    assert len(found) <= (name == "DEP"), found
    assert all(rows.space.checked.values())
    assert rows.space.checked


def test_what_the_decisions_do_not_tell_is_read_from_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = sample("GRP/3", "llvm", 60)
    rows.space.referred.clear()
    assert differing(rows, "llvm") == {}
    referred = {i for i in range(len(rows)) if rows[i].key in rows.space.referred}
    assert 0 < len(referred) < len(rows) / 4

    def nothing(lowered: Lowered) -> NDArray[np.bool_]:
        return np.zeros(lowered.stores[0].extents.shape[1], dtype=bool)

    monkeypatch.setattr(statement_fast, "uncertain", nothing)
    found = differing(rows, "llvm")
    assert found.keys() <= referred
    assert found


def rows_of(name: str, target: str, n: int) -> Population:
    return accepted(make_task(te.create_prim_func(list(PROGRAMS[name]())), TARGETS[target], name), n)


def elementwise(entry: Callable[..., object]) -> list[te.Tensor]:
    """One row of a thousand, from two of them."""
    a, b = (te.placeholder((1, 1000), name=name) for name in "ab")
    return [a, b, te.compute((1, 1000), lambda i, j: entry(a, b, i, j), name="c")]


PROGRAMS: dict[str, Callable[[], Sequence[te.Tensor]]] = {
    "argmax": row_argmax,
    "one_row": lambda: elementwise(lambda a, b, i, j: a[i, j] + b[i, j]),
    "swish": swish,
    "integers": lambda: elementwise(lambda a, b, i, j: a[i, j].astype("int32") * 3),
    "data_as_index": lambda: elementwise(lambda a, b, i, j: a[i, b[i, j].astype("int32")]),
}


@pytest.mark.parametrize("target", ["llvm", "cuda"])
@pytest.mark.parametrize("name", ["one_row", "swish"])
def test_ends_of_programs(name: str, target: str) -> None:
    rows = rows_of(name, target, 6)
    assert differing(rows, target) == {}
    assert not rows.space.referred


@pytest.mark.parametrize("target", ["llvm", "cuda"])
@pytest.mark.parametrize("name", ["argmax", "integers", "data_as_index"])
def test_sketches_on_which_the_two_differ_are_read_from_programs(name: str, target: str) -> None:
    """Programs of kinds that arrays have no rules for: TVM's numbers all the same, and counted."""
    rows = rows_of(name, target, 6)
    assert differing(rows, target) == {}
    wrong = {sketch for (_, _, sketch), agrees in rows.space.checked.items() if not agrees}
    keys = {row.key for row in rows if row.sketch_id in wrong}
    assert keys
    assert rows.space.referred == keys


def product(n: int) -> Task:
    """A matrix product that TVM puts on tensor cores, which arrays do not express."""
    a, b = (te.placeholder((n, n), "float16", name=name) for name in "ab")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    return make_task(te.create_prim_func([a, b, c]), Target("nvidia/nvidia-a100"), "product")


def test_sketches_that_arrays_do_not_express_are_read_from_the_program() -> None:
    space = Space.of(product(256))
    assert not any(space.supported)
    rows = space.sample_legal(6, np.random.default_rng(0))
    assert differing(rows, "cuda") == {}
    assert space.referred == {row.key for row in rows}
    movements = DataflowFeatures(device=DEVICES["cuda"]).extract(rows)
    assert all(movements.values.reshape(len(rows), -1).any(axis=1))


def test_candidates_of_all_kinds_keep_their_order() -> None:
    """Rows, rows of which the decisions do not tell all, and traces, of two tasks."""
    grouped, plain = sample("GRP/3", "llvm", 12), sample("C2D/0", "llvm", 8)
    candidates = [candidate for pair in zip(grouped, plain, strict=False) for candidate in pair]
    candidates[4:4] = [TraceCandidate(load_task("C2D/0", TARGETS["llvm"]), plain[3].decided)]
    extractor = StatementFastFeatures(device=DEVICES["llvm"])
    together = extractor.extract(candidates)
    theirs = StatementFeatures(device=DEVICES["llvm"]).extract(candidates)
    np.testing.assert_array_equal(together.offsets, theirs.offsets)
    np.testing.assert_allclose(together.values, theirs.values[:, KEPT], atol=1e-5)


@pytest.mark.parametrize("extractor", [StatementFastFeatures, DataflowFeatures])
@pytest.mark.parametrize(("workload", "target"), [("GRP/3", "llvm"), ("SFM/0", "cuda")])
def test_chunks_change_nothing(
    workload: str, target: str, extractor: type[FeatureExtractor], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, made = sample(workload, target, 40), extractor(device=DEVICES[target])
    whole = made.extract(rows)
    for size in (1, 7, 39):
        monkeypatch.setattr(chunks, "ROWS", size)
        monkeypatch.setattr(chunks, "PROGRAMS", max(1, size // 3))
        for candidates in (rows, list(rows)):
            assert equal_batches(made.extract(candidates), whole)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["llvm", "cuda"])
@pytest.mark.parametrize("name", NAMES)
def test_ninety_nine_of_a_hundred_candidates_equal_tvms(name: str, target: str) -> None:
    for index in (0, 1, 2, 3):
        rows = sample(f"{name}/{index}", target, 50 if name in ("NRM", "C3D") else 100)
        found = differing(rows, target)
        # Of buffers of one name and size, TVM's hash table decides which is first.
        assert len(found) <= (3 if name == "DEP" else 0.01 * len(rows)), found
        assert all(rows.space.checked.values())


def dilated(n: int, size: int, kernel: int, stride: int, dilation: int) -> te.Tensor:
    """Batch `n`, of 11 channels each way."""
    a = te.placeholder((n, size, 11), name="a")
    b = te.placeholder((kernel, 11, 13), name="b")
    out = (size - dilation * (kernel - 1) - 1) // stride + 1
    k, c = te.reduce_axis((0, kernel), name="k"), te.reduce_axis((0, 11), name="c")
    conv = te.compute(
        (n, out, 13),
        lambda i, x, f: te.sum(a[i, x * stride + k * dilation, c] * b[k, c, f], axis=[k, c]),
        name="conv",
    )
    return [a, b, conv]


@pytest.mark.parametrize("target", ["llvm", "cuda"])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 3)])
def test_prime_extents_and_an_odd_batch(stride: int, dilation: int, target: str) -> None:
    func = te.create_prim_func(dilated(7, 37, 5, stride, dilation))
    rows = accepted(make_task(func, TARGETS[target], "dilated"), 8)
    assert differing(rows, target) == {}
    assert not rows.space.referred


@pytest.mark.parametrize("target", ["llvm", "cuda"])
@pytest.mark.parametrize("batch", [1, 7])
@pytest.mark.parametrize(("kernel", "stride", "dilation"), [(2, 3, 1), (2, 2, 1), (2, 2, 2), (3, 2, 2)])
def test_windows_with_gaps(kernel: int, stride: int, dilation: int, batch: int, target: str) -> None:
    func = te.create_prim_func(dilated(batch, 37, kernel, stride, dilation))
    rows = accepted(make_task(func, TARGETS[target], "gaps"), 24)
    assert differing(rows, target) == {}
    assert not rows.space.referred


def grouped(n: int, size: int, kernel: int, groups: int) -> list[te.Tensor]:
    """Batch `n`, of 5 channels a group that are read and 7 that are written, with zeros around."""
    a = te.placeholder((n, size, 5 * groups), name="a")
    b = te.placeholder((kernel, 5, 7 * groups), name="b")
    edge = kernel // 2
    padded = te.compute(
        (n, size + 2 * edge, 5 * groups),
        lambda i, x, c: te.if_then_else(
            te.all(x >= edge, x < size + edge), a[i, x - edge, c], te.const(0.0, "float32")
        ),
        name="padded",
    )
    k, c = te.reduce_axis((0, kernel), name="k"), te.reduce_axis((0, 5), name="c")
    conv = te.compute(
        (n, size, 7 * groups),
        lambda i, x, f: te.sum(padded[i, x + k, f // 7 * 5 + c] * b[k, c, f], axis=[k, c]),
        name="conv",
    )
    return [a, b, conv]


@pytest.mark.parametrize("extractor", [StatementFastFeatures, DataflowFeatures])
@pytest.mark.parametrize("target", ["llvm", "cuda"])
def test_an_analysis_is_of_one_shape(target: str, extractor: type[FeatureExtractor]) -> None:
    """Two tasks of the same sketches and names, extracted in turn and together, give what each gives in a
    space and an extractor of its own."""
    funcs = [te.create_prim_func(dilated(2, size, 5, 1, 1)) for size in (37, 41)]
    tasks = [make_task(func, TARGETS[target], "dilated") for func in funcs]
    rows = [accepted(task, 6) for task in tasks]
    alone = [extractor(device=DEVICES[target]).extract(accepted(task, 6)) for task in tasks]
    made = extractor(device=DEVICES[target])
    for one, own in zip(rows, alone, strict=True):
        assert equal_batches(made.extract(one), own)
    mixed = [candidate for pair in zip(*rows, strict=True) for candidate in pair]
    together = made.extract(mixed)
    for i, own in enumerate(alone):
        assert equal_batches(together.take(np.arange(i, len(mixed), 2)), own)
    assert not equal_batches(*alone)
    if extractor is StatementFastFeatures:
        assert [differing(one, target) for one in rows] == [{}, {}]
        assert not any(one.space.referred for one in rows)


@pytest.mark.parametrize("target", ["llvm", "cuda"])
@pytest.mark.parametrize(("batch", "size", "kernel", "groups"), [(7, 19, 3, 4), (7, 17, 5, 6), (1, 17, 3, 8)])
def test_groups_of_odd_sizes(batch: int, size: int, kernel: int, groups: int, target: str) -> None:
    func = te.create_prim_func(grouped(batch, size, kernel, groups))
    rows = accepted(make_task(func, TARGETS[target], "grouped"), 30)
    assert differing(rows, target) == {}
    assert len(rows.space.referred) <= 2


@pytest.mark.parametrize(("workload", "target"), [("GMM/0", "cuda"), ("SFM/0", "cuda"), ("C2D/0", "llvm")])
def test_a_trace_gives_what_its_row_gives(workload: str, target: str) -> None:
    rows, task = sample(workload, target, 8), load_task(workload, TARGETS[target])
    extractor = StatementFastFeatures(device=DEVICES[target])
    together = extractor.extract(rows)
    apart = extractor.extract([TraceCandidate(task, row.decided) for row in rows])
    np.testing.assert_allclose(apart.values, together.values, atol=1e-5)
    np.testing.assert_array_equal(apart.offsets, together.offsets)
    picked: NDArray[np.int64] = np.array([5, 2])
    np.testing.assert_array_equal(extractor.extract(rows[picked]).values, together.take(picked).values)


def test_columns_are_tvms_without_a_few() -> None:
    extractor = StatementFastFeatures(device=gpu_util.DEVICE)
    assert [columns()[i] for i in KEPT] == list(extractor.columns)
    assert len(extractor.columns) == 159
    batch = extractor.extract([])
    assert (len(batch), batch.values.shape, batch.name) == (0, (0, 159), "statement_fast")

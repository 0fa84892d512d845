"""Dataflow features against hand-computed values, TVM's extractor and TVM's lowered programs."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from tvm import te, tirx
from tvm.s_tir import Schedule

from pruner.features.dataflow import DataflowCodeFeatures, DataflowFeatures
from pruner.features.movements import find_pattern
from pruner.features.statement import StatementFeatures
from pruner.search.candidate import Candidate, TraceCandidate
from pruner.search.population import Population
from pruner.search.space import Space
from pruner.workload import load_task, make_task
from tests.analyzer import gpu_util
from tests.features.accepted_rows import DEVICES, TARGETS, sample
from tests.features.lowered_tir import TooLarge, lower, stores

COLUMNS = DataflowFeatures.columns
ROWS = DataflowFeatures.movements


def extract(rows: Population | list[Candidate], target: str = "cuda") -> NDArray[np.float64]:
    """`candidates x 10 x 23`."""
    values = DataflowFeatures(device=DEVICES[target]).extract(rows).values
    return values.reshape(len(rows), len(ROWS), len(COLUMNS)).astype(np.float64)


def named(rows: NDArray[np.float32], movements: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """By movement and column, flags as they are and the others without the logarithm."""
    table = {}
    for movement, row in zip(movements, rows.astype(np.float64), strict=True):
        flags = {*COLUMNS[1:7], *COLUMNS[11:14]}
        table[movement] = {
            name: value if name in flags else 2.0**value - 1 for name, value in zip(COLUMNS, row, strict=True)
        }
    return table


# 16 x 16 x 16: 2 x 2 blocks of 4 x 2 threads with two virtual threads, each with 2 x 2 outputs; four steps of
# a reduction tile of 2 x 2.
PROGRAM = {"i": [2, 1, 4, 2, 1], "j": [2, 2, 2, 1, 2], "k": [4, 2, 2]}


def test_a_matmul_computed_by_hand() -> None:
    rows = DataflowFeatures(device=gpu_util.DEVICE).extract(gpu_util.tiled(**PROGRAM)).values
    assert rows.shape == (10, 23)
    table = named(rows, ROWS)
    # The tiles of a step are 8 x 4 and 4 x 8 floats, which 8 threads fetch in four turns.
    fetched = {"bytes": 4 * (4 * 2 * 8 * 4 * 4), "operations": 0}
    expected: dict[str, dict[str, float]] = {
        "initialise": {"local": 1, "is_write": 1, "bytes": 4 * 256, "unique_bytes": 16, "allocated": 16},
        # A turn takes them two rows of a's tile further, one row of b's.
        "read_a": {**fetched, "global": 1, "is_read": 1, "unique_bytes": 4 * 256, "stride": 2 * 16},
        "stage_a": {**fetched, "shared": 1, "is_write": 1, "unique_bytes": 4 * 32, "allocated": 4 * 32},
        "read_b": {**fetched, "global": 1, "is_read": 1, "allocated": 0, "stride": 16},
        "stage_b": {**fetched, "shared": 1, "unique_bytes": 4 * 32, "stride": 8},
        # Innermost is the loop over j's last tile, which moves the output by one and a not at all.
        "accumulate": {
            **{"operations": 2 * 16**3, "local": 1, "is_read_write": 1, "bytes": 4 * 16**3},
            **{"unique_bytes": 16, "stride": 1, "reuse_in_loop": 1},
            # The next loop out is k's last tile: every two iterations the same two outputs. Between them lie
            # the two outputs, one element of a and two of b.
            **{"reuse_distance_iterations": 2, "reuse_count": 2, "reuse_distance_bytes": 4 * (2 + 1 + 2)},
            **{"bytes_per_reuse": 4 * 16**3 / 2, "lines": 4096 * 4 / 64},
        },
        "staged_a": {
            **{"shared": 1, "is_read": 1, "bytes": 4 * 16**3, "unique_bytes": 4 * 32, "stride": 0},
            # The innermost loop does not move it; a single element of each buffer is in between.
            **{"reuse_distance_iterations": 1, "reuse_count": 2, "reuse_distance_bytes": 4 * 3},
        },
        "staged_b": {"shared": 1, "is_read": 1, "unique_bytes": 4 * 32, "stride": 1, "allocated": 4 * 32},
        "read_accumulator": {"local": 1, "is_read": 1, "bytes": 4 * 256, "unique_bytes": 16},
        "write_output": {
            **{"global": 1, "is_write": 1, "operations": 256, "bytes": 4 * 256, "unique_bytes": 4 * 256},
            **{"reuse_none": 1, "reuse_count": 0, "bytes_per_reuse": 2 * 4 * 256, "stride": 1},
            "unique_lines": 4 * 256 / 64,
        },
    }
    for movement, columns in expected.items():
        got = {name: table[movement][name] for name in columns}
        assert got == pytest.approx(columns, rel=1e-4, abs=1e-4), movement


def test_the_released_form_computed_by_hand() -> None:
    extractor = DataflowCodeFeatures(device=gpu_util.DEVICE)
    rows = extractor.extract(gpu_util.tiled(**PROGRAM)).values
    assert rows.shape == (8, 23)
    table = named(rows, extractor.movements)
    places = [next(name for name in COLUMNS[1:4] if row[name]) for row in table.values()]
    assert "".join(str(COLUMNS[1:4].index(place)) for place in places) == "20101112"
    fetched = 4 * (4 * 2 * 8 * 4 * 4)
    expected: dict[str, dict[str, float]] = {
        # Each output once: nothing is used again, and what is not counts twice.
        "initialise": {
            "bytes": 4 * 256,
            "unique_bytes": 4 * 256,
            "bytes_per_reuse": 2 * 4 * 256,
            "allocated": 16,
        },
        # A second loop over the threads. All three loops inside the first move the access, 4 x 4 x 8
        # iterations, in which it and its stage reach 8 x 16 floats each; threads and virtual threads do not.
        "read_a": {
            **{"bytes": 8 * fetched, "unique_bytes": 4 * 256, "reuse_in_loop": 1, "reuse_count": 16},
            **{"reuse_distance_iterations": 128, "reuse_distance_bytes": 2 * 4 * 128},
        },
        # The product of the loops twice.
        "accumulate": {
            **{"operations": 2.0 * 16**6, "unique_bytes": 4 * 256, "reuse_in_loop": 1},
            **{"reuse_distance_iterations": 2, "reuse_count": 2, "reuse_distance_bytes": 4 * (2 + 1 + 2)},
        },
        # Unique is what the fetch touched, of which every block counts.
        "staged_b": {"unique_bytes": 4 * 256, "reuse_in_loop": 1, "allocated": 4 * 32},
    }
    for movement, columns in expected.items():
        got = {name: table[movement][name] for name in columns}
        assert got == pytest.approx(columns, rel=1e-4, abs=1e-4), movement


# Where the numbers of an access stand in `columns` and in TVM's 18 of a buffer; without those that depend on
# how far a remainder reaches, which TVM takes for nothing.
OURS = [COLUMNS.index(name) for name in ("is_read", "is_write", "is_read_write", "bytes", "lines")]
OURS += [COLUMNS.index(name) for name in ("reuse_in_loop", "reuse_in_sequence", "reuse_none", "reuse_count")]
OURS += [COLUMNS.index(name) for name in ("bytes_per_reuse", "lines_per_reuse", "stride")]
THEIRS = [0, 1, 2, 3, 5, 7, 8, 9, 12, 13, 15, 17]


@pytest.mark.parametrize("target", ["llvm", "cuda"])
@pytest.mark.parametrize("workload", ["GMM/0", "C2D/0", "DEP/0", "TBG/0"])
def test_equals_tvms_extractor(workload: str, target: str) -> None:
    rows = sample(workload, target, 12)
    ours = extract(rows, target)
    batch = StatementFeatures(device=DEVICES[target]).extract(rows)
    checked = 0
    for group, nest in rows.space.nests(rows):
        pattern = find_pattern(nest)
        assert pattern is not None
        order = list(dict.fromkeys(s.writes[0].buffer for s in nest.statements))
        for i in group.tolist():
            theirs = batch.values[batch.offsets[i] : batch.offsets[i + 1]].astype(np.float64)
            assert len(theirs) == len(order)
            for movement in pattern.movements():
                if movement.initial:
                    continue
                row = ours[i, ROWS.index(movement.row)]
                store = theirs[order.index(movement.statement.writes[0].buffer)]
                buffers = store[57:147].reshape(5, 18)[:, THEIRS]
                wanted = row[OURS]
                if workload == "TBG/0" and movement.row.startswith("read_"):
                    # A transposed operand: TVM may read the stride off another dimension.
                    odd = [OURS.index(COLUMNS.index(c)) for c in ("stride", "lines", "lines_per_reuse")]
                    buffers, wanted = np.delete(buffers, odd, axis=1), np.delete(wanted, odd)
                errors = np.abs(buffers - wanted).max(axis=1)
                assert errors.min() < 1e-3, (movement.row, wanted, buffers)
                operations = np.log2(1 + np.exp2(store[:7]).sum() - 7)
                assert row[0] == pytest.approx(operations, rel=1e-3, abs=1e-3)
                if movement.row.startswith("stage_"):
                    assert row[COLUMNS.index("allocated")] == pytest.approx(store[157], rel=1e-4)
                checked += 1
    assert checked >= 12 * 3


@pytest.mark.parametrize("target", ["llvm", "cuda"])
@pytest.mark.parametrize("workload", ["GMM/0", "C2D/0", "DEP/0", "TBG/0"])
def test_touches_what_the_lowered_program_touches(workload: str, target: str) -> None:
    rows = sample(workload, target, 12)
    ours = extract(rows, target)
    checked = 0
    for group, nest in rows.space.nests(rows):
        pattern = find_pattern(nest)
        assert pattern is not None
        for i in group.tolist():
            lowered = stores(lower(rows[i].materialise().mod))
            for movement in pattern.movements():
                row = ours[i, ROWS.index(movement.row)]
                written, buffer = movement.statement.writes[0].buffer, movement.buffer
                [store] = [
                    s
                    for s in lowered
                    if plain(s.accesses[0].name) == plain(written.name) and s.constant == movement.initial
                ]
                touched = [a for a in store.accesses if plain(a.name) == plain(buffer.name)]
                if buffer.argument:  # several may have the same name
                    touched = [a for a in touched if a.shape == list(buffer.shape)]
                [access] = touched
                try:
                    unique = float(np.prod(store.box(access)) * access.itemsize)
                except TooLarge:
                    continue
                assert row[COLUMNS.index("unique_bytes")] == pytest.approx(np.log2(1 + unique), abs=1e-3)
                checked += 1
                size = 0 if buffer.argument else np.prod(access.shape) * access.itemsize
                assert row[COLUMNS.index("allocated")] == pytest.approx(np.log2(1 + size), abs=1e-3)
    assert checked > 12 * 3


def plain(name: str) -> str:
    return name.replace(".", "_")


class Finished(Candidate):
    """A candidate that tells nothing but its post-processed program."""

    def __init__(self, candidate: Candidate) -> None:
        self.key = candidate.key
        self._candidate = candidate

    decided = property(lambda self: self._candidate.decided)

    def materialise(self) -> Schedule:
        return self._candidate.materialise()


@pytest.mark.parametrize(("workload", "target"), [("GMM/0", "cuda"), ("DEP/0", "cuda"), ("C2D/0", "llvm")])
def test_a_trace_gives_what_its_row_gives(workload: str, target: str) -> None:
    rows = sample(workload, target, 8)
    task = load_task(workload, TARGETS[target])
    traces = [TraceCandidate(task, row.decided) for row in rows]
    for kind in (DataflowFeatures, DataflowCodeFeatures):
        extractor = kind(device=DEVICES[target])
        together = extractor.extract(rows)
        np.testing.assert_allclose(extractor.extract(traces).values, together.values, atol=1e-5)
        np.testing.assert_array_equal(
            extractor.extract([rows[3]]).values, together.take(np.array([3])).values
        )


@pytest.mark.parametrize("workload", ["GMM/0", "C2D/0", "CBR/0", "SFM/0"])
def test_post_processing_is_foreseen(workload: str) -> None:
    rows = sample(workload, "llvm", 8)
    finished: list[Candidate] = [Finished(row) for row in rows]
    np.testing.assert_allclose(extract(finished, "llvm"), extract(rows, "llvm"), atol=1e-4)


@pytest.mark.parametrize("workload", ["CBR/0", "GRP/0", "T2D/0", "TBG/0", "C3D/0", "DIL/0"])
def test_every_tiled_gpu_program_has_all_movements(workload: str) -> None:
    rows = gpu_util.sample(workload, 40)
    assert extract(rows).any(axis=2).all()


@pytest.mark.parametrize("target", ["llvm", "cuda"])
@pytest.mark.parametrize("workload", ["NRM/0", "SFM/0"])
def test_a_reduction_that_is_not_tiled_reads_its_operand(workload: str, target: str) -> None:
    values = extract(sample(workload, target, 12), target)
    assert values[:, [ROWS.index("accumulate"), ROWS.index("staged_a")]].any(axis=2).all()


def test_levels_of_a_cpu() -> None:
    rows = sample("C2D/0", "llvm", 60)
    values = extract(rows, "llvm")
    place = values[..., 1:4]
    present = values.any(axis=2)
    assert (place.sum(axis=2) == present).all()
    staged = present[:, ROWS.index("stage_a")]
    assert staged.any()
    assert not staged.all()
    # The padding computed inside the tiles is a stage; the weights are read from memory.
    assert (place[staged, ROWS.index("stage_a"), 1] == 1).all()
    assert (place[:, ROWS.index("staged_a"), 1] == staged).all()
    assert (place[:, ROWS.index("staged_b"), 0] == 1).all()
    assert not present[:, ROWS.index("read_b")].any()
    # With a write-back the accumulator is in registers, without it is the output.
    written = present[:, ROWS.index("write_output")]
    assert written.any()
    assert not written.all()
    assert (place[:, ROWS.index("accumulate"), 2] == written).all()


def test_an_elementwise_program_is_zeros() -> None:
    a = te.placeholder((64, 64), name="a")
    b = te.compute((64, 64), lambda i, j: a[i, j] * 2.0, name="b")
    space = Space.of(make_task(te.create_prim_func([a, b]), gpu_util.TARGET, "double"))
    rows = space.sample(4, np.random.default_rng(0))
    assert extract(rows).shape == (4, 10, 23)
    assert not extract(rows).any()


def test_of_three_operands_the_largest_two() -> None:
    a = te.placeholder((64, 64), name="a")
    scale = te.placeholder((64,), name="scale")
    b = te.placeholder((64, 64), name="b")
    k = te.reduce_axis((0, 64), name="k")
    c = te.compute((64, 64), lambda i, j: te.sum(a[i, k] * scale[k] * b[k, j], axis=k), name="c")
    space = Space.of(make_task(te.create_prim_func([a, scale, b, c]), gpu_util.TARGET, "scaled"))
    rows = space.sample(200, np.random.default_rng(0))
    rows = rows[space.legal(rows)]
    values = extract(rows)
    assert len(rows)
    assert values.any(axis=2).all()
    for row in ("read_a", "read_b"):
        assert values[:, ROWS.index(row), COLUMNS.index("unique_bytes")] == pytest.approx(
            np.log2(1 + 64 * 64 * 4), abs=0.1
        )


def test_of_several_reductions_the_one_with_the_most_arithmetic() -> None:
    """As in a winograd convolution: a transform with a matrix spelt out, and a product that takes longer."""
    a = te.placeholder((64, 32), name="a")
    b = te.placeholder((32, 256), name="b")
    r, k = te.reduce_axis((0, 64), name="r"), te.reduce_axis((0, 32), name="k")

    def entry(i: te.Var, j: te.Var) -> object:
        return tirx.Select(i == j, tirx.Select(i < 9, 2.0, 3.0), tirx.Select(i < j, 0.5, -0.5))

    packed = te.compute((64, 32), lambda i, j: te.sum(a[r, j] * entry(i, r), axis=r), name="packed")
    c = te.compute((64, 256), lambda i, j: te.sum(packed[i, k] * b[k, j], axis=k), name="c")
    space = Space.of(make_task(te.create_prim_func([a, b, c]), gpu_util.TARGET, "transformed"))
    rows = space.sample(300, np.random.default_rng(0))
    rows = rows[space.legal(rows)]
    values = extract(rows)
    assert len(rows)
    assert values.any(axis=2).all()
    operations = values[:, ROWS.index("accumulate"), COLUMNS.index("operations")]
    np.testing.assert_allclose(operations, np.log2(1 + 2 * 64 * 256 * 32), rtol=1e-6)


@pytest.mark.parametrize("target", ["llvm", "cuda"])
def test_a_sum_of_everything_is_initialised_outside_all_loops(target: str) -> None:
    a = te.placeholder((512,), name="a")
    k = te.reduce_axis((0, 512), name="k")
    total = te.compute((1,), lambda i: te.sum(a[k], axis=k), name="total")
    space = Space.of(make_task(te.create_prim_func([a, total]), TARGETS[target], "total"))
    values = extract(space.sample(50, np.random.default_rng(0)), target)
    first = values[:, ROWS.index("initialise")]
    assert np.isfinite(values).all()
    assert first.any(axis=1).all()
    # Sketches with partial sums set more of them.
    assert first[:, COLUMNS.index("unique_bytes")].min() == pytest.approx(np.log2(1 + 4))
    operations = values[:, ROWS.index("accumulate"), COLUMNS.index("operations")]
    np.testing.assert_allclose(operations, np.log2(1 + 512), rtol=1e-6)


def test_no_candidates_give_an_empty_batch() -> None:
    batch = DataflowFeatures(device=gpu_util.DEVICE).extract([])
    assert (len(batch), batch.values.shape, batch.name, batch.version) == (0, (0, 23), "dataflow", 1)
    assert len(set(DataflowFeatures.columns)) == 23

"""Rows of schedule primitives against TVM's own trace, read instruction by instruction."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV, Trace

from pruner.features.primitives import KINDS, NUMBERS, WORDS, PrimitiveFeatures
from pruner.search.candidate import TraceCandidate
from tests.analyzer import analyzer_util, gpu_util

CPU = PrimitiveFeatures(device=analyzer_util.DEVICE)
GPU = PrimitiveFeatures(device=gpu_util.DEVICE)
WIDTH = len(KINDS) + 1 + NUMBERS

SPACES = [
    *((CPU, analyzer_util.space, workload) for workload in analyzer_util.ALL),
    *((GPU, gpu_util.space, workload) for workload in gpu_util.ALL),
]


def read(trace: Trace) -> list[tuple[str, list[float]]]:
    """Kind and unscaled numbers of every primitive, from TVM's objects."""
    known: dict[Any, float] = {}
    primitives = []
    for count, instruction in numbered(trace):
        kind = str(instruction.kind.name)
        if kind.startswith("Sample"):
            decision = trace.get_decision(instruction)
            if kind == "SampleCategorical":
                decision = instruction.attrs[0][int(decision)]
            values = decision if kind == "SamplePerfectTile" else [decision]
            known |= {output: float(value) for output, value in zip(instruction.outputs, values, strict=True)}
            continue
        known |= {output: count + i for i, output in enumerate(instruction.outputs)}
        if not kind.startswith("Get"):
            primitives.append((kind, [*flat(instruction.attrs, known), *flat(instruction.inputs, known)]))
    return primitives


def numbered(trace: Trace) -> Iterator[tuple[int, Any]]:
    """Instructions with the number that TVM's printer gives to their first output."""
    count = 0
    for instruction in trace.insts:
        yield count, instruction
        count += len(instruction.outputs)


def flat(values: Any, known: dict[Any, float]) -> Iterator[float]:
    for value in values:
        if isinstance(value, str):
            yield WORDS.index(str(value)) + 1 if value in WORDS else len(WORDS) + 1
        elif value is None:
            yield 0
        elif isinstance(value, (SBlockRV, LoopRV)) or value in known:
            yield known[value]
        elif isinstance(value, (bool, int)):
            yield value
        elif hasattr(value, "value"):
            yield value.value
        else:
            yield from flat(value, known)


def expected(trace: Trace, length: int) -> NDArray[np.float64]:
    table = np.zeros((length, WIDTH))
    for row, (kind, numbers) in zip(table, read(trace), strict=False):
        row[KINDS.index(kind) if kind in KINDS else len(KINDS)] = 1
        kept = np.array(numbers[:NUMBERS], dtype=float)
        row[len(KINDS) + 1 :][: len(kept)] = np.sign(kept) * np.log2(1 + np.abs(kept))
    return table


@pytest.mark.parametrize(("extractor", "space", "workload"), SPACES)
def test_rows_equal_the_slow_reading_of_the_trace(
    extractor: PrimitiveFeatures, space: Any, workload: str
) -> None:
    rows = space(workload).sample(12, np.random.default_rng(3))
    batch = extractor.extract(rows)
    assert batch.values.shape == (12 * extractor.rows, WIDTH)
    assert batch.offsets.tolist() == [i * extractor.rows for i in range(13)]
    for candidate, values in zip(rows, np.split(batch.values, 12), strict=True):
        np.testing.assert_allclose(values, expected(candidate.decided, extractor.rows), rtol=1e-6)


def test_rows_candidates_and_traces_have_the_same_features_in_their_order() -> None:
    parts = [gpu_util.space(workload).sample(5, np.random.default_rng(1)) for workload in ("C2D/0", "NRM/0")]
    mixed = [candidate for pair in zip(*parts, strict=True) for candidate in pair]
    traces = [TraceCandidate(candidate.space.task, candidate.decided) for candidate in mixed]
    values = GPU.extract(mixed).values
    np.testing.assert_array_equal(GPU.extract(traces).values, values)
    np.testing.assert_array_equal(GPU.extract(traces[::-1] + mixed).take(np.arange(9, -1, -1)).values, values)
    for i, part in enumerate(parts):
        np.testing.assert_array_equal(
            GPU.extract(part).values, GPU.extract(mixed).take(np.arange(i, 10, 2)).values
        )


def test_a_finished_schedule_has_the_features_of_its_decisions() -> None:
    rows = analyzer_util.sample("GMM/0", 3)
    finished = [TraceCandidate.of(rows.space.task, candidate.materialise()) for candidate in rows]
    np.testing.assert_array_equal(CPU.extract(finished).values, CPU.extract(rows).values)


def test_a_split_by_hand() -> None:
    row = gpu_util.tiled([4, 2, 8, 2, 1], [2, 2, 16, 1, 2], [8, 4, 4], fetch=(1, 2), unroll=2)
    table = GPU.extract(row).values
    numbers = np.sign(table) * (2 ** np.abs(table.astype(float)) - 1)
    splits = numbers[table[:, KINDS.index("Split")] == 1][:, len(KINDS) + 1 :]
    # Two flags, the loop that is split, its factors.
    np.testing.assert_allclose(splits[0], [1, 0, splits[0, 2], 4, 2, 8, 2, 1], rtol=1e-5)
    np.testing.assert_allclose(splits[2, [0, 1, 3, 4, 5, 6]], [1, 0, 8, 4, 4, 0], rtol=1e-5)
    notes = numbers[table[:, KINDS.index("Annotate")] == 1][:, len(KINDS) + 1 :]
    fetches = notes[np.isclose(notes[:, 0], 1 + WORDS.index("meta_schedule.cooperative_fetch"))]
    assert fetches[:, 2].tolist() == pytest.approx([2, 3])
    unrolled = notes[np.isclose(notes[:, 0], 1 + WORDS.index("meta_schedule.unroll_explicit"))]
    assert unrolled[:, 2].tolist() == pytest.approx([32])


def test_unknown_kinds_and_words_have_places_of_their_own() -> None:
    task = analyzer_util.space("GMM/0").task
    schedule = Schedule(task.mod)
    _, i, *_ = schedule.get_loops(schedule.get_sblock("Z"))
    schedule.parallel(i)
    schedule.annotate(i, "mine", 3)
    first, second = CPU.extract([TraceCandidate(task, schedule.trace)]).values[:2]
    assert [CPU.columns[i] for i in np.flatnonzero(first[: len(KINDS) + 1])] == ["is_other"]
    assert second[KINDS.index("Annotate")] == 1
    word, _, note = 2.0 ** second[len(KINDS) + 1 :][:3] - 1
    assert (word, note) == (pytest.approx(len(WORDS) + 1), pytest.approx(3))


def test_every_decision_of_known_programs_is_kept() -> None:
    """Programs of a space with different decisions have different rows, and no trace is cropped."""
    for extractor, space, workload in SPACES:
        for sketch in space(workload).sketches:
            assert len(read(sketch.trace)) <= extractor.rows
        rows = space(workload).unique(space(workload).sample(200, np.random.default_rng(0)))
        tables = np.split(extractor.extract(rows).values, len(rows))
        assert len({table.tobytes() for table in tables}) == len(rows), workload


@pytest.mark.slow
@pytest.mark.skipif("PRUNER_DATA" not in os.environ, reason="PRUNER_DATA names no folder of records")
def test_recorded_programs_of_a_network_are_kept_whole() -> None:
    from pruner.records.read import read as read_records
    from pruner.records.spaces import recorded_rows

    records = read_records(Path(os.environ["PRUNER_DATA"]) / "metaschedule" / "a100-resnet34").dataset
    for task in records.tasks:
        rows, _ = recorded_rows(records.of(task.id))
        rows = rows.space.unique(rows)
        tables = np.split(GPU.extract(rows).values, len(rows))
        assert len({table.tobytes() for table in tables}) == len(rows), task.id
        assert max(len(read(sketch.trace)) for sketch in rows.space.sketches) <= GPU.rows


def test_nothing_gives_an_empty_batch() -> None:
    batch = CPU.extract([])
    assert (len(batch), batch.values.shape) == (0, (0, WIDTH))

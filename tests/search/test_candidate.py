"""Candidates: materialised once, by their key, or refused with a reason."""

from functools import cache

import numpy as np
import pytest
import tvm_ffi
from tvm.target import Target

from pruner.errors import RejectedError
from pruner.search.candidate import RowCandidate, TraceCandidate
from pruner.search.materialise import Materialiser, materialise_many
from pruner.search.sketch import CategoryGene, TileGene
from pruner.search.space import Space
from pruner.workload import load_task

TARGET = Target({"kind": "llvm", "num-cores": 2})


@cache
def _space(workload: str) -> Space:
    return Space.of(load_task(workload, TARGET))


def test_a_row_is_materialised_once_and_its_key_is_its_rows() -> None:
    rows = _space("GMM/0").sample(3, np.random.default_rng(0))
    candidates = list(rows)
    assert all(isinstance(candidate, RowCandidate) for candidate in candidates)
    assert [candidate.key for candidate in candidates] == [key.tobytes() for key in list(rows.keys())]
    assert candidates[0].materialise() is candidates[0].materialise()


def test_the_trace_replays_to_the_same_program() -> None:
    space = _space("C2D/0")
    for candidate in space.sample(5, np.random.default_rng(1)):
        replayed = Materialiser(space.task).materialise(candidate.decided)
        assert tvm_ffi.structural_equal(replayed.mod, candidate.materialise().mod)


def test_a_tile_factor_below_one_never_reaches_tvm() -> None:
    space = _space("GMM/0")
    row = space.sample(1, np.random.default_rng(0)).decisions[0]
    for gene in space.sketches[0].genes:
        if isinstance(gene, TileGene):
            for factor in (0, -9):
                broken = row.copy()
                broken[gene.start + 1] = factor
                with pytest.raises(RejectedError, match="at least 1"):
                    space.candidate(0, broken).materialise()


def test_a_decision_tvm_refuses_is_a_rejection() -> None:
    space = _space("GMM/0")
    row = space.sample(1, np.random.default_rng(0)).decisions[0]
    category = next(gene for gene in space.sketches[0].genes if isinstance(gene, CategoryGene))
    row[category.start] = 99
    with pytest.raises(RejectedError, match="decision is: 99"):
        space.candidate(0, row).materialise()


def test_many_are_materialised_in_order_and_refusals_name_the_post_processor() -> None:
    space = _space("T2D/0")
    rows = space.sample(40, np.random.default_rng(0))
    alone = materialise_many(list(rows), threads=1)
    together = materialise_many(list(rows), threads=4)
    refused = [schedule for schedule in together if isinstance(schedule, RejectedError)]
    assert 0 < len(refused) < 40
    assert all("DisallowDynamicLoop" in str(error) for error in refused)
    for one, other in zip(alone, together, strict=True):
        assert isinstance(one, RejectedError) == isinstance(other, RejectedError)
        if not isinstance(one, RejectedError) and not isinstance(other, RejectedError):
            assert tvm_ffi.structural_equal(one.mod, other.mod)


def test_a_refusing_primitive_is_named() -> None:
    matmul, convolution = _space("GMM/0"), _space("C2D/0")
    trace = convolution.sample(1, np.random.default_rng(0))[0].decided
    with pytest.raises(RejectedError, match=r"primitive refused .* 'get-block'"):
        TraceCandidate(matmul.task, trace).materialise()


def test_traces_of_one_program_have_one_key() -> None:
    space = _space("GMM/0")
    candidates = list(space.sample(5, np.random.default_rng(0)))
    by_trace = [TraceCandidate(space.task, candidate.decided) for candidate in candidates]
    finished = [TraceCandidate.of(space.task, candidate.materialise()) for candidate in candidates]
    assert [c.key for c in by_trace] == [c.key for c in finished]
    assert len({c.key for c in by_trace}) == 5
    assert finished[0].materialise() is candidates[0].materialise()


def test_a_refused_trace_still_has_a_key() -> None:
    space = _space("T2D/0")
    rows = space.sample(20, np.random.default_rng(0))
    traces = [space.sketches[i].decided(row) for i, row in zip(rows.sketch_ids, rows.decisions, strict=True)]
    candidates = [TraceCandidate(space.task, trace) for trace in traces]
    assert len({candidate.key for candidate in candidates}) == 20


def test_an_unverified_schedule_is_the_same_and_what_the_device_cannot_run_has_one_too() -> None:
    space = Space.of(load_task("GMM/0", Target("nvidia/nvidia-a100")))
    outcomes = set()
    for row in space.sample(60, np.random.default_rng(0)):
        for candidate in (row, TraceCandidate(space.task, row.decided)):
            seen = candidate.unverified()
            assert candidate.unverified() is seen
            [built] = materialise_many([candidate])
            if isinstance(built, RejectedError):
                assert "VerifyGPUCode" in str(built)
                outcomes.add("refused")
            else:
                assert tvm_ffi.structural_equal(built.mod, seen.mod)
                assert candidate.unverified() is built
                outcomes.add("accepted")
    assert outcomes == {"refused", "accepted"}

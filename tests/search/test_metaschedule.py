"""MetaScheduleSearch: TVM's own strategy behind our session."""

from __future__ import annotations

import numpy as np
import pytest
import tvm_ffi
from tvm import te
from tvm.target import Target

from pruner.analyzer.draft import NoDraft
from pruner.costmodel.random import RandomVerifier
from pruner.errors import ConfigError
from pruner.measure.measurement import Measurement
from pruner.search.candidate import Candidate, TraceCandidate
from pruner.search.metaschedule import MetaScheduleSearch, MetaScheduleSession
from pruner.search.population import Population
from pruner.search.space import Space
from pruner.workload import make_task

TARGET = Target({"kind": "llvm", "num-cores": 2})


def matmul(m: int, n: int, depth: int) -> Space:
    a = te.placeholder((m, depth), "float32", "a")
    b = te.placeholder((depth, n), "float32", "b")
    k = te.reduce_axis((0, depth), "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, k] * b[k, j], k), "c")
    return Space.of(make_task(te.create_prim_func([a, b, c]), TARGET))


def start(space: Space, pool: Population | None = None) -> MetaScheduleSession:
    return MetaScheduleSearch().start(
        space,
        draft=NoDraft(device=None),  # type: ignore[arg-type]  # not asked
        verifier=RandomVerifier(),
        pool=pool,
        rng=np.random.default_rng(0),
    )


def innermost(candidate: Candidate) -> int:
    """The innermost factor of the second tile: what the made-up device likes large."""
    tiles = [d for i, d in candidate.decided.decisions.items() if i.kind.name == "SamplePerfectTile"]
    return int(tiles[1][-1])


def measured(candidate: Candidate) -> Measurement:
    return Measurement(candidate, 1e-3 / innermost(candidate), 0.0, 0.1, 0.1)


def test_proposes_new_candidates_and_takes_failures() -> None:
    space = matmul(64, 64, 16)
    session = start(space)
    state = np.random.get_state()[1].copy()  # noqa: NPY002  # TVM's model draws from it; users may too
    first = session.propose(6)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    session.observe(
        [measured(c) for c in first[:3]]
        + [
            Measurement(first[3], None, None, 0.1, 0.0, "build", "no"),
            Measurement(first[4], None, None, 0.1, 9.0, "timeout", "slow"),
            Measurement(first[5], None, None, 0.1, 0.1, "run", "crash"),
        ]
    )
    # A batch that is cut short leaves the rest of what TVM picked to the next one.
    short = session.propose(2)
    session.observe([measured(c) for c in short])
    rest = session.propose(6)
    assert (len(first), len(short), len(rest)) == (6, 2, 4)
    programs = {tvm_ffi.structural_hash(c.materialise().mod) for c in first + short + rest}
    assert len(programs) == 12
    # The scored population: TVM's 512 at its start and after each of 4 generations, in both rounds.
    assert (session.explored, session.verified) == (2 * 5 * 512, 0)
    # A candidate stands for the same program as its trace replayed by us.
    replayed = TraceCandidate(space.task, first[0].decided).materialise()
    assert tvm_ffi.structural_equal(replayed.mod, first[0].materialise().mod)


def test_a_pool_is_refused() -> None:
    space = matmul(32, 32, 32)
    with pytest.raises(ConfigError, match="pool"):
        start(space, space.sample(3, np.random.default_rng(0)))


@pytest.mark.slow
def test_learns_from_our_measurements() -> None:
    session = start(matmul(256, 256, 64))
    innermosts = []
    for _ in range(6):
        batch = session.propose(32)
        innermosts.append(np.median([innermost(c) for c in batch]))
        session.observe([measured(c) for c in batch])
    # Four rounds are random scores, until TVM's model has its 100 samples; then it follows them.
    assert session.verified == 2 * 5 * 512
    assert np.mean(innermosts[-2:]) > 1.5 * np.mean(innermosts[:1])

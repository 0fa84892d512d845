"""RandomSearch: every program once, no other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import tvm_ffi
from tvm import te
from tvm.target import Target

from pruner.analyzer.device import Device
from pruner.analyzer.draft import NoDraft
from pruner.costmodel.random import RandomVerifier
from pruner.errors import RejectedError
from pruner.search.candidate import Candidate
from pruner.search.latent import LatentSearch
from pruner.search.population import Population
from pruner.search.random import RandomSearch
from pruner.search.space import Space
from pruner.search.strategy import SearchStrategy, Session
from pruner.workload import load_task, make_task

TARGET = Target({"kind": "llvm", "num-cores": 2})


def start(space: Space, seed: int, pool: Population | None = None) -> Session:
    return RandomSearch().start(
        space,
        draft=NoDraft(device=None),  # type: ignore[arg-type]  # not asked
        verifier=RandomVerifier(),
        pool=pool,
        rng=np.random.default_rng(seed),
    )


@pytest.fixture(scope="module")
def matmul() -> Space:
    return Space.of(load_task("GMM/0", TARGET))


@pytest.fixture(scope="module")
def tiny() -> Space:
    a = te.placeholder((2, 3), "float32", "a")
    k = te.reduce_axis((0, 3), "k")
    c = te.compute((2,), lambda i: te.sum(a[i, k] * a[i, k], k), "c")
    return Space.of(make_task(te.create_prim_func([a, c]), TARGET))


def programs(space: Space) -> set[int]:
    """The structural hash of every program of a small space."""
    rows = space.enumerate(100_000)
    assert rows is not None
    found = set()
    for candidate in rows:
        try:
            found.add(tvm_ffi.structural_hash(candidate.materialise().mod))
        except RejectedError:
            continue
    return found


def test_a_large_space_never_repeats(matmul: Space) -> None:
    session = start(matmul, 0)
    batches = [session.propose(7) for _ in range(5)]
    assert [len(batch) for batch in batches] == [7] * 5
    hashes = {tvm_ffi.structural_hash(c.materialise().mod) for batch in batches for c in batch}
    assert len(hashes) == 35
    assert session.explored >= 35


def test_a_small_space_is_measured_to_its_last_program(tiny: Space) -> None:
    session = start(tiny, 0)
    proposed = []
    while batch := session.propose(16):
        proposed += [tvm_ffi.structural_hash(candidate.materialise().mod) for candidate in batch]
    assert len(proposed) == len(set(proposed))
    assert set(proposed) == programs(tiny)
    assert session.propose(1) == []


def test_the_seed_decides(matmul: Space) -> None:
    first, same, other = ([c.key for c in start(matmul, seed).propose(5)] for seed in (1, 1, 2))
    assert first == same != other


def test_a_pool_is_all_there_is(matmul: Space) -> None:
    pool = matmul.sample(9, np.random.default_rng(3))
    keys = {candidate.key for candidate in pool}
    session = start(matmul, 0, pool)
    proposed = session.propose(6) + session.propose(6)
    assert {candidate.key for candidate in proposed} <= keys
    assert len(proposed) == len({tvm_ffi.structural_hash(c.materialise().mod) for c in pool})


@pytest.mark.parametrize("search", [RandomSearch(), LatentSearch()])
def test_where_tvm_accepts_nothing_the_search_ends(
    matmul: Space, search: SearchStrategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A space of millions of rows, all of which TVM refuses."""
    tried = []

    def refuse_all(candidates: Sequence[Candidate], known: set[int]) -> list[int]:
        tried.extend(candidates)
        return []

    monkeypatch.setattr(f"{type(search).__module__}.new_programs", refuse_all)
    session = search.start(
        matmul,
        draft=NoDraft(device=Device.load("x86-64")),
        verifier=RandomVerifier(),
        pool=None,
        rng=np.random.default_rng(0),
    )
    assert session.propose(10) == []
    assert 512 <= len(tried) < 2 * 512
    assert session.propose(10) == []
    assert len(tried) < 2 * 512

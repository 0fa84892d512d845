"""Places by their definitions, in nests read from materialised programs."""

from __future__ import annotations

import numpy as np
import pytest
from tvm.target import Target

from pruner.search.members import Renumbered, accesses, describe, places
from pruner.search.nest import Nest
from pruner.search.space import Space
from pruner.search.tir_reader import read_nest
from pruner.workload import load_task

TARGETS = {
    "llvm": Target({"kind": "llvm", "num-cores": 2}),
    "cuda": Target("nvidia/nvidia-a100"),
}


def nests(name: str, n: int, target: str = "llvm") -> list[Nest]:
    space = Space.of(load_task(name, TARGETS[target]))
    return [
        read_nest(candidate.materialise()) for candidate in space.sample_legal(n, np.random.default_rng(0))
    ]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["TBG/0", "SFM/0"])
def test_places_are_what_the_loops_say(name: str, target: str) -> None:
    forked = alive = 0
    for nest in nests(name, 12, target):
        statements = nest.statements
        for slot, (statement, place) in enumerate(zip(statements, places(statements), strict=True)):
            assert place.slot == slot
            same = [i for i, s in enumerate(statements) if s.loops[:1] == statement.loops[:1] and s.loops]
            assert place.nest == min(same, default=slot)
            assert place.unrolls == any(statements[i].has_init or statements[i].reduces for i in same)
            others = [s for s in statements if s is not statement]
            shared = [any(loop in s.loops for s in others) for loop in statement.loops]
            assert place.branch == sum(shared)
            for level, loop in enumerate(statement.loops):
                below = {(*s.loops, s)[level + 1] for s in statements if loop in s.loops}
                assert place.forks[level] == (len(below) > 1)
                assert place.mixed[level] == any(loop in s.reduces for s in statements)
            for access, home in zip(accesses(statement), place.homes, strict=True):
                users = [s for s in statements if any(a.buffer is access.buffer for a in accesses(s))]
                common = [loop for loop in statement.loops if all(loop in s.loops for s in users)]
                assert home == (0 if access.buffer.argument else len(common))
                alive += home > 0
            forked += sum(place.forks)
    assert forked > 0
    assert alive > 0


@pytest.mark.parametrize("target", TARGETS)
def test_renumbering_asks_in_the_order_of_the_description(target: str) -> None:
    for statement in replayed(target).statements:
        look, numbers = describe(statement)
        replaced = [number + 100 + i for i, number in enumerate(numbers)]
        replacement = iter(replaced)
        copy = Renumbered(lambda _, new=replacement: next(new)).statement(statement)
        copied, found = describe(copy)
        assert copied == look
        # A buffer with two accesses has the shape it was first given.
        written = {access.buffer for access in accesses(statement)}
        assert len({access.buffer for access in accesses(copy)}) == len(written)
        assert found[: len(statement.loops)] == replaced[: len(statement.loops)]
        assert next(replacement, None) is None


def replayed(target: str) -> Nest:
    """Not post-processed, so that fetches still ask for lanes."""
    space = Space.of(load_task("C2D/0", TARGETS[target]))
    row = next(iter(space.sample_legal(1, np.random.default_rng(1))))
    return read_nest(space.materialiser.replay(row.decided))


def test_buffers_of_a_thread_block_live_where_its_threads_are() -> None:
    space = Space.of(load_task("C2D/0", TARGETS["cuda"]))
    pipelined = space.sample_legal(400, np.random.default_rng(2))
    groups = list(space.nests(pipelined[pipelined.sketch_ids == 1]))
    for _, nest in groups:
        data, weight, conv, _ = nest.statements
        where = [place.homes for place in places(nest.statements)]
        # blockIdx, vthread, threadIdx and the pipelined loop around what is fetched; the sums of a thread
        # live through the pipeline; the arguments outlive all.
        assert where == [(0, 4), (0, 4), (4, 4, 3), (3, 0)]
        assert [loop.kind for loop in conv.loops[:4]] == ["blockIdx.x", "vthread.x", "threadIdx.x", "serial"]
        assert [data.fetch.min(), data.fetch.max(), conv.fetch] == [1, 4, 0]  # type: ignore[union-attr]
        assert describe(data)[0] != describe(weight)[0]


def test_statements_that_differ_in_what_their_loops_are_do_not_look_alike() -> None:
    space = Space.of(load_task("GMM/0", TARGETS["cuda"]))
    rows = space.sample_legal(60, np.random.default_rng(3))
    products = {}
    for group, nest in space.nests(rows):
        product = next(s for s in nest.statements if s.name == "Z")
        products[int(rows.sketch_ids[group[0]])] = describe(product)[0]
    # Two sketches differ in nothing but the stages of their pipelines.
    assert len(set(products.values())) == 3

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


def nests(name: str, n: int) -> list[Nest]:
    space = Space.of(load_task(name, Target({"kind": "llvm", "num-cores": 2})))
    return [read_nest(candidate.materialise()) for candidate in space.sample(n, np.random.default_rng(0))]


@pytest.mark.parametrize("name", ["TBG/0", "SFM/0"])
def test_places_are_what_the_loops_say(name: str) -> None:
    forked = alive = 0
    for nest in nests(name, 12):
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


def test_renumbering_asks_in_the_order_of_the_description() -> None:
    for statement in nests("C2D/0", 1)[0].statements:
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

"""What the loops of a statement are for, read off their order: SSRSRS tiles on a CPU, SSSRRSRS on a GPU, or
whatever there is instead.

From the inside out a statement's loops fall into runs. On a CPU the innermost spatial loops are the register
tile (S3), the reduction loops around it the inner reduction (R1), then the level-2 tile (S2), the outer
reduction (R0); everything further out is `outer`. On a GPU the runs are S4, R2, S3 and R1, all of one thread;
R0 are the reduction steps that fetches into shared memory share with the statement; the rest is bound to
virtual threads, threads and blocks. A run that a statement does not have is empty. A copy or an epilogue
keeps nothing in registers: all its loops are outer on a CPU, on a GPU those of a thread are its S4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pruner.search.nest import Loop, Statement

ROLES = ("outer", "R0", "S2", "R1", "S3")


class Roles:
    """The roles of a statement's loops; loops of one iteration count, so all rows have the same."""

    def __init__(self, of: Mapping[Loop, str]) -> None:
        self._of = of

    def of(self, loop: Loop) -> str:
        """The role of one of the statement's loops."""
        return self._of[loop]

    def span(self, role: str, loops: Sequence[Loop]) -> list[int]:
        """Positions in `loops` of those with the role."""
        return [level for level, loop in enumerate(loops) if self._of[loop] == role]

    def inside(self, roles: Sequence[str], loops: Sequence[Loop]) -> list[int]:
        """Positions in `loops` of those with one of the roles, from outside in."""
        return [level for level, loop in enumerate(loops) if self._of[loop] in roles]


def cpu_roles(statement: Statement) -> Roles:
    """The roles of a statement on a CPU."""
    reducing = statement.has_init or bool(statement.reduces)
    runs = list(reversed(ROLES)) if reducing else ["outer"]
    return Roles(_runs(statement.loops, statement, runs))


def gpu_roles(statement: Statement, shared: int) -> Roles:
    """The roles of a statement on a GPU. shared: how many of its loops, from outside, other statements
    share."""
    of: dict[Loop, str] = {}
    own: list[Loop] = []
    for level, loop in enumerate(statement.loops):
        bound = loop.kind.partition(".")[0]
        if bound in ("blockIdx", "vthread", "threadIdx"):
            of[loop] = bound
        elif level < shared:
            of[loop] = "R0"
        else:
            own.append(loop)
    reducing = statement.has_init or bool(statement.reduces)
    return Roles(of | _runs(own, statement, ["S4", "R2", "S3", "R1"] if reducing else ["S4"]))


def _runs(loops: Sequence[Loop], statement: Statement, runs: list[str]) -> dict[Loop, str]:
    """The runs of loops from the inside out; what comes after the last run belongs to it."""
    of: dict[Loop, str] = {}
    runs = list(runs)
    for loop in reversed(loops):
        reduces = loop in statement.reduces
        while len(runs) > 1 and (runs[0][0] == "R") != reduces:
            runs.pop(0)
        of[loop] = runs[0]
    return of

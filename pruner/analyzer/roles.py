"""What the loops of a statement are for, read off their order: SSRSRS tiles, or whatever there is instead.

From the inside out a statement's loops fall into runs: the innermost spatial loops are the register tile
(S3), the reduction loops around it the inner reduction (R1), then the level-2 tile (S2), the outer
reduction (R0); everything further out is `outer`. A run that a statement does not have is empty. A copy or
an epilogue keeps nothing in registers: all its loops are outer.
"""

from __future__ import annotations

from collections.abc import Sequence

from pruner.search.nest import Loop, Statement

ROLES = ("outer", "R0", "S2", "R1", "S3")


class Roles:
    """The roles of a statement's loops; loops of one iteration count, so all rows have the same."""

    def __init__(self, statement: Statement) -> None:
        reducing = statement.has_init or bool(statement.reduces)
        runs = list(reversed(ROLES)) if reducing else ["outer"]
        self._of: dict[Loop, str] = {}
        for loop in reversed(statement.loops):
            reduces = loop in statement.reduces
            while runs[0] != "outer" and (runs[0][0] == "R") != reduces:
                runs.pop(0)
            self._of[loop] = runs[0]

    def span(self, role: str, loops: Sequence[Loop]) -> list[int]:
        """Positions in `loops` of those with the role."""
        return [level for level, loop in enumerate(loops) if self._of[loop] == role]

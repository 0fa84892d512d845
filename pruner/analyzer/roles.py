"""What the loops of a statement are for, read off their order: SSRSRS tiles, or whatever there is instead.

From the inside out a statement's loops fall into runs: the innermost spatial loops are the register tile
(S3), the reduction loops around it the inner reduction (R1), then the level-2 tile (S2), the outer
reduction (R0); everything further out is `outer`. A run that a statement does not have is empty.
"""

from __future__ import annotations

from dataclasses import dataclass

from pruner.search.nest import Statement

ROLES = ("outer", "R0", "S2", "R1", "S3")


@dataclass(frozen=True)
class Roles:
    """Positions in `statement.loops`, from outside in. `starts` has the first position of every run in ROLES
    and the number of loops at its end."""

    starts: tuple[int, int, int, int, int, int]

    def span(self, role: str) -> range:
        """The positions of the loops of a role."""
        i = ROLES.index(role)
        return range(self.starts[i], self.starts[i + 1])


def roles(statement: Statement) -> Roles:
    """The roles of the statement's loops."""
    reduces = [loop in statement.reduces for loop in statement.loops]
    starts = [len(reduces)]
    position = len(reduces)
    for role in reversed(ROLES[1:]):
        reducing = role[0] == "R"
        while position > 0 and reduces[position - 1] == reducing:
            position -= 1
        starts.append(position)
    starts.append(0)
    outer, r0, s2, r1, s3, end = reversed(starts)
    return Roles((outer, r0, s2, r1, s3, end))

"""Which rows meet the conditions of the programs they stand for."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np
from numpy.typing import NDArray

from pruner.search.nest import Extent
from pruner.search.symbolic.legality import REASONS
from pruner.search.symbolic.polynomial import as_key
from pruner.search.symbolic.tape import Tape

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Condition:
    """A 0/1 value of the decisions. `columns`: those it depends on; `always`: it is 1 whatever they are."""

    def __init__(self, value: Extent) -> None:
        self.value = value
        self.always = isinstance(value, int) and value == 1
        self._tape = Tape()
        self._slot = self._tape.slot(value)
        self.columns = self._tape.columns

    def holds(self, columns: Mapping[int, Ints | int], rows: int) -> Bools:
        """bool[rows]. columns: int64[rows] each, or one number, at least those it depends on."""
        with np.errstate(divide="ignore"):
            value = self._tape.run(columns)[self._slot]
        return np.broadcast_to(np.asarray(value).astype(bool), rows)


class Verdicts:
    """The conditions of a sketch's finished programs, by reason. Equal ones are kept once."""

    def __init__(self) -> None:
        self.conditions: dict[str, list[Condition]] = {reason: [] for reason in REASONS}
        self._numbers: dict[tuple[str, Hashable], int] = {}
        self._of: dict[str, list[int]] = {reason: [] for reason in REASONS}

    def add(self, conditions: Mapping[str, Extent]) -> None:
        """Adds the next finished program."""
        for reason, value in conditions.items():
            known = self.conditions[reason]
            number = self._numbers.setdefault((reason, as_key(value)), len(known))
            if number == len(known):
                known.append(Condition(value))
            self._of[reason].append(number)

    def of(self, program: int) -> list[Extent]:
        """All conditions of one program, the cheap ones first."""
        return [self.conditions[reason][self._of[reason][program]].value for reason in REASONS]

    def passes(self, reason: str, programs: Ints, decisions: Ints) -> Bools:
        """bool[n], which rows meet what one reason asks. programs: int64[n], the numbers of the rows'
        programs; decisions: `n x width`."""
        return self._passes(reason, programs, decisions, np.arange(len(programs)))

    def accepts(self, programs: Ints, decisions: Ints) -> Bools:
        """bool[n], which rows meet all conditions: each is tried on what the cheaper ones leave."""
        left = np.arange(len(programs))
        for reason in REASONS:
            left = left[self._passes(reason, programs, decisions, left)]
        accepted = np.zeros(len(programs), dtype=bool)
        accepted[left] = True
        return accepted

    def _passes(self, reason: str, programs: Ints, decisions: Ints, rows: Ints) -> Bools:
        """bool[len(rows)], which of some rows meet what one reason asks."""
        found = np.ones(len(rows), dtype=bool)
        if all(condition.always for condition in self.conditions[reason]):
            return found
        numbers = np.array(self._of[reason], dtype=np.int64)[programs[rows]]
        for number in np.bincount(numbers).nonzero()[0].tolist():
            condition = self.conditions[reason][number]
            some = np.flatnonzero(numbers == number)
            columns = {column: decisions[rows[some], column] for column in condition.columns}
            found[some] = condition.holds(columns, len(some))
        return found

"""Draft models that add up what the statements of a program take."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.draft import DraftModel
from pruner.analyzer.inspection import Inspection, inspect, total
from pruner.analyzer.penalties import kept_penalties
from pruner.analyzer.resources import fits
from pruner.search.nest import Nest
from pruner.search.population import Population

Floats = NDArray[np.float64]


class FormulaDraft(DraftModel):
    """The sum over a program's statements, `inf` where the program does not fit the device.

    Args:
        penalties: which of the six penalties stay in force, one of `analyzer.penalties.CHOICES`.
        settings: of DraftModel.
    """

    def __init__(self, *, penalties: str = "all", **settings: Any) -> None:
        super().__init__(**settings)
        self.kept = kept_penalties(penalties)

    def score(self, population: Population) -> Floats:
        return self.seconds(population.space.nests(population), len(population))

    def seconds(self, groups: Iterable[tuple[NDArray[np.int64], Nest]], n: int) -> Floats:
        """float64[n] predicted seconds of the candidates in `groups`, as `Space.nests` yields them."""
        statements = inspect(groups, self.device)
        return np.where(fits(statements, self.device, n), self.together(statements, n), np.inf)

    def together(self, statements: Sequence[Inspection], n: int) -> Floats:
        """float64[n] seconds of n candidates with these statements: their sum."""
        return total(statements, [self.statement_seconds(s) for s in statements], n)

    @abstractmethod
    def statement_seconds(self, statement: Inspection) -> Floats:
        """float64[m] seconds of a batch of m statements."""

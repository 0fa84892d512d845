"""What the operands of a statement cost: loads, gathers, and values that find no register."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.footprints import Reach
from pruner.analyzer.strides import Strides

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class InnerCode:
    """The inner loops of a statement as they are compiled, one entry per row; see registers.RegisterTile.

    rest: `depth x m`, iterations of the loops without those of the vector. spans: levels by role.
    walked: `depth x m`, loops of the vector; along: the innermost of them. vectors, length: registers and
        elements of one vector of the schedule.
    tile, wide: accumulators of S3, and of S2 and S3. held: those in registers at once.
    unrolled2: S2, R1 and S3 are straight-line code. straight: the depth at which straight-line code begins.
    """

    rest: Floats
    spans: dict[str, list[int]]
    walked: Bools
    along: NDArray[np.int64]
    vectors: Floats
    length: Floats
    tile: Floats
    wide: Floats
    held: Floats
    unrolled2: Bools
    straight: NDArray[np.int64]

    def operations(self) -> Floats:
        """float64[m], vector operations of the straight-line code."""
        inside = np.arange(len(self.rest))[:, None] >= self.straight
        return np.asarray(np.prod(np.where(inside, self.rest, 1.0), axis=0) * self.vectors)


@dataclass(frozen=True, eq=False)
class Operands:
    """loads: registers loaded per vector operation, `gathered` those with a load per lane. scattered: the
    output needs a store per lane. again: registers that a turn of S2 loads and a later turn needs again."""

    loads: Floats
    gathered: Floats
    scattered: Bools
    again: Floats


def operands(touched: Reach, strides: Sequence[Strides], code: InnerCode, registers: int) -> Operands:
    """The operands of a batch; registers: vector registers of a core.

    An operand is loaded once per register tile; once for all of S2 where that is straight-line code and fits
    beside the accumulators; once in all the straight-line code, the windows of a convolution overlapping,
    where everything that it touches there fits.
    """
    m, each = code.rest.shape[1], np.arange(code.rest.shape[1])
    levels = [level for level in range(len(code.rest)) if code.walked[level].any()]
    vectorised = code.walked.any(axis=0)
    narrow, wide, once, gathers = [], [], [], []
    for elements, moves, stride in zip(touched.elements, touched.moves, strides, strict=True):
        still, even = np.ones(m, dtype=bool), np.ones(m, dtype=bool)
        for level in levels:
            here = vectorised & (code.along == level)
            still &= ~here | (stride[level] == 0)
            even &= ~here | stride.even(level)
        distinct = np.where(still, 1.0, code.vectors)
        narrow.append(distinct * _moved(code, "S3", moves))
        wide.append(narrow[-1] * _moved(code, "S2", moves))
        once.append(elements[code.straight, each] / np.where(still, 1.0, code.length / code.vectors))
        gathers.append(~even)

    loads, gathered, again = np.zeros(m), np.zeros(m), np.zeros(m)
    if touched.operands:
        least = np.min(wide[: touched.operands], axis=0)
        shared = code.unrolled2 & (code.wide + least <= registers)
        operations = code.operations()
        for i in range(touched.operands):
            load = np.where(shared, wide[i] / code.wide, narrow[i] / code.tile)
            fits = once[i] + code.held <= registers
            load = np.where(fits, np.minimum(load, once[i] / operations), load)
            loads += load
            gathered += np.where(gathers[i], load, 0.0)
            if code.spans["S2"] and code.unrolled2.any():
                again += _again(code, narrow[i], touched.moves[i])
    return Operands(loads, gathered, gathers[-1], again)


def _moved(code: InnerCode, role: str, moves: Sequence[bool]) -> Floats:
    """float64[m], different elements that the role's loops reach."""
    return np.asarray(np.prod(code.rest[[i for i in code.spans[role] if moves[i]]], axis=0))


def _again(code: InnerCode, narrow: Floats, moves: Sequence[bool]) -> Floats:
    """float64[m], registers of an operand that several turns of S2 need; narrow: those of a step."""
    still = [level for level in code.spans["S2"] if not moves[level]]
    return np.where((code.rest[still] > 1).any(axis=0), narrow * _moved(code, "R1", moves), 0.0)

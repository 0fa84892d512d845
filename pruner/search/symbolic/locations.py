"""The rule of `SampleComputeLocation`: which loops a block may move to, per row."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pruner.search.nest import Loop
from pruner.search.symbolic.dependence import can_compute_at, can_inline, common_branch, consumers
from pruner.search.symbolic.polynomial import Polynomial, as_key
from pruner.search.symbolic.program import Block, Program
from pruner.search.symbolic.tape import Tape


@dataclass(frozen=True)
class Site:
    """A loop around the first consumer, by its index there. `usable`: TVM can move the block there."""

    index: int
    loop: Loop
    reduces: bool
    usable: bool


class Locations:
    """The site locations of one block in one program."""

    def __init__(self, program: Program, block: Block) -> None:
        self.inline = can_inline(program, block)
        self.sites = _sites(program, block)
        self._tape = Tape()
        self._slots = [self._tape.slot(site.loop.extent) for site in self.sites]

    @property
    def key(self) -> Hashable:
        """Equal where `resolve` is."""
        rules = [(c.index, as_key(c.loop.extent), c.reduces, c.usable) for c in self.sites]
        return self.inline, tuple(rules)

    def loop(self, location: int) -> Loop:
        """The loop of a location that is one."""
        return next(c.loop for c in self.sites if c.index == location)

    def resolve(self, columns: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        """The location TVM uses for each wanted one: itself when valid, else the largest valid one below
        it, else the root. columns: `width x rows`; wanted: int64[rows].

        Unit loops are not valid, nor data parallel loops inside a reduction loop."""
        resolved = np.full(len(wanted), -1, dtype=np.int64)
        if self.inline:
            resolved[wanted == -2] = -2
        values = self._tape.run(columns)
        reducing: NDArray[np.bool_] | bool = False
        closed: NDArray[np.bool_] | bool = False
        for site, slot in zip(self.sites, self._slots, strict=True):
            moves = values[slot] != 1
            if moves is False:
                continue
            if site.reduces:
                reducing = reducing | moves
            else:
                closed = closed | (moves & reducing)
            if site.usable:
                valid = (wanted >= site.index) & moves
                if closed is not False:
                    valid &= np.logical_not(closed)
                resolved[valid] = site.index
        return resolved


def _sites(program: Program, block: Block) -> tuple[Site, ...]:
    users = consumers(program, block)
    if not users:
        return ()
    boundary = common_branch(program, users)
    path = program.path(users[0])
    end = next(i for i, branch in enumerate(path) if branch is boundary)
    branches = path[1 : end + 1]
    reduced = {
        loop
        for other, _ in program.blocks()
        for axis in other.axes
        if axis.reduce
        for loop in other.binding[axis.domain].loops()
    }
    last = max((i for i, b in enumerate(branches) if b.loop not in reduced), default=-1)
    found = []
    for i, branch in enumerate(branches[: last + 1]):
        assert branch.loop is not None
        if isinstance(branch.loop.extent, Polynomial) or branch.loop.extent != 1:
            usable = can_compute_at(program, block, branch)
            found.append(Site(i, branch.loop, branch.loop in reduced, usable))
    return tuple(found)

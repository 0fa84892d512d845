"""Replays a trace on a symbolic `Program`, one instruction at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.s_tir.schedule import Instruction

from pruner.search.nest import Extent, Loop
from pruner.search.sketch import CategoryGene, Gene, TileGene
from pruner.search.symbolic import inlining, placement, primitives
from pruner.search.symbolic.dependence import consumers, producers
from pruner.search.symbolic.polynomial import Symbols
from pruner.search.symbolic.program import Block, Program, UnsupportedSketch
from pruner.search.symbolic.rfactor import rfactor

INLINE, ROOT = -2, -1  # compute locations that are no loop
ROOT_BLOCK = "root"


@dataclass
class State:
    """A program in the making. `values` maps the trace's random variables to block names, loops, extents
    and the two locations that are no loop."""

    program: Program
    values: dict[Any, Any]

    def clone(self) -> State:
        """A state that can be advanced on its own."""
        return State(self.program.clone(), dict(self.values))

    def block(self, variable: Any) -> Block:
        """The block a random variable stands for."""
        name = self.values[variable]
        found = [b for b, _ in self.program.blocks() if b.name == name]
        if len(found) != 1:
            raise UnsupportedSketch(f"{len(found)} blocks are called {name}.")
        return found[0]

    def step(self, instruction: Instruction, gene: Gene | None, symbols: Symbols) -> None:
        """Executes any instruction but `SampleComputeLocation`. Raises UnsupportedSketch."""
        kind = str(instruction.kind.name)
        if kind == "SamplePerfectTile" and isinstance(gene, TileGene):
            loop = self.values[instruction.inputs[0]]
            if not isinstance(loop.extent, int) or loop.extent != gene.extent:
                raise UnsupportedSketch(f"The tile of loop {loop.name} has an extent that differs by row.")
            results: Sequence[Any] = symbols.tile(gene.start, gene.parts, gene.extent)
        elif kind == "SampleCategorical" and isinstance(gene, CategoryGene):
            results = [symbols.lookup(gene.start, gene.values)]
        elif kind in _STEPS:
            results = _STEPS[kind](self, instruction.inputs, instruction.attrs)
        else:
            raise UnsupportedSketch(f"Instruction {kind} has no symbolic form.")
        self.values.update(zip(instruction.outputs, results, strict=True))

    def get(self, value: Any) -> Any:
        """The value of an instruction's argument: a random variable's, or the constant itself."""
        if isinstance(value, tirx.IntImm):
            return int(value)
        return value if isinstance(value, (int, str)) else self.values[value]


def _get_block(state: State, inputs: Any, attrs: Any) -> Sequence[Any]:
    return [str(attrs[0])]


def _get_loops(state: State, inputs: Any, attrs: Any) -> Sequence[Any]:
    return state.program.loops(state.block(inputs[0]))


def _get_consumers(state: State, inputs: Any, attrs: Any) -> Sequence[Any]:
    return [b.name for b in consumers(state.program, state.block(inputs[0]))]


def _get_producers(state: State, inputs: Any, attrs: Any) -> Sequence[Any]:
    return [b.name for b in producers(state.program, state.block(inputs[0]))]


def _split(state: State, inputs: Any, attrs: Any) -> Sequence[Any]:
    if any(factor is None for factor in inputs[1:]):
        raise UnsupportedSketch("A split leaves a factor open.")
    return primitives.split(state.program, state.get(inputs[0]), [state.get(f) for f in inputs[1:]])


def _fuse(state: State, inputs: Any, attrs: Any) -> Sequence[Any]:
    return [primitives.fuse(state.program, [state.get(loop) for loop in inputs])]


def _reorder(state: State, inputs: Any, attrs: Any) -> Sequence[Any]:
    primitives.reorder(state.program, [state.get(loop) for loop in inputs])
    return []


def _inline(state: State, inputs: Any, attrs: Any) -> Sequence[Any]:
    inlining.compute_inline(state.program, state.block(inputs[0]))
    return []


def _reverse_inline(state: State, inputs: Any, attrs: Any) -> Sequence[Any]:
    inlining.reverse_compute_inline(state.program, state.block(inputs[0]))
    return []


def _cache_write(state: State, inputs: Any, attrs: Any) -> Sequence[Any]:
    if any(len(extra) for extra in inputs[1:]):
        raise UnsupportedSketch("A cache_write names its consumers.")
    block = state.block(inputs[0])
    return [placement.cache_write(state.program, block, int(attrs[0]), str(attrs[1])).name]


def _rfactor(state: State, inputs: Any, attrs: Any) -> Sequence[Any]:
    loop = state.get(inputs[0])
    block = next(b for b, path in state.program.blocks() if any(p.loop is loop for p in path))
    new, _ = rfactor(state.program, block, loop, int(attrs[0]))
    return [new.name]


def _mover(move: Callable[[Program, Block, Loop], Block]) -> Callable[[State, Any, Any], Sequence[Any]]:
    def step(state: State, inputs: Any, attrs: Any) -> Sequence[Any]:
        block, target = state.block(inputs[0]), state.get(inputs[1])
        if isinstance(target, Loop):
            if int(attrs[1]) != -1:
                raise UnsupportedSketch("A block is moved to a place other than the last.")
            move(state.program, block, target)
        elif target == INLINE:
            inlining.compute_inline(state.program, block)
        return []

    return step


def _annotate(state: State, inputs: Any, attrs: Any) -> Sequence[Any]:
    target, key = state.get(inputs[0]), str(attrs[0])
    if target == ROOT_BLOCK and key.startswith("meta_schedule."):
        value: Extent = state.get(inputs[1])
        match key.removeprefix("meta_schedule."):
            case "parallel":
                state.program.parallel = int(value)
            case "vectorize":
                state.program.vectorize = int(value)
            case "unroll_explicit" | "unroll_implicit":
                state.program.unroll = value
    return []


def _ignore(state: State, inputs: Any, attrs: Any) -> Sequence[Any]:
    return []


_STEPS: Mapping[str, Callable[[State, Any, Any], Sequence[Any]]] = {
    "GetSBlock": _get_block,
    "GetLoops": _get_loops,
    "GetConsumers": _get_consumers,
    "GetProducers": _get_producers,
    "Split": _split,
    "Fuse": _fuse,
    "Reorder": _reorder,
    "ComputeInline": _inline,
    "ReverseComputeInline": _reverse_inline,
    "ComputeAt": _mover(placement.compute_at),
    "ReverseComputeAt": _mover(placement.reverse_compute_at),
    "CacheWrite": _cache_write,
    "RFactor": _rfactor,
    "Annotate": _annotate,
    "Unannotate": _ignore,
}

"""Replays a trace on a symbolic `Program`, one instruction at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tvm.s_tir.schedule import Instruction

from pruner.search.nest import Loop
from pruner.search.sketch import CategoryGene, Gene, TileGene
from pruner.search.symbolic import caching, inlining, placement, primitives
from pruner.search.symbolic.dependence import consumers, producers
from pruner.search.symbolic.polynomial import Symbols
from pruner.search.symbolic.program import Block, Program, UnsupportedSketch
from pruner.search.symbolic.rfactor import rfactor
from pruner.search.tir_reader import plain

INLINE, ROOT = -2, -1  # compute locations that are no loop
ROOT_BLOCK = "root"
NO_LIMIT = 2**31 - 1


@dataclass
class State:
    """A program in the making. `values` maps the trace's random variables to identities of blocks, loops,
    extents and the two locations that are no loop."""

    program: Program
    values: dict[Any, Any]

    def clone(self) -> State:
        """A state that can be advanced on its own."""
        return State(self.program.clone(), dict(self.values))

    def block(self, variable: Any) -> Block:
        """The block a random variable stands for."""
        identity = self.values[variable]
        return next(b for b, _ in self.program.blocks() if b.identity is identity)

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
        value = plain(value)
        return value if isinstance(value, (int, str, tuple)) else self.values[value]

    def alter(self, loop: Loop, **changes: Any) -> None:
        """Changes a loop as `primitives.alter` does, for all random variables that stand for it."""
        new = primitives.alter(self.program, loop, **changes)
        self.values = {v: new if value is loop else value for v, value in self.values.items()}


def _get_block(state: State, inputs: Any, attrs: Any) -> Sequence[Any]:
    name = str(attrs[0])
    if name == ROOT_BLOCK:
        return [ROOT_BLOCK]
    found = [b.identity for b, _ in state.program.blocks() if b.name == name]
    if len(found) != 1:
        raise UnsupportedSketch(f"{len(found)} blocks are called {name}.")
    return found


def _get_loops(state: State, inputs: Any, attrs: Any) -> Sequence[Any]:
    return state.program.loops(state.block(inputs[0]))


def _get_consumers(state: State, inputs: Any, attrs: Any) -> Sequence[Any]:
    return [b.identity for b in consumers(state.program, state.block(inputs[0]))]


def _get_producers(state: State, inputs: Any, attrs: Any) -> Sequence[Any]:
    return [b.identity for b in producers(state.program, state.block(inputs[0]))]


def _split(state: State, inputs: Any, attrs: Any) -> Sequence[Any]:
    factors = [None if factor is None else state.get(factor) for factor in inputs[1:]]
    return primitives.split(state.program, state.get(inputs[0]), factors)


def _fuse(state: State, inputs: Any, attrs: Any) -> Sequence[Any]:
    return [primitives.fuse(state.program, [state.get(loop) for loop in inputs])]


def _reorder(state: State, inputs: Any, attrs: Any) -> Sequence[Any]:
    primitives.reorder(state.program, [state.get(loop) for loop in inputs])
    return []


def _add_unit_loop(state: State, inputs: Any, attrs: Any) -> Sequence[Any]:
    target = state.get(inputs[0])
    inside = target if isinstance(target, Loop) else state.block(inputs[0])
    return [primitives.add_unit_loop(state.program, inside)]


def _inline(state: State, inputs: Any, attrs: Any) -> Sequence[Any]:
    inlining.compute_inline(state.program, state.block(inputs[0]))
    return []


def _reverse_inline(state: State, inputs: Any, attrs: Any) -> Sequence[Any]:
    inlining.reverse_compute_inline(state.program, state.block(inputs[0]))
    return []


def _bind(state: State, inputs: Any, attrs: Any) -> Sequence[Any]:
    state.alter(state.get(inputs[0]), kind=str(attrs[0]))
    return []


def _unroll(state: State, inputs: Any, attrs: Any) -> Sequence[Any]:
    state.alter(state.get(inputs[0]), kind="unrolled")
    return []


def _cache_read(state: State, inputs: Any, attrs: Any) -> Sequence[Any]:
    block, readers = state.block(inputs[0]), [state.block(reader) for reader in inputs[1]]
    return [caching.cache_read(state.program, block, int(attrs[0]), str(attrs[1]), readers).identity]


def _set_scope(state: State, inputs: Any, attrs: Any) -> Sequence[Any]:
    caching.set_scope(state.program, state.block(inputs[0]), int(attrs[0]), str(attrs[1]))
    return []


def _cache_write(state: State, inputs: Any, attrs: Any) -> Sequence[Any]:
    if any(len(extra) for extra in inputs[1:]):
        raise UnsupportedSketch("A cache_write names its consumers.")
    block = state.block(inputs[0])
    return [caching.cache_write(state.program, block, int(attrs[0]), str(attrs[1])).identity]


def _rfactor(state: State, inputs: Any, attrs: Any) -> Sequence[Any]:
    loop = state.get(inputs[0])
    block = next(b for b, path in state.program.blocks() if any(p.loop is loop for p in path))
    new, _ = rfactor(state.program, block, loop, int(attrs[0]))
    return [new.identity]


def _mover(move: Callable[[Program, Block, Loop], Block]) -> Callable[[State, Any, Any], Sequence[Any]]:
    def step(state: State, inputs: Any, attrs: Any) -> Sequence[Any]:
        block, target = state.block(inputs[0]), state.get(inputs[1])
        if isinstance(target, Loop):
            if not int(attrs[0]) or int(attrs[1]) != -1:
                raise UnsupportedSketch("A block is moved without unit loops, or not to the last place.")
            move(state.program, block, target)
        elif target == INLINE:
            inlining.compute_inline(state.program, block)
        return []

    return step


def _annotate(state: State, inputs: Any, attrs: Any) -> Sequence[Any]:
    target, value, key = state.get(inputs[0]), state.get(inputs[1]), str(attrs[0])
    program = state.program
    if isinstance(target, Loop):
        state.alter(target, note=(key, value))
        return []
    match key.removeprefix("meta_schedule."):
        case "parallel" if target == ROOT_BLOCK:
            program.parallel = value
        case "vectorize" if target == ROOT_BLOCK:
            program.vectorize = value
        case "unroll_explicit" | "unroll_implicit" if target == ROOT_BLOCK:
            program.unroll = value
        case "cooperative_fetch":
            block = state.block(inputs[0])
            program.replace_block(block, replace(block, fetch=value))
        case "thread_extent_low_inclusive":
            block = state.block(inputs[0])
            program.replace_block(block, replace(block, threads=(value, NO_LIMIT)))
        case "thread_extent_high_inclusive":
            block = state.block(inputs[0])
            least = block.threads[0] if block.threads else 0
            program.replace_block(block, replace(block, threads=(least, value)))
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
    "AddUnitLoop": _add_unit_loop,
    "Bind": _bind,
    "Unroll": _unroll,
    "CacheRead": _cache_read,
    "CacheWrite": _cache_write,
    "SetScope": _set_scope,
    "RFactor": _rfactor,
    "Annotate": _annotate,
    "Unannotate": _ignore,
}

"""TVM's lowered program read by brute force: which box of a buffer a store touches, loop by loop."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from tvm import tirx
from tvm.ir import Call, Expr, IRModule, TensorLoad, Var
from tvm.s_tir import SBlockRealize, transform

LIMIT = 2e6
_OPERATORS = {
    tirx.Add: operator.add,
    tirx.Sub: operator.sub,
    tirx.Mul: operator.mul,
    tirx.FloorDiv: operator.floordiv,
    tirx.FloorMod: operator.mod,
    tirx.Min: np.minimum,
    tirx.Max: np.maximum,
    tirx.LT: operator.lt,
    tirx.And: np.logical_and,
}


class TooLarge(Exception):
    """More points than a test should try."""


def lower(module: IRModule) -> IRModule:
    """The passes that TVM runs before it extracts features."""
    for step in (
        transform.LowerCrossThreadReduction(),
        transform.LowerInitBlock(),
        transform.PlanAndUpdateBufferAllocationLocation(),
        transform.ConvertBlocksToOpaque(),
        transform.CompactBufferAllocation(),
        tirx.transform.StmtSimplify(),
        transform.LowerAutoCopy(),
        transform.UnifyThreadBinding(),
        transform.LowerMatchBuffer(),
        tirx.transform.StmtSimplify(),
    ):
        module = step(module)
    return module


@dataclass
class Access:
    """A buffer in a store: its name and item size, and every access's indices."""

    name: str
    itemsize: int
    shape: list[int]
    indices: list[list[object]]


@dataclass
class LoweredStore:
    """A store: its loops, those of one serial turn left out, the conditions around it, and its buffers, the
    written one first."""

    loops: list[tirx.For]
    conditions: list[object]
    accesses: list[Access]
    constant: bool

    def box(self, access: Access) -> list[int]:
        """Lengths of the box that all loops touch. Raises TooLarge where that takes too long to try."""
        turns = {loop.loop_var: int(loop.extent.value) for loop in self.loops}
        ends = [
            [_ends(index[n], self.conditions, turns) for index in access.indices]
            for n in range(len(access.shape))
        ]
        return [max(b for _, b in dim) - min(a for a, _ in dim) + 1 for dim in ends]


def stores(module: IRModule) -> list[LoweredStore]:
    """The stores of a lowered module in program order."""
    [function] = [f for f in module.functions.values() if isinstance(f, tirx.PrimFunc)]
    found: list[LoweredStore] = []

    def visit(stmt: object, loops: list[tirx.For], conditions: list[object]) -> None:
        match stmt:
            case tirx.For():
                kept = int(stmt.extent.value) > 1 or stmt.kind != tirx.ForKind.SERIAL or stmt.annotations
                visit(stmt.body, [*loops, stmt] if kept else loops, conditions)
            case tirx.SeqStmt():
                for part in stmt.seq:
                    visit(part, loops, conditions)
            case SBlockRealize():
                visit(stmt.block, loops, [*conditions, stmt.predicate])
            case tirx.IfThenElse():
                visit(stmt.then_case, loops, [*conditions, stmt.condition])
            case tirx.BufferStore():
                found.append(_store(stmt, loops, conditions))
            case _:
                part = getattr(stmt, "body", None)
                if part is not None:
                    visit(part, loops, conditions)

    visit(function.body, [], [])
    return found


def _store(stmt: tirx.BufferStore, loops: list[tirx.For], conditions: list[object]) -> LoweredStore:
    touched: dict[Var, Access] = {}

    def touch(buffer: Var, indices: object) -> None:
        known = touched.setdefault(
            buffer,
            Access(str(buffer.name), buffer.dtype.bits // 8, [int(dim.value) for dim in buffer.shape], []),
        )
        known.indices.append(list(indices))

    touch(stmt.buffer, stmt.indices)

    for node in _nodes(stmt.value):
        if isinstance(node, TensorLoad) and not node.source.same_as(stmt.buffer):
            touch(node.source, node.indices)
    constant = isinstance(stmt.value, (tirx.IntImm, tirx.FloatImm))
    return LoweredStore(loops, conditions, list(touched.values()), constant)


def _ends(index: object, conditions: list[object], turns: dict[Var, int]) -> tuple[int, int]:
    """The least and the greatest value at all turns of the loops for which the conditions hold."""
    nodes = [node for expr in (index, *conditions) for node in _nodes(expr)]
    names = list(dict.fromkeys(node for node in nodes if isinstance(node, Var) and node in turns))
    if np.prod([turns[name] for name in names], dtype=float) > LIMIT:
        raise TooLarge
    grid = np.meshgrid(*(np.arange(turns[name]) for name in names), indexing="ij", sparse=True)
    at = dict(zip(names, grid, strict=True))
    holds = np.ones([turns[name] for name in names], dtype=bool)
    for condition in conditions:
        holds &= np.asarray(_value(condition, at), dtype=bool)
    values = np.broadcast_to(np.asarray(_value(index, at)), holds.shape)[holds]
    return int(values.min()), int(values.max())


def _value(expr: object, at: dict[Var, np.ndarray]) -> object:
    if isinstance(expr, Var):
        return at.get(expr, 0)
    if isinstance(expr, tirx.IntImm):
        return int(expr.value)
    return _OPERATORS[type(expr)](_value(expr.a, at), _value(expr.b, at))


def _nodes(expr: object) -> Iterator[object]:
    yield expr
    if isinstance(expr, Call):
        parts = list(expr.args)
    elif isinstance(expr, TensorLoad):
        parts = list(expr.indices)
    else:
        names = ("a", "b", "value", "condition", "true_value", "false_value")
        parts = [getattr(expr, name, None) for name in names if not isinstance(expr, (Var, tirx.IntImm))]
    for part in parts:
        if isinstance(part, Expr):
            yield from _nodes(part)

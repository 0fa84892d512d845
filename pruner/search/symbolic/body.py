"""What one instance of a block does: operations, reads and writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import tvm_ffi
from tvm import tirx
from tvm.ir import Call, Expr, TensorLoad, Var
from tvm.s_tir import SBlock

_KIND = {
    tirx.Add: "add",
    tirx.Sub: "add",
    tirx.Mul: "mul",
    tirx.Div: "div",
    tirx.FloorDiv: "div",
    tirx.Mod: "mod",
    tirx.FloorMod: "mod",
    tirx.Max: "max",
    tirx.Min: "max",
    tirx.EQ: "cmp",
    tirx.NE: "cmp",
    tirx.LT: "cmp",
    tirx.LE: "cmp",
    tirx.GT: "cmp",
    tirx.GE: "cmp",
    tirx.And: "cmp",
    tirx.Or: "cmp",
    tirx.Not: "cmp",
    tirx.Select: "select",
    tirx.Cast: "cast",
}
_ADDRESS = ("add", "mul", "div", "mod")
# A vector instruction, about as slow as a division.
_ROOT = ("sqrt", "rsqrt")
_TRANSCENDENTAL = ("exp", "log", "tanh", "sigmoid", "erf", "pow", "sin", "cos", "tan")


@dataclass(frozen=True)
class Touch:
    """One buffer access as TVM writes it."""

    buffer: Var
    indices: tuple[Expr, ...]


@dataclass(frozen=True)
class Body:
    """`ops` as in `Statement.ops`. `reads` are distinct and leave out the element that an update reads
    back, `loads` is how often the body has each; `writes` leave out those of the initialisation, which
    are the same. `combiner` is the kind of the outermost operation of a body that is one store."""

    ops: Counter[str]
    reads: tuple[Touch, ...]
    loads: tuple[int, ...]
    writes: tuple[Touch, ...]
    combiner: str


def read_body(block: SBlock) -> Body:
    """The body of a block without blocks inside it."""
    reader = _Reader()
    reader.statement(block.body)
    writes = _distinct(reader.writes)
    reads = tuple(r for r in _distinct(reader.reads) if not any(_same(r, w) for w in writes))
    loads = tuple(sum(_same(read, other) for other in reader.reads) for read in reads)
    single = isinstance(block.body, tirx.BufferStore)
    combiner = _KIND.get(type(block.body.value), "") if single else ""
    return Body(reader.ops, reads, loads, writes, combiner)


def _same(a: Touch, b: Touch) -> bool:
    return (
        a.buffer.same_as(b.buffer)
        and len(a.indices) == len(b.indices)
        and all(tvm_ffi.structural_equal(x, y) for x, y in zip(a.indices, b.indices, strict=True))
    )


def _distinct(touches: list[Touch]) -> tuple[Touch, ...]:
    found: list[Touch] = []
    for touch in touches:
        if not any(_same(touch, other) for other in found):
            found.append(touch)
    return tuple(found)


class _Reader:
    """Collects accesses and operations; conditions on indices alone are address arithmetic."""

    def __init__(self) -> None:
        self.ops: Counter[str] = Counter()
        self.reads: list[Touch] = []
        self.writes: list[Touch] = []

    def statement(self, stmt: tirx.Stmt) -> None:
        match stmt:
            case tirx.BufferStore():
                self.writes.append(Touch(stmt.buffer, tuple(stmt.indices)))
                self.data(stmt.value)
                for index in stmt.indices:
                    self.index(index)
            case tirx.SeqStmt():
                for part in stmt.seq:
                    self.statement(part)
            case tirx.IfThenElse():
                self.ops["select"] += 1
                self.condition(stmt.condition)
                self.statement(stmt.then_case)
                if stmt.else_case is not None:
                    self.statement(stmt.else_case)
            case tirx.Bind() | tirx.Evaluate():
                self.data(stmt.value)
            case _:
                # Loops and other statements inside a block: what they contain counts once.
                for name in ("value", "body"):
                    part = getattr(stmt, name, None)
                    if isinstance(part, tirx.Stmt):
                        self.statement(part)

    def condition(self, expr: Expr) -> None:
        if any(True for _ in loads(expr)):
            self.data(expr)

    def index(self, expr: Expr) -> None:
        for load in loads(expr):
            self.data(load)

    def data(self, expr: Expr) -> None:
        """Counts the operations of a value; integers made of block axes alone are addresses as well."""
        match expr:
            case TensorLoad():
                self.reads.append(Touch(expr.source, tuple(expr.indices)))
                for index in expr.indices:
                    self.index(index)
                return
            case tirx.Select():
                self.ops["select"] += 1
                self.condition(expr.condition)
                self.data(expr.true_value)
                self.data(expr.false_value)
                return
            case Call():
                name = expr.op.name.rsplit(".", 1)[-1] if hasattr(expr.op, "name") else ""
                if name == "if_then_else":
                    self.ops["select"] += 1
                    self.condition(expr.args[0])
                    self.data(expr.args[1])
                    self.data(expr.args[2])
                    return
                self.ops[_call_kind(name)] += 1
        kind = _KIND.get(type(expr))
        if kind in _ADDRESS and _is_integer(expr) and not any(True for _ in loads(expr)):
            return
        if kind is not None:
            self.ops[kind] += 1
        for part in _children(expr):
            self.data(part)


def _call_kind(name: str) -> str:
    if name in _ROOT:
        return "root"
    return "exp" if name.startswith(_TRANSCENDENTAL) else "other"


def _is_integer(expr: Expr) -> bool:
    return str(expr.ty.dtype).startswith(("int", "uint"))


def _children(expr: Expr) -> Iterator[Expr]:
    if isinstance(expr, Call):
        yield from (arg for arg in expr.args if isinstance(arg, Expr))
        return
    for name in ("a", "b", "value", "body"):
        part = getattr(expr, name, None)
        if isinstance(part, Expr):
            yield part


def loads(expr: Expr) -> Iterator[TensorLoad]:
    """The outermost buffer loads of an expression."""
    if isinstance(expr, TensorLoad):
        yield expr
        return
    if isinstance(expr, tirx.Select):
        parts: tuple[Expr, ...] = (expr.condition, expr.true_value, expr.false_value)
    else:
        parts = tuple(_children(expr))
    for part in parts:
        yield from loads(part)

"""The slow reference: reads a `Nest` of one row out of a materialised program."""

from __future__ import annotations

import tvm_ffi
from tvm import tirx
from tvm.ir import IRModule, Var
from tvm.s_tir import SBlock, SBlockRealize, Schedule
from tvm.tirx import For, ForKind, PrimFunc, SeqStmt, Stmt

from pruner.search.nest import Access, Buffer, Linear, Loop, Nest, Statement
from pruner.search.symbolic.affine import NotAffine, constant, parse_index
from pruner.search.symbolic.body import Touch, read_body

COOPERATIVE_FETCH = "meta_schedule.cooperative_fetch"
_REDUCE = 2  # IterVar::kCommReduce
_KIND = {
    ForKind.SERIAL: "serial",
    ForKind.PARALLEL: "parallel",
    ForKind.VECTORIZED: "vectorized",
    ForKind.UNROLLED: "unrolled",
}


def read_nest(program: IRModule | Schedule | PrimFunc) -> Nest:
    """The loop nest of a module with one function, its blocks scheduled or not. Extents are ints; a loop
    whose extent is no constant counts as 1, an index that is not affine as standing still."""
    if isinstance(program, Schedule):
        program = program.mod
    if isinstance(program, IRModule):
        program = next(f for f in program.functions.values() if isinstance(f, PrimFunc))
    reader = _Reader(program)
    root = program.body.block
    reader.statement(root.body, ())
    notes = {str(key): value for key, value in root.annotations.items()}
    return Nest(
        rows=1,
        statements=tuple(reader.statements),
        parallel=int(notes.get("meta_schedule.parallel", 0)),
        vectorize=int(notes.get("meta_schedule.vectorize", 0)),
        unroll=int(notes.get("meta_schedule.unroll_explicit", notes.get("meta_schedule.unroll_implicit", 0))),
    )


def make_buffer(buffer: Var, *, argument: bool) -> Buffer:
    """The buffer's name, shape and type; a symbolic dimension counts as 1."""
    shape = tuple(int(getattr(dim, "value", 1)) for dim in buffer.shape)
    bits = buffer.dtype.bits * buffer.dtype.lanes
    return Buffer(
        name=str(buffer.name),
        shape=shape,
        dtype=str(buffer.dtype),
        itemsize=max(1, (bits + 7) // 8),
        scope=str(buffer.scope()),
        argument=argument,
    )


def plain(value: object) -> object:
    """An annotation's value as Python has it: numbers are ints, arrays tuples."""
    if isinstance(value, tvm_ffi.Array):
        return tuple(plain(part) for part in value)
    return int(value.value) if isinstance(value, tirx.IntImm) else value


class _Reader:
    def __init__(self, func: PrimFunc) -> None:
        self.parameters = set(func.params)
        self.buffers: dict[Var, Buffer] = {}
        self.variables: dict[Var, Linear] = {}
        self.statements: list[Statement] = []

    def statement(self, stmt: Stmt, loops: tuple[Loop, ...]) -> None:
        match stmt:
            case For():
                tag = stmt.thread_binding
                loop = Loop(
                    extent=int(getattr(stmt.extent, "value", 1)),
                    kind=str(tag.thread_tag) if tag is not None else _KIND[ForKind(stmt.kind)],
                    name=str(stmt.loop_var.name),
                    annotations={str(key): plain(value) for key, value in stmt.annotations.items()},
                )
                self.variables[stmt.loop_var] = Linear({loop: 1})
                self.statement(stmt.body, (*loops, loop))
            case SeqStmt():
                for part in stmt.seq:
                    self.statement(part, loops)
            case SBlockRealize():
                self.block(stmt, loops)
            case _:
                body = getattr(stmt, "body", getattr(stmt, "then_case", None))
                if body is not None:
                    self.statement(body, loops)

    def block(self, realize: SBlockRealize, loops: tuple[Loop, ...]) -> None:
        block: SBlock = realize.block
        reduces: set[Loop] = set()
        for axis, value in zip(block.iter_vars, realize.iter_values, strict=True):
            form = self.form(value)
            self.variables[axis.var] = form
            if int(axis.iter_type) == _REDUCE:
                reduces |= form.loops()
        if _has_block(block.body):
            self.statement(block.body, loops)
            return
        body = read_body(block)
        writes = tuple(self.access(touch) for touch in body.writes)
        self.statements.append(
            Statement(
                name=str(block.name_hint),
                loops=loops,
                reduces=frozenset(reduces),
                reads=tuple(self.access(touch) for touch in body.reads),
                writes=writes,
                ops=dict(body.ops),
                dtype=writes[0].buffer.dtype if writes else "float32",
                has_init=block.init is not None,
                fetch=int(block.annotations.get(COOPERATIVE_FETCH, 0)),
            )
        )

    def form(self, expr: object) -> Linear:
        try:
            return parse_index(expr, lambda var: self.variables.get(var, constant(0)))
        except NotAffine:
            return constant(0)

    def access(self, touch: Touch) -> Access:
        if touch.buffer not in self.buffers:
            self.buffers[touch.buffer] = make_buffer(touch.buffer, argument=touch.buffer in self.parameters)
        return Access(self.buffers[touch.buffer], tuple(self.form(index) for index in touch.indices))


def _has_block(stmt: Stmt) -> bool:
    match stmt:
        case SBlockRealize():
            return True
        case SeqStmt():
            return any(_has_block(part) for part in stmt.seq)
    body = getattr(stmt, "body", getattr(stmt, "then_case", None))
    return body is not None and _has_block(body)

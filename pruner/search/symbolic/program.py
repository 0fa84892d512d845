"""The program that a trace is replayed on: a tree of loops and blocks with symbolic extents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from tvm import tirx
from tvm.ir import Expr, IRModule, Var
from tvm.s_tir import SBlock, SBlockRealize
from tvm.tirx import For, PrimFunc, SeqStmt, Stmt

from pruner.errors import PrunerError
from pruner.search.nest import Access, Buffer, Extent, Linear, Loop
from pruner.search.symbolic.affine import NotAffine, parse_index, substitute
from pruner.search.symbolic.body import read_body
from pruner.search.tir_reader import make_buffer

REDUCE = 2  # IterVar::kCommReduce


class UnsupportedSketch(PrunerError):
    """A sketch, or the program it schedules, that symbolic replay cannot express, with the reason."""


@dataclass(eq=False)
class Axis:
    """A block iterator: a placeholder loop over its domain, which starts at zero."""

    domain: Loop
    reduce: bool = False


@dataclass(eq=False)
class Region:
    """The part of a buffer that one block instance touches: per dimension, the least index over the
    block's axes and a length. `affine` is false where an index depends on data."""

    buffer: Buffer
    least: tuple[Linear, ...]
    lengths: tuple[int, ...]
    affine: bool = True


@dataclass(eq=False)
class Block:
    """A block. `binding` gives every axis's domain loop as a form over the loops around the block;
    accesses and regions are forms over the axes. `fetch`: as in `Statement`. `threads`: least and most
    threads that the block may run in, when the sketch says so. `identity` stays when the block is replaced
    by a changed one."""

    name: str
    axes: tuple[Axis, ...]
    binding: Mapping[Loop, Linear]
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    read_regions: tuple[Region, ...]
    write_regions: tuple[Region, ...]
    ops: Mapping[str, int]
    dtype: str
    has_init: bool
    single_store: bool  # the body is one store
    loads: tuple[int, ...]  # how often the body has each of `reads`
    combiner: str = ""  # the outermost operation of a body that is one store
    fetch: Extent = 0
    threads: tuple[int, int] | None = None
    identity: object = field(default_factory=object)

    @cached_property
    def bound(self) -> tuple[tuple[Access, ...], tuple[Access, ...]]:
        """Reads and writes as forms over the loops around the block."""
        return tuple(map(self._bind, self.reads)), tuple(map(self._bind, self.writes))

    def _bind(self, access: Access) -> Access:
        return Access(access.buffer, tuple(substitute(form, self.binding) for form in access.index))


@dataclass(eq=False)
class Branch:
    """A loop of the tree and what is in it. The root has no loop."""

    loop: Loop | None
    children: list[Branch | Block] = field(default_factory=list)


@dataclass(eq=False)
class Program:
    """A scheduled program. `constant` holds a 0/1 value per loop whose extent may depend on outer
    loops: 1 in the rows where it is a constant after all. `reads_part`: the root block names the part of a
    buffer that it reads."""

    root: Branch
    parallel: Extent = 0
    vectorize: Extent = 0
    unroll: Extent = 0
    constant: tuple[Extent, ...] = ()
    reads_part: bool = False
    _blocks: list[tuple[Block, tuple[Branch, ...]]] | None = field(default=None, init=False)

    def clone(self) -> Program:
        """A copy whose tree can be changed."""
        return replace(self, root=_clone(self.root))

    def blocks(self) -> list[tuple[Block, tuple[Branch, ...]]]:
        """Blocks in program order, each with the branches around it, root first."""
        if self._blocks is None:
            self._blocks = []
            _walk(self.root, (self.root,), self._blocks)
        return self._blocks

    def changed(self) -> None:
        """To be called when branches or blocks of the tree were added, replaced or taken out."""
        self._blocks = None

    def path(self, block: Block) -> tuple[Branch, ...]:
        """The branches around a block, root first."""
        return next(path for other, path in self.blocks() if other is block)

    def loops(self, block: Block) -> tuple[Loop, ...]:
        """The loops around a block."""
        return tuple(branch.loop for branch in self.path(block)[1:] if branch.loop is not None)

    def replace_block(self, old: Block, new: Block) -> None:
        """Puts a block in another's place."""
        children = self.path(old)[-1].children
        children[_position(children, old)] = new
        self.changed()

    def remove(self, block: Block) -> None:
        """Takes a block out of the tree, and the loops that are empty without it."""
        path = self.path(block)
        self.changed()
        child: Branch | Block = block
        for branch in reversed(path):
            del branch.children[_position(branch.children, child)]
            if branch.children:
                return
            child = branch


def _position(children: list[Branch | Block], child: Branch | Block) -> int:
    return next(i for i, other in enumerate(children) if other is child)


def _clone(branch: Branch) -> Branch:
    return Branch(branch.loop, [_clone(c) if isinstance(c, Branch) else c for c in branch.children])


def _walk(branch: Branch, path: tuple[Branch, ...], found: list[tuple[Block, tuple[Branch, ...]]]) -> None:
    for child in branch.children:
        if isinstance(child, Block):
            found.append((child, path))
        else:
            _walk(child, (*path, child), found)


def parse_program(mod: IRModule) -> Program:
    """The program of a module with one unscheduled function. Raises UnsupportedSketch."""
    func = next(f for f in mod.functions.values() if isinstance(f, PrimFunc))
    root = Branch(None)
    _Parser(func).statement(func.body.block.body, root, {})
    return Program(root, reads_part=len(func.body.block.reads) > 0)


class _Parser:
    def __init__(self, func: PrimFunc) -> None:
        self.parameters = set(func.params)
        self.buffers: dict[Var, Buffer] = {}

    def statement(self, stmt: Stmt, parent: Branch, loops: dict[Var, Linear]) -> None:
        match stmt:
            case SeqStmt():
                for part in stmt.seq:
                    self.statement(part, parent, loops)
            case For():
                if int(stmt.kind) != 0 or not isinstance(stmt.extent, tirx.IntImm) or int(stmt.min) != 0:
                    raise UnsupportedSketch(f"Loop {stmt.loop_var.name} is not a plain loop from 0.")
                branch = Branch(Loop(int(stmt.extent), name=str(stmt.loop_var.name)))
                assert branch.loop is not None
                parent.children.append(branch)
                self.statement(stmt.body, branch, {**loops, stmt.loop_var: Linear({branch.loop: 1})})
            case SBlockRealize():
                parent.children.append(self.block(stmt, loops))
            case _:
                raise UnsupportedSketch(f"A {type(stmt).__name__} stands outside the blocks.")

    def block(self, realize: SBlockRealize, loops: dict[Var, Linear]) -> Block:
        block: SBlock = realize.block
        if not isinstance(block.body, (tirx.BufferStore, SeqStmt, tirx.IfThenElse)):
            raise UnsupportedSketch(f"The body of block {block.name_hint} is no sequence of stores.")
        axes: list[Axis] = []
        binding: dict[Loop, Linear] = {}
        variables: dict[Var, Linear] = {}
        for axis, value in zip(block.iter_vars, realize.iter_values, strict=True):
            if int(axis.iter_type) not in (0, REDUCE):
                raise UnsupportedSketch(f"Block {block.name_hint} has an axis that is no plain one.")
            if not isinstance(axis.dom.extent, tirx.IntImm) or int(axis.dom.min) != 0:
                raise UnsupportedSketch(f"Block {block.name_hint} has an axis without a constant domain.")
            domain = Loop(int(axis.dom.extent), name=str(axis.var.name))
            axes.append(Axis(domain, int(axis.iter_type) == REDUCE))
            variables[axis.var] = Linear({domain: 1})
            try:
                binding[domain] = parse_index(value, lambda var: loops[var])
            except (NotAffine, KeyError) as error:
                raise UnsupportedSketch(f"Block {block.name_hint} binds an axis to {value}.") from error
        body = read_body(block)
        writes = tuple(self.access(t.buffer, t.indices, variables) for t in body.writes)
        if not writes:
            raise UnsupportedSketch(f"Block {block.name_hint} writes no buffer.")
        return Block(
            name=str(block.name_hint),
            axes=tuple(axes),
            binding=binding,
            reads=tuple(self.access(t.buffer, t.indices, variables) for t in body.reads),
            writes=writes,
            read_regions=tuple(self.region(r, variables) for r in block.reads),
            write_regions=tuple(self.region(r, variables) for r in block.writes),
            ops=dict(body.ops),
            dtype=writes[0].buffer.dtype,
            has_init=block.init is not None,
            single_store=isinstance(block.body, tirx.BufferStore),
            loads=body.loads,
            combiner=body.combiner,
        )

    def buffer(self, var: Var) -> Buffer:
        if var not in self.buffers:
            self.buffers[var] = make_buffer(var, argument=var in self.parameters)
        return self.buffers[var]

    def access(self, var: Var, indices: tuple[Expr, ...], variables: Mapping[Var, Linear]) -> Access:
        forms = []
        for index in indices:
            try:
                forms.append(parse_index(index, lambda v: variables.get(v, Linear({}))))
            except NotAffine:
                forms.append(Linear({}))
        return Access(self.buffer(var), tuple(forms))

    def region(self, region: tirx.BufferRegion, variables: Mapping[Var, Linear]) -> Region:
        least, lengths = [], []
        affine = True
        for part in region.region:
            try:
                least.append(parse_index(part.min, lambda v: variables[v]))
            except (NotAffine, KeyError):
                least.append(Linear({}))
                affine = False
            affine = affine and isinstance(part.extent, tirx.IntImm)
            lengths.append(int(getattr(part.extent, "value", 1)))
        return Region(self.buffer(region.source), tuple(least), tuple(lengths), affine)

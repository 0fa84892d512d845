"""What may stand in an old node graph, and what it is called today: the closed table of `node_graph`."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import IRModule, Range
from tvm.s_tir import SBlock, SBlockRealize

# A tensor larger than any machine's memory, and a loop that never ends.
LARGEST = 1 << 40
_DTYPE = re.compile(r"bool|handle|(u?int|float)(8|16|32|64)|int1|uint1|bfloat16")
# Functions without effects, by where TVM keeps them now; anything else could run foreign code once the
# program is built.
_PURE = {
    "tirx": "exp exp2 exp10 log log10 log1p sqrt rsqrt sigmoid tanh sin cos tan asin acos atan atan2 sinh "
    "cosh asinh acosh atanh erf pow fabs floor round trunc nearbyint fmod hypot copysign popcount isnan "
    "isinf isfinite reinterpret",
    "prim": "if_then_else likely log2 ceil clz",
}
_FUNCTIONS = {f"tir.{name}": f"{home}.{name}" for home, names in _PURE.items() for name in names.split()}
# Functions that are expressions of their own now.
_EXPRESSIONS: dict[str, Callable[..., Any]] = {
    "tir.shift_left": tirx.LShift,
    "tir.shift_right": tirx.RShift,
    "tir.bitwise_and": tirx.BitwiseAnd,
    "tir.bitwise_or": tirx.BitwiseOr,
    "tir.bitwise_xor": tirx.BitwiseXor,
    "tir.bitwise_not": tirx.BitwiseNot,
}
_RENAMED_ATTRS = {"tir.noalias": "tirx.noalias"}
_SERIAL, _THREAD_BINDING = 0, 4


@dataclass
class Fields:
    """A node while it is built. name: its kind; children: node numbers by field; items: those of `data`."""

    name: str
    node: Any
    attrs: Any
    named: dict[str, int]
    numbers: list[int]
    _built: dict[int, Any] = field(default_factory=dict)

    @property
    def children(self) -> list[int]:
        """All nodes that must be built before."""
        return [*self.named.values(), *self.numbers]

    def resolve(self, built: dict[int, Any]) -> None:
        """Takes what the children became."""
        self._built = built

    def child(self, name: str) -> Any:
        """The object of a field."""
        return self._built[self.named[name]]

    @property
    def items(self) -> list[Any]:
        """The objects of `data`."""
        return [self._built[number] for number in self.numbers]

    def number(self, name: str) -> int:
        """An integer attribute; it is written as text."""
        return int(self.attrs[name])

    def dtype(self) -> str:
        """The `dtype` attribute. Raises ValueError for one that programs do not have."""
        dtype = str(self.attrs["dtype"])
        if not _DTYPE.fullmatch(dtype):
            raise ValueError(f'dtype "{dtype[:40]}" is not accepted')
        return "bool" if dtype in ("int1", "uint1") else dtype


@dataclass(frozen=True)
class Kind:
    """fields: attributes that are nodes and are needed; items: whether `data` is."""

    build: Callable[[Fields], Any]
    fields: tuple[str, ...] = ()
    items: bool = False


@dataclass(frozen=True, eq=False)
class Pointer:
    """A variable that stands for memory: of a buffer, or a parameter that a buffer is bound to."""

    name: str
    scope: str


def _map(node: Fields) -> list[tuple[Any, Any]]:
    """Pairs, since objects are keys; the keys of a map from text stand in the node itself."""
    values = node.items
    keys = node.node.get("keys")
    if keys is None:
        return list(zip(values[::2], values[1::2], strict=True))
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise ValueError("its keys are no texts")
    return list(zip(keys, values, strict=True))


def _string(node: Fields) -> str:
    if "repr_b64" in node.node:
        return base64.b64decode(node.node["repr_b64"], validate=True).decode("utf-8")
    text = node.node.get("repr_str", "")
    if not isinstance(text, str):
        raise ValueError("its text is no text")
    return text


def _integer(node: Fields) -> Any:
    return tirx.IntImm(node.dtype(), node.number("value"))


def _plain(value: Any) -> Any:
    """An annotation as today's TVM holds it: numbers and text, not expressions."""
    if isinstance(value, (tirx.IntImm, tirx.FloatImm)):
        return bool(value.value) if str(value.ty) == "bool" else value.value
    if isinstance(value, list):
        if value and isinstance(value[0], tuple):
            return {key: _plain(item) for key, item in value}
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return value
    raise ValueError(f"an annotation is a {type(value).__name__}")


def _annotations(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
    return {str(key): _plain(value) for key, value in pairs}


def _variable(node: Fields) -> Any:
    name = node.child("name")
    kind = node.child("type_annotation")
    if node.attrs["dtype"] == "handle":
        return Pointer(name, kind if isinstance(kind, str) else "")
    return tirx.Var(name, node.dtype())


def _type(node: Fields) -> None:
    node.dtype()


def _buffer(node: Fields) -> Any:
    """Buffers carry their memory with them now; nothing else may use it."""
    if node.number("buffer_type") != 1 or node.child("axis_separators") or node.child("strides"):
        raise ValueError("a buffer with strides, broadcasting or axis separators is not read")
    shape = node.child("shape")
    if prod(_constant(extent) for extent in shape) > LARGEST:
        raise ValueError("a buffer has more elements than any machine can hold")
    return tirx.decl_buffer(
        shape,
        node.dtype(),
        node.child("name"),
        elem_offset=node.child("elem_offset"),
        scope=node.child("data").scope,
        data_alignment=node.number("data_alignment"),
        offset_factor=node.number("offset_factor"),
        layout=None,
    )


def _constant(extent: Any) -> int:
    """Raises ValueError for a length that is no positive number: such a program is not one task."""
    if not isinstance(extent, tirx.IntImm) or not 0 < extent.value <= LARGEST:
        raise ValueError(f"a length of {extent} is not accepted; a number from 1 to 2**40 is needed")
    return int(extent.value)


def _range(node: Fields) -> Range:
    return Range.from_min_extent(node.child("min"), node.child("extent"))


def _iterator(node: Fields) -> Any:
    _constant(node.child("dom").extent)
    domain, tag = node.child("dom"), node.child("thread_tag")
    return tirx.IterVar(domain, node.child("var"), node.number("iter_type"), tag)


def _loop(node: Fields) -> Any:
    _constant(node.child("extent"))
    kind = node.number("kind")
    if not _SERIAL <= kind < _THREAD_BINDING:
        raise ValueError(f"a loop of kind {kind} does not stand in a program that is to be tuned")
    return tirx.For(
        node.child("loop_var"),
        node.child("min"),
        node.child("extent"),
        kind,
        node.child("body"),
        annotations=_annotations(node.child("annotations")),
    )


def _block(node: Fields) -> SBlock:
    if node.child("match_buffers"):
        raise ValueError("a block that binds a part of a buffer is not read")
    return SBlock(
        node.child("iter_vars"),
        node.child("reads"),
        node.child("writes"),
        node.child("name_hint"),
        node.child("body"),
        node.child("init"),
        node.child("alloc_buffers"),
        [],
        _annotations(node.child("annotations")),
    )


def _let(node: Fields) -> Any:
    """Today a binding is a statement of the sequence whose later statements see it."""
    body = node.child("body")
    rest = list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]
    return tirx.SeqStmt([tirx.Bind(node.child("var"), node.child("value")), *rest])


def _call(node: Fields) -> Any:
    name, arguments = node.child("op"), node.child("args")
    if name in _EXPRESSIONS:
        return _EXPRESSIONS[name](*arguments)
    return tirx.call_intrin(node.dtype(), _FUNCTIONS[name], *arguments)


def _operator(node: Fields) -> str:
    name = _string(node)
    if name not in _FUNCTIONS and name not in _EXPRESSIONS:
        raise ValueError(f'function "{name[:60]}" is not accepted: it may have effects')
    return name


def _function(node: Fields) -> Any:
    """Parameters are buffers now, where they were handles with a map to buffers."""
    bound = {id(handle): buffer for handle, buffer in node.child("buffer_map")}
    params = node.child("params")
    if not all(id(param) in bound for param in params):
        raise ValueError("a parameter is no tensor of a fixed shape")
    attrs = _annotations(node.child("attrs"))
    attrs = {_RENAMED_ATTRS.get(name, name): value for name, value in attrs.items()}
    return tirx.PrimFunc(
        [bound[id(param)] for param in params],
        node.child("body"),
        ret_type=tvm.ir.TupleType([]),
        attrs=tvm.ir.make_node("ir.DictAttrs", **attrs, s_tir=True),
    )


def _module(node: Fields) -> IRModule:
    functions = node.child("functions")
    if len(functions) != 1 or not isinstance(functions[0][1], tirx.PrimFunc):
        raise ValueError(f"it has {len(functions)} functions; one tensor program is needed")
    return IRModule({functions[0][0]: functions[0][1]})


def _binary(make: Callable[[Any, Any], Any]) -> Kind:
    return Kind(lambda node: make(node.child("a"), node.child("b")), ("a", "b"))


def _made(make: Callable[..., Any], *names: str) -> Kind:
    """A node whose fields are the arguments of today's constructor, in order."""
    return Kind(lambda node: make(*(node.child(name) for name in names)), names)


def _ignored(node: Fields) -> None:
    return None


_ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Mod", "FloorDiv", "FloorMod", "Min", "Max")
_LOGIC = ("EQ", "NE", "LT", "LE", "GT", "GE", "And", "Or")

KINDS: dict[str, Kind] = {
    "": Kind(_ignored),
    "Array": Kind(lambda node: node.items, items=True),
    "Map": Kind(_map, items=True),
    "runtime.String": Kind(_string),
    "IntImm": Kind(_integer),
    "FloatImm": Kind(lambda node: tirx.FloatImm(node.dtype(), float(node.attrs["value"]))),
    "PrimType": Kind(_type),
    "PointerType": Kind(lambda node: node.child("storage_scope"), ("storage_scope",)),
    "Range": Kind(_range, ("min", "extent")),
    "Op": Kind(_operator),
    "DictAttrs": Kind(lambda node: node.child("__dict__"), ("__dict__",)),
    "GlobalVar": Kind(lambda node: node.child("name_hint"), ("name_hint",)),
    "IRModule": Kind(_module, ("functions",)),
    "tir.PrimFunc": Kind(_function, ("params", "body", "buffer_map", "attrs")),
    "tir.Var": Kind(_variable, ("name", "type_annotation")),
    "tir.Buffer": Kind(_buffer, ("data", "name", "shape", "strides", "axis_separators", "elem_offset")),
    "tir.IterVar": Kind(_iterator, ("dom", "var", "thread_tag")),
    "tir.For": Kind(_loop, ("loop_var", "min", "extent", "body", "annotations")),
    "tir.Block": Kind(
        _block,
        (
            *("iter_vars", "reads", "writes", "name_hint", "body", "init"),
            *("alloc_buffers", "match_buffers", "annotations"),
        ),
    ),
    "tir.BlockRealize": _made(SBlockRealize, "iter_values", "predicate", "block"),
    "tir.BufferRegion": _made(tirx.BufferRegion, "buffer", "region"),
    "tir.BufferLoad": _made(tirx.BufferLoad, "buffer", "indices"),
    "tir.BufferStore": _made(tirx.BufferStore, "buffer", "value", "indices"),
    "tir.SeqStmt": _made(tirx.SeqStmt, "seq"),
    "tir.LetStmt": Kind(_let, ("var", "value", "body")),
    "tir.Call": Kind(_call, ("op", "args")),
    "tir.Cast": Kind(lambda node: tirx.Cast(node.dtype(), node.child("value")), ("value",)),
    "tir.Not": _made(tirx.Not, "a"),
    "tir.Select": _made(tirx.Select, "condition", "true_value", "false_value"),
    **{f"tir.{name}": _binary(getattr(tirx, name)) for name in (*_ARITHMETIC, *_LOGIC)},
}

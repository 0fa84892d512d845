"""What may stand in a node graph of today that is one tensor program: the closed table of `check_todays`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """The fields of a kind. parts: are nodes, which TVM follows without looking; optional: are nodes too, but
    may be None; numbers: hold a value of their own."""

    parts: tuple[str, ...]
    optional: tuple[str, ...]
    numbers: tuple[str, ...]

    @classmethod
    def of(cls, fields: str) -> Kind:
        """From the names of the fields; `?` marks an optional one, `#` a number. All have a span."""
        names = fields.split()
        return cls(
            tuple(name for name in names if name[-1] not in "?#"),
            ("span", *(name[:-1] for name in names if name[-1] == "?")),
            tuple(name[:-1] for name in names if name[-1] == "#"),
        )


# Kinds whose data is a value, and those whose data is a list of nodes.
VALUES = ("None", "int", "bool", "float", "DataType", "str", "ffi.String", "ffi.Shape", "ir.Op")
LISTS = ("ffi.Array", "ffi.Map")
# Numbers that TVM takes for members of an enumeration without looking, and their last members.
MEMBERS = {("tirx.For", "kind"): 4, ("tirx.IterVar", "iter_type"): 8}
# The kind of loop that needs a thread.
THREAD_BINDING = 4

_BINARY = (
    *("Add", "Sub", "Mul", "Div", "Mod", "FloorDiv", "FloorMod", "Min", "Max"),
    *("EQ", "NE", "LT", "LE", "GT", "GE", "And", "Or"),
)
_FIELDS = {
    **{f"prim.{name}": "ty a b" for name in _BINARY},
    "prim.Not": "ty a",
    "prim.Select": "ty condition true_value false_value",
    "prim.Cast": "ty value",
    "prim.Let": "ty var value body",
    "ir.Type": "",
    "ir.PrimType": "dtype#",
    "ir.PointerType": "element_type storage_scope",
    "ir.TupleType": "fields",
    "relax.FuncType": "params? ret derive_func? purity#",
    "relax.ShapeType": "values? ndim#",
    "relax.TensorType": "shape? dtype? vdevice? ndim#",
    "relax.expr.ShapeExpr": "ty values",
    "tirx.BufferType": "dtype storage_scope shape strides elem_offset data_alignment# offset_factor# layout? "
    "allocated_addr",
    "tirx.BufferRegionType": "",
    "ir.IRModule": "functions global_var_map_ source_map attrs global_infos",
    "ir.SourceMap": "source_map",
    "ir.DictAttrs": "__dict__",
    "ir.GlobalVar": "ty name_hint",
    "tirx.PrimFunc": "ty attrs params ret_type body",
    "ir.IntImm": "ty value",
    "ir.FloatImm": "ty value#",
    "ir.StringImm": "ty value",
    "ir.Var": "ty name",
    "ir.Call": "ty op args attrs? ty_args",
    "ir.Range": "min extent",
    "ir.TensorLoad": "ty source indices",
    "ir.TensorRegion": "ty source region",
    "s_tir.SBlock": "iter_vars reads writes name_hint alloc_buffers match_buffers annotations init? body",
    "s_tir.SBlockRealize": "iter_values predicate block",
    "s_tir.MatchBufferRegion": "buffer source",
    "tirx.IterVar": "dom? var iter_type# thread_tag",
    "tirx.For": "loop_var min extent kind# body thread_binding? annotations step?",
    "tirx.While": "condition body",
    "tirx.IfThenElse": "condition then_case else_case?",
    "tirx.SeqStmt": "seq",
    "tirx.Bind": "var value",
    "tirx.Evaluate": "value",
    "tirx.AttrStmt": "node attr_key value body",
    "tirx.AssertStmt": "error_kind condition message_parts",
    "tirx.AllocBuffer": "buffer annotations",
    "tirx.DeclBuffer": "buffer data",
    "tirx.BufferStore": "buffer value indices",
    "tirx.IndexMap": "initial_indices final_indices inverse_index_map?",
}
KINDS = {name: Kind.of(fields) for name, fields in _FIELDS.items()}

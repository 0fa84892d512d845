"""Node graphs of today's TVM: programs pass, and what would end this process by a signal is refused."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
import tvm
from tvm.target import Target
from tvm_ffi import core, structural_equal

from pruner.errors import ConfigError
from pruner.records.graph_kinds import KINDS
from pruner.records.node_graph import check_todays
from pruner.records.workloads import read_module
from pruner.workload import load_task

CPU = Target({"kind": "llvm", "num-cores": 1})
# Static types of fields whose value stands in the object: None, int, bool, float and data type.
INLINE = range(0, 6)
OPTIONAL = '{"type":"Optional"'
# Fields that are not declared as optional and that TVM leaves empty all the same.
EMPTY = {"ir.Call": {"attrs"}, "tirx.IterVar": {"dom"}}


def graph(name: str = "GMM/0") -> Any:
    return json.loads(tvm.ir.save_json(load_task(name, CPU).mod))


@pytest.mark.parametrize("name", ["GMM/0", "C2D/0", "CBR/0", "SFM/0", "T2D/0", "DEP/0", "NRM/0", "TBG/0"])
def test_programs_of_tvm_pass(name: str) -> None:
    task = load_task(name, CPU)
    assert structural_equal(read_module(tvm.ir.save_json(task.mod), name), task.mod)


def fields(kind: str) -> dict[str, Any]:
    """The fields of a kind and of those that it descends from, as TVM describes them."""
    info = core._lookup_or_register_type_info_from_type_key(kind)
    found = {}
    while info is not None:
        found |= {field.name: field for field in info.fields or ()}
        info = info.parent_type_info
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_table_names_the_fields_that_tvm_has(kind: str) -> None:
    theirs, ours = fields(kind), KINDS[kind]
    assert {*ours.parts, *ours.optional, *ours.numbers} - {"span"} == set(theirs) - {"span"}
    inline = {name for name, field in theirs.items() if field.field_static_type_index in INLINE}
    assert set(ours.numbers) == inline
    optional = {name for name, field in theirs.items() if field.metadata["type_schema"].startswith(OPTIONAL)}
    assert set(ours.optional) == {"span", *optional, *EMPTY.get(kind, ())}


def first(nodes: list[Any], kind: str) -> Any:
    return next(node for node in nodes if node["type"] == kind)


def chain(g: Any, kind: str, make: Callable[[Any, int], Any]) -> None:
    """Puts 100,000 nodes, each the only part of the next, before the first node of a kind."""
    at = next(i for i, node in enumerate(g["nodes"]) if node["type"] == kind)
    made = [{"type": make(g, at)[0], "data": make(g, at + i)[1]} for i in range(100_000)]
    g["nodes"][at:at] = made
    g["root_index"] = at + len(made) - 1


def casts(g: Any, below: int) -> Any:
    ty = next(i for i, node in enumerate(g["nodes"]) if node["type"] == "ir.PrimType")
    return "prim.Cast", {"span": 0, "ty": ty, "value": below - 1}


def binds(g: Any, below: int) -> Any:
    variable = next(i for i, node in enumerate(g["nodes"]) if node["type"] == "ir.Var")
    return "tirx.Bind", {"span": 0, "var": variable, "value": below - 1}


def stores(g: Any, below: int) -> Any:
    return "tirx.BufferStore", {"span": 0, "buffer": 1, "value": below - 1, "indices": 1}


def deep(make: Callable[[Any, int], Any]) -> Callable[[Any], None]:
    return lambda g: chain(g, "tirx.BufferStore", make)


def put(kind: str, field: str, value: Any) -> Callable[[Any], None]:
    return lambda g: first(g["nodes"], kind)["data"].__setitem__(field, value)


def lose(kind: str, field: str) -> Callable[[Any], None]:
    return lambda g: first(g["nodes"], kind)["data"].pop(field)


def become(kind: str, name: str) -> Callable[[Any], None]:
    return lambda g: first(g["nodes"], kind).__setitem__("type", name)


HOSTILE = [
    (deep(casts), "nested .* deep"),
    (deep(binds), "nested .* deep"),
    (deep(stores), "nested .* deep"),
    (put("tirx.BufferStore", "value", True), "value of node .* is True"),
    (put("ir.Range", "min", True), "min of node .* is True"),
    (put("ir.Range", "min", 10**6), "min of node .* is 1000000"),
    (put("ir.Range", "min", 0), "lacks min"),
    (put("tirx.For", "body", 0), "lacks body"),
    (lose("ir.IntImm", "ty"), "lacks ty"),
    (put("tirx.For", "kind", 4), "lacks thread_binding"),
    (put("tirx.For", "kind", 99), "kind of node .* is 99"),
    (put("tirx.IterVar", "iter_type", -1), "iter_type of node .* is -1"),
    (put("tirx.For", "colour", 1), "has other fields"),
    (become("tirx.For", "s_tir.Trace"), 'of kind "s_tir.Trace"'),
    (lambda g: first(g["nodes"], "ffi.Array").update(data=[0]), "a part that is None"),
    (lambda g: first(g["nodes"], "tirx.For").update(data=[]), "data of another form"),
    (lambda g: g.update(root_index=True), "the root is True"),
    (lambda g: g.update(nodes={}), "no node graph"),
]


@pytest.mark.parametrize(("change", "reason"), HOSTILE)
def test_a_hostile_graph_is_refused_by_name(change: Any, reason: str) -> None:
    changed = copy.deepcopy(graph())
    change(changed)
    with pytest.raises(ConfigError, match=reason):
        check_todays(changed)
    with pytest.raises(ConfigError, match="the program of it cannot be read"):
        read_module(json.dumps(changed), "it")

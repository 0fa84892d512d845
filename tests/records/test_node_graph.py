"""Old node graphs against the same programs written for today's TVM, and against hostile ones."""

import base64
import copy
import json
from typing import Any

import pytest
import tvm
from tvm import te, topi
from tvm.ir import IRModule
from tvm.target import Target

from pruner.errors import ConfigError
from pruner.records.node_graph import decode, unpack
from pruner.workload import make_task
from tests.records.old_database import CONV, DENSE, FLATTEN, SOFTMAX, WINOGRAD, WORKLOADS, lines

CPU = Target({"kind": "llvm", "num-cores": 1})


def graph(task: int) -> Any:
    return unpack(json.loads(lines(WORKLOADS)[task])[1])


def program(*tensors: te.Tensor) -> IRModule:
    return make_task(te.create_prim_func(list(tensors), index_dtype_override="int64"), CPU).mod


def placeholder(name: str, *shape: int) -> te.Tensor:
    return te.placeholder(shape, name=name)


def convolution() -> IRModule:
    x, w = placeholder("p0", 1, 3, 224, 224), placeholder("p1", 64, 3, 7, 7)
    b = placeholder("p2", 1, 64, 1, 1)
    y = topi.nn.conv2d_nchw(x, w, stride=2, padding=3, dilation=1)
    return program(x, w, b, topi.nn.relu(topi.add(y, b)))


def softmax() -> IRModule:
    x = placeholder("p0", 1, 1000)
    return program(x, topi.nn.softmax(x))


def flat() -> IRModule:
    x = placeholder("p0", 1, 512, 1, 1)
    return program(x, topi.nn.flatten(x))


@pytest.mark.parametrize(
    ("task", "written"),
    [(CONV, convolution), (SOFTMAX, softmax), (FLATTEN, flat)],
    ids=["conv", "softmax", "flat"],
)
def test_a_decoded_program_equals_the_one_written_today(task: int, written: Any) -> None:
    decoded = make_task(decode(graph(task)), CPU).mod
    tvm.ir.assert_structural_equal(decoded, written())


@pytest.mark.parametrize("task", [CONV, WINOGRAD, FLATTEN, DENSE, SOFTMAX])
def test_decoded_programs_compile(task: int) -> None:
    assert tvm.compile(make_task(decode(graph(task)), CPU).mod, target=CPU).mod is not None


def test_names_of_blocks_stay_and_attributes_are_todays() -> None:
    mod = decode(graph(WINOGRAD))
    names = [mod["main"].body.block.body.seq[i] for i in (1, 3)]
    inner = []
    for statement in names:
        while not hasattr(statement, "block"):
            statement = statement.body
        inner.append(statement.block)
    assert [block.name_hint for block in inner] == ["input_tile", "data_pack"]
    assert inner[1].annotations["schedule_rule"] == "conv2d_nchw_winograd_data_pack"
    assert mod["main"].attrs["tirx.noalias"]
    assert list(mod["main"].attrs["layout_free_buffers"]) == [1]


def _first(nodes: list[Any], kind: str) -> Any:
    return next(node for node in nodes if node["type_key"] == kind)


def _deep(g: Any) -> None:
    """A sum nested a hundred thousand times."""
    store, n = _first(g["nodes"], "tir.BufferStore"), len(g["nodes"])
    value = store["attrs"]["value"]
    for i in range(100_000):
        below = value if i == 0 else str(n + i - 1)
        g["nodes"].append({"type_key": "tir.Add", "attrs": {"a": below, "b": value}})
    store["attrs"]["value"] = str(len(g["nodes"]) - 1)


def _doubling(g: Any) -> None:
    """A sum of shared nodes that is small as a graph and has 2**60 nodes as a tree."""
    store, n = _first(g["nodes"], "tir.BufferStore"), len(g["nodes"])
    for i in range(60):
        below = store["attrs"]["value"] if i == 0 else str(n + i - 1)
        g["nodes"].append({"type_key": "tir.Add", "attrs": {"a": below, "b": below}})
    store["attrs"]["value"] = str(len(g["nodes"]) - 1)


def _cyclic(g: Any) -> None:
    _first(g["nodes"], "tir.SeqStmt" if "tir.SeqStmt" in str(g) else "tir.For")["attrs"]["body"] = str(
        g["root"]
    )


def _set(kind: str, field: str, value: Any) -> Any:
    def change(g: Any) -> None:
        _first(g["nodes"], kind)["attrs"][field] = value

    return change


def _rename(kind: str, to: str) -> Any:
    def change(g: Any) -> None:
        _first(g["nodes"], kind)["type_key"] = to

    return change


def _effect(g: Any) -> None:
    _first(g["nodes"], "Op")["repr_str"] = "tir.call_extern"


HOSTILE = [
    (FLATTEN, _deep, "nested .* deep"),
    (FLATTEN, _doubling, "counts .* nodes"),
    (FLATTEN, _cyclic, "contains itself"),
    (FLATTEN, _set("tir.For", "extent", "99999"), "extent of node .* (tir.For) is 99999"),
    (FLATTEN, _set("tir.For", "body", "-1"), "body of node .* is -1"),
    (FLATTEN, _set("tir.For", "kind", "4"), "loop of kind 4"),
    (FLATTEN, _set("tir.Var", "dtype", "float32x9999999"), "dtype"),
    (FLATTEN, _set("IntImm", "value", "x"), "IntImm"),
    (FLATTEN, _rename("tir.For", "tir.While"), 'of kind "tir.While"'),
    (FLATTEN, _rename("tir.Buffer", "runtime.Module"), 'of kind "runtime.Module"'),
    (SOFTMAX, _effect, "may have effects"),
    (FLATTEN, lambda g: g["nodes"].extend([{"type_key": ""}] * 300_000), "300"),
    (FLATTEN, lambda g: g.update(nodes={}), "no node graph"),
    (FLATTEN, lambda g: g.update(root="x"), "the root is x"),
    (FLATTEN, lambda g: g.update(b64ndarrays=["AAAA"]), "constant tensors"),
]


@pytest.mark.parametrize(("task", "change", "reason"), HOSTILE)
def test_a_hostile_graph_is_refused_by_name(task: int, change: Any, reason: str) -> None:
    changed = copy.deepcopy(graph(task))
    change(changed)
    with pytest.raises(ConfigError, match=reason.replace("(", r"\(").replace(")", r"\)")):
        decode(changed)


def test_text_that_is_no_graph_is_refused() -> None:
    whole = base64.b64decode(json.loads(lines(WORKLOADS)[FLATTEN])[1])
    for encoded, reason in (
        (7, "base64 text is needed"),
        ("!!!", "no base64"),
        ("AAAA", "bytes long"),
        (base64.b64encode(whole[:-5]).decode(), "bytes long"),
        (base64.b64encode((9).to_bytes(8, "little") + b"not json!").decode(), "cannot be read"),
    ):
        with pytest.raises(ConfigError, match=reason):
            unpack(encoded)

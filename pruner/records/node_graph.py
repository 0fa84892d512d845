"""The JSON node graph that TVM 0.9 to 0.18 saved objects as, read safely into today's objects.

A graph is a list of nodes; the fields of a node are numbers of other nodes, so that shared objects stay
shared. Nothing of it is executed: what may stand in it is the closed table of `node_kinds`. Nodes are built
children first by a loop, not by recursion, and sizes are bounded before TVM, which recurses, sees anything.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from pruner.errors import ConfigError
from pruner.records.graph_kinds import KINDS as TODAYS_KINDS
from pruner.records.graph_kinds import LISTS, MEMBERS, THREAD_BINDING, VALUES
from pruner.records.node_kinds import KINDS, Fields
from pruner.records.reading import parse, within
from pruner.search.materialise import reason_of

# A program of a network has a few thousand nodes, nested some fifty deep.
NODES = 200_000
DEPTH = 400
# Counted as a tree, each shared node as often as it is reached: that is what TVM's passes walk.
TREE = 2_000_000
_LENGTH = 8  # bytes of length before the text


def decode(graph: object) -> Any:
    """The object at the root of a node graph of TVM 0.9 to 0.18. Raises ConfigError, naming the node and its
    kind, when it is none or holds anything but a tensor program."""
    if not isinstance(graph, dict) or not isinstance(graph.get("nodes"), list):
        raise ConfigError("it is no node graph: it needs a list `nodes` and a number `root`.")
    nodes = graph["nodes"]
    if len(nodes) > NODES:
        raise ConfigError(f"it has {len(nodes)} nodes; at most {NODES} are read.")
    if graph.get("b64ndarrays"):
        raise ConfigError("it holds constant tensors, which tuning tasks of these versions do not.")
    root = _index(graph.get("root"), len(nodes), "the root")
    built: dict[int, Any] = {}
    fields: dict[int, Fields] = {}
    sizes: dict[int, tuple[int, int]] = {}  # depth and tree size
    open_nodes: set[int] = set()
    stack = [root]
    while stack:
        number = stack[-1]
        if number in built:
            stack.pop()
        elif number in open_nodes:
            stack.pop()
            open_nodes.discard(number)
            below = [sizes[child] for child in fields[number].children]
            depth = 1 + max((depth for depth, _ in below), default=0)
            tree = 1 + sum(tree for _, tree in below)
            _check_size(number, depth, tree)
            sizes[number] = depth, tree
            built[number] = _build(number, fields[number], built)
        else:
            open_nodes.add(number)
            fields[number] = _fields(number, nodes)
            for child in fields[number].children:
                if child in open_nodes:
                    raise ConfigError(f"node {number} contains itself, through node {child}.")
                if child not in built:
                    stack.append(child)
    return built[root]


def unpack(encoded: object) -> Any:
    """The JSON value inside a workload's base64 text: eight bytes of length, little endian, and that many of
    text. Raises ConfigError for anything else."""
    if not isinstance(encoded, str):
        raise ConfigError(f"its program is a {type(encoded).__name__}; base64 text is needed.")
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ConfigError(f"its program is no base64 text ({error}).") from error
    length = int.from_bytes(data[:_LENGTH], "little")
    if len(data) < _LENGTH or length != len(data) - _LENGTH:
        raise ConfigError(
            f"its program says that it is {length} bytes long, and {max(len(data) - _LENGTH, 0)} follow."
        )
    try:
        return parse(data[_LENGTH:].decode("utf-8"))
    except ValueError as error:
        raise ConfigError(f"its program cannot be read: {error}.") from error


def check_todays(graph: object) -> None:
    """Raises ConfigError for a graph of today that TVM, which recurses and trusts it, must not be given: one
    that is too large or too deep, contains itself, lacks a part, or holds other things than programs."""
    nodes = graph.get("nodes") if isinstance(graph, dict) else None
    if not isinstance(graph, dict) or not isinstance(nodes, list) or not 0 < len(nodes) <= NODES:
        raise ConfigError(f"it is no node graph: a list of at most {NODES} nodes is needed.")
    _index(graph.get("root_index"), len(nodes), "the root")
    sizes: list[tuple[int, int]] = []
    empty: list[bool] = []
    for number, node in enumerate(nodes):
        name = node.get("type") if isinstance(node, dict) else None
        if not isinstance(name, str) or not (name in VALUES or name in LISTS or name in TODAYS_KINDS):
            raise ConfigError(f'node {number} is of kind "{str(name)[:60]}", which programs do not have.')
        below = [sizes[child] for child in _children_today(number, name, node.get("data"), empty)]
        depth = 1 + max((depth for depth, _ in below), default=0)
        tree = 1 + sum(tree for _, tree in below)
        _check_size(number, depth, tree)
        sizes.append((depth, tree))
        empty.append(name == "None")


def _children_today(number: int, name: str, data: Any, empty: list[bool]) -> list[int]:
    """The nodes that a node needs, all of which stand before it. empty: which of those are None."""
    where = f"node {number} ({name})"
    if name in VALUES:
        return []
    if name in LISTS:
        if not isinstance(data, list):
            raise ConfigError(f"{where} has data of another form.")
        found = [_index(value, number, f"a part of {where}") for value in data]
        if any(empty[child] for child in found):
            raise ConfigError(f"{where} has a part that is None.")
        return found
    if not isinstance(data, dict):
        raise ConfigError(f"{where} has data of another form.")
    kind = TODAYS_KINDS[name]
    given = {
        field: _index(data[field], number, f"{field} of {where}")
        for field in (*kind.parts, *kind.optional)
        if field in data
    }
    needed = kind.parts
    for field in kind.numbers:
        last = MEMBERS.get((name, field))
        if last is not None and not within(data.get(field), 0, last):
            raise ConfigError(
                f"{field} of {where} is {str(data.get(field))[:40]}; a number up to {last} is needed."
            )
        if name == "tirx.For" and data[field] == THREAD_BINDING:
            needed = (*needed, "thread_binding")
    for field in needed:
        if field not in given or empty[given[field]]:
            raise ConfigError(f"{where} lacks {field}.")
    if len(given) + len(kind.numbers) < len(data):
        raise ConfigError(f"{where} has other fields than {', '.join((*given, *kind.numbers))}.")
    return list(given.values())


def _check_size(number: int, depth: int, tree: int) -> None:
    if depth > DEPTH or tree > TREE:
        raise ConfigError(f"node {number} is nested {depth} deep and counts {tree} nodes: too many.")


def _fields(number: int, nodes: list[Any]) -> Fields:
    """A node of a known kind, its field values checked for form, and the nodes it needs."""
    node = nodes[number]
    if not isinstance(node, Mapping) or not isinstance(node.get("type_key"), str):
        raise ConfigError(f"node {number} is no object with a `type_key`.")
    name = node["type_key"]
    kind = KINDS.get(name)
    if kind is None:
        raise ConfigError(f'node {number} is of kind "{name[:60]}", which tensor programs do not have.')
    attrs = node.get("attrs", {})
    data = node.get("data", [])
    if not isinstance(attrs, Mapping) or not isinstance(data, list):
        raise ConfigError(f"node {number} ({name}) has attributes or data of another form.")
    where = f"node {number} ({name})"
    children = {}
    for field in kind.fields:
        if field not in attrs:
            raise ConfigError(f"{where} lacks {field}.")
        children[field] = _index(attrs[field], len(nodes), f"{field} of {where}")
    items = [_index(item, len(nodes), f"an item of {where}") for item in data] if kind.items else []
    return Fields(name, node, attrs, children, items)


def _build(number: int, fields: Fields, built: dict[int, Any]) -> Any:
    fields.resolve(built)
    try:
        return KINDS[fields.name].build(fields)
    except Exception as error:  # TVM's constructors raise their own kinds of error
        raise ConfigError(
            f"node {number} ({fields.name}) cannot be made: {reason_of(error)[:200]}"
        ) from error


def _index(value: object, n: int, what: str) -> int:
    """The number of a node, which attributes hold as text and arrays as integers."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 9:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < n:
        raise ConfigError(f"{what} is {str(value)[:40]}; one of {n} nodes is needed.")
    return value

"""Programs as files hold them: a line of `database_workload.json` of any TVM, or JSON of today's."""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import tvm
from tvm.ir import IRModule
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.meta_schedule.arg_info import ArgInfo
from tvm.s_tir.meta_schedule.database import Workload as TvmWorkload
from tvm.target import Target
from tvm_ffi import structural_hash

from pruner.errors import ConfigError, PrunerError
from pruner.records.database import plain
from pruner.records.node_graph import check_todays, decode, unpack
from pruner.records.reading import parse
from pruner.search.materialise import reason_of
from pruner.statements import statements
from pruner.workload import make_task

_ANY_TARGET = {"kind": "llvm", "num-cores": 1}


@dataclass(frozen=True, eq=False)
class Workload:
    """index: its line, counted without blank ones. arguments: of the program, as records repeat them.
    program: the same for equal programs whose blocks have equal names."""

    index: int
    mod: IRModule
    arguments: list[Any]
    program: Hashable


def read_workload(index: int, line: Any) -> Workload:
    """The program of `[hash, base64 text]`. Raises ConfigError when it cannot be read, or is damaged."""
    if not isinstance(line, list) or len(line) != 2:
        found = f"{len(line)} fields" if isinstance(line, list) else f"a {type(line).__name__}"
        raise ConfigError(f"it has {found}; a list of two, hash and program, is needed.")
    recorded, encoded = line
    if not isinstance(recorded, str) or not recorded.isdigit():
        raise ConfigError(f"its hash is {str(recorded)[:40]}; digits are needed.")
    graph = unpack(encoded)
    todays = isinstance(graph, dict) and "root_index" in graph
    mod = _well_formed(_todays_module(graph, recorded) if todays else decode(graph), f"workload {index}")
    arguments = [plain(info.as_json()) for info in ArgInfo.from_entry_func(mod, True)]
    return Workload(index, mod, arguments, (structural_hash(mod), block_names(mod)))


def read_module(text: object, name: str) -> IRModule:
    """The program that TVM's JSON is, normalised. Raises ConfigError when it cannot be read."""
    if not isinstance(text, str):
        raise ConfigError(f"the program of {name} is a {type(text).__name__}; JSON text is needed.")
    try:
        graph = parse(text)
        check_todays(graph)
        return _well_formed(_loaded(graph), name)
    except (ValueError, PrunerError) as error:
        raise ConfigError(f"the program of {name} cannot be read: {error}") from error


def block_names(mod: IRModule) -> tuple[str, ...]:
    """The names of the blocks, which traces find them by and TVM's comparisons of programs pass over."""
    return tuple(
        str(block.name_hint) for block, _ in statements(mod["main"].body) if isinstance(block, SBlock)
    )


def _well_formed(module: Any, name: str) -> IRModule:
    """The module as tasks hold it. Raises ConfigError when it is none, or not one that can be scheduled."""
    if not isinstance(module, IRModule):
        raise ConfigError(f"it holds a {type(module).__name__}; a module is needed.")
    try:
        mod = make_task(module, Target(_ANY_TARGET), name).mod
        Schedule(mod)
    except PrunerError as error:
        raise ConfigError(str(error)) from error
    except Exception as error:  # TVM raises its own kinds of error
        raise ConfigError(f"its program is not well-formed ({reason_of(error)[:200]}).") from error
    return mod


def _loaded(graph: Any) -> Any:
    """What TVM makes of a graph that is checked."""
    try:
        return tvm.ir.load_json(json.dumps(graph))
    except Exception as error:  # TVM raises its own kinds of error
        raise ConfigError(f"TVM cannot read it ({reason_of(error)[:200]}).") from error


def _todays_module(graph: dict[str, Any], recorded: str) -> Any:
    """What TVM itself makes of the graph. The hash that the file has for it is its own, if this version wrote
    it; older graphs' hashes cannot be computed any more."""
    check_todays(graph)
    module = _loaded(graph)
    metadata = graph.get("metadata")
    version = metadata.get("tvm_version") if isinstance(metadata, dict) else None
    if version == tvm.__version__ and isinstance(module, IRModule):
        try:
            computed = str(TvmWorkload(module).as_json()[0])
        except Exception as error:  # as above
            raise ConfigError(f"TVM cannot write it again ({reason_of(error)[:200]}).") from error
        if computed != recorded:
            raise ConfigError(f"its hash is {recorded}, its program's {computed}: the line is damaged.")
    return module

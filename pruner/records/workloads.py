"""One line of `database_workload.json`: a task's program, by any version of TVM."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import tvm
from tvm.ir import IRModule
from tvm.s_tir import Schedule
from tvm.s_tir.meta_schedule.arg_info import ArgInfo
from tvm.s_tir.meta_schedule.database import Workload as TvmWorkload
from tvm.target import Target
from tvm_ffi import structural_hash

from pruner.errors import ConfigError
from pruner.records.database import plain
from pruner.records.node_graph import check_todays, decode, unpack
from pruner.search.materialise import reason_of
from pruner.workload import make_task

_ANY_TARGET = {"kind": "llvm", "num-cores": 1}


@dataclass(frozen=True, eq=False)
class Workload:
    """index: its line, counted without blank ones. arguments: of the program, as records repeat them.
    program: a hash that is the same for equal programs."""

    index: int
    mod: IRModule
    arguments: list[Any]
    program: int


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
    module = _todays_module(graph, recorded) if todays else decode(graph)
    if not isinstance(module, IRModule):
        raise ConfigError(f"it holds a {type(module).__name__}; a module is needed.")
    mod = make_task(module, Target(_ANY_TARGET), f"workload {index}").mod
    try:
        Schedule(mod)
    except Exception as error:  # TVM raises its own kinds of error
        raise ConfigError(f"its program is not well-formed ({reason_of(error)[:200]}).") from error
    arguments = [plain(info.as_json()) for info in ArgInfo.from_entry_func(mod, True)]
    return Workload(index, mod, arguments, structural_hash(mod))


def _todays_module(graph: dict[str, Any], recorded: str) -> Any:
    """What TVM itself makes of the graph. The hash that the file has for it is its own, if this version wrote
    it; older graphs' hashes cannot be computed any more."""
    check_todays(graph)
    try:
        module = tvm.ir.load_json(json.dumps(graph))
        computed = str(TvmWorkload(module).as_json()[0]) if isinstance(module, IRModule) else recorded
    except Exception as error:  # TVM raises its own kinds of error
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise ConfigError(f"TVM cannot read it ({(lines or [type(error).__name__])[-1][:200]}).") from error
    metadata = graph.get("metadata")
    version = metadata.get("tvm_version") if isinstance(metadata, dict) else None
    if version == tvm.__version__ and computed != recorded:
        raise ConfigError(f"its hash is {recorded}, its program's {computed}: the line is damaged.")
    return module

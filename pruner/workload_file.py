"""Tensor programs out of Python and TVMScript files."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import tvm.script
from tvm.ir import IRModule
from tvm.tirx import PrimFunc

from pruner.errors import ConfigError

Program: TypeAlias = IRModule | PrimFunc


def load_program(workload: str) -> Program:
    """The program that `path/file.py:name` or `path/file.py` names.

    `name` is a PrimFunc, an IRModule, a function of such a module, or a function without arguments that
    returns a program; without a name the file must hold one program only. A file that imports nothing is
    read as what `IRModule.script()` writes. The file's code is run.

    Raises ConfigError, with what the file holds.
    """
    location, name = _split(workload)
    found = _contents(location, workload)
    if name is None:
        programs = {key: value for key, value in found.items() if isinstance(value, (IRModule, PrimFunc))}
        chosen = programs or found
        if len(chosen) != 1:
            raise ConfigError(f"{location} holds {len(chosen)} programs. {_choices(location, found)}")
        return _program(next(iter(chosen.values())), workload)
    if name in found:
        return _program(found[name], workload)
    for value in found.values():
        if isinstance(value, IRModule) and name in [v.name_hint for v in value.get_global_vars()]:
            return _program(value[name], workload)
    raise ConfigError(f'{location} has no program "{name}". {_choices(location, found)}')


def _split(workload: str) -> tuple[Path, str | None]:
    location, colon, name = workload.rpartition(":")
    if not colon or not location.endswith(".py"):
        location, name = workload, ""
    path = Path(location).expanduser()
    if not path.is_file():
        raise ConfigError(
            f'workload "{workload}": there is no file {location} (looked in {Path.cwd()}). '
            "Accepted are path/file.py:function and path/file.py."
        )
    return path, name or None


def _contents(path: Path, workload: str) -> dict[str, Any]:
    """By name, the programs and functions without arguments that the file defines."""
    try:
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source, str(path))
        printed = _printed_script(tree)
        if printed is not None:
            return {printed: tvm.script.from_source(source)}
        return _execute(path)
    except ConfigError:
        raise
    except SyntaxError as error:
        raise ConfigError(
            f"workload {workload}: {path} line {error.lineno} is not Python: {error.msg}. Correct the file."
        ) from error
    except (Exception, SystemExit) as error:  # the file's own code may raise anything
        raise ConfigError(
            f"workload {workload}: running {path} failed with {type(error).__name__}: {error}. "
            "Correct the file."
        ) from error


def _printed_script(tree: ast.Module) -> str | None:
    """The name of the program when the file is what TVM prints, whose imports are comments, else None."""
    if len(tree.body) != 1 or not isinstance(tree.body[0], (ast.FunctionDef, ast.ClassDef)):
        return None
    return tree.body[0].name if tree.body[0].decorator_list else None


def _execute(path: Path) -> dict[str, Any]:
    # TVMScript reads a function's source through its module, so the module must be registered.
    module_name = f"_pruner_workload_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} is not a Python file; give path/file.py:function.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.resolve().parent))
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, (IRModule, PrimFunc)) or _makes_program(value, module_name)
    }


def _makes_program(value: object, module_name: str) -> bool:
    if not inspect.isfunction(value) or value.__module__ != module_name:
        return False
    return all(p.default is not p.empty for p in inspect.signature(value).parameters.values())


def _program(value: Program | Callable[[], object], workload: str) -> Program:
    if isinstance(value, (IRModule, PrimFunc)):
        return value
    try:
        made = value()
    except Exception as error:  # the function is the user's and may raise anything
        raise ConfigError(
            f"workload {workload}: the function failed with {type(error).__name__}: {error}. "
            "Correct the file."
        ) from error
    if not isinstance(made, (IRModule, PrimFunc)):
        raise ConfigError(
            f"workload {workload}: the function returned a {type(made).__name__}; a PrimFunc (for example "
            "from te.create_prim_func) or an IRModule is needed."
        )
    return made


def _choices(path: Path, found: dict[str, Any]) -> str:
    names = list(found)
    names += [
        variable.name_hint
        for value in found.values()
        if isinstance(value, IRModule)
        for variable in value.get_global_vars()
    ]
    if not names:
        return "Define a PrimFunc, an IRModule or a function without arguments that returns one."
    return "Name one: " + ", ".join(f"{path}:{name}" for name in names) + "."

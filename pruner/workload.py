"""Tasks: one tensor program and one target, found by name or file."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tvm.ir import IRModule
from tvm.s_tir.analysis import estimate_tir_flops
from tvm.s_tir.meta_schedule.arg_info import ArgInfo
from tvm.s_tir.meta_schedule.testing import te_workload
from tvm.s_tir.meta_schedule.tune_context import _normalize_mod
from tvm.target import Target
from tvm.tirx import PrimFunc

from pruner.errors import ConfigError, UntunableError
from pruner.target import resolve_target
from pruner.workload_file import load_program

__all__ = ["Task", "load_task", "make_task", "resolve_target"]

# FAMILY/INDEX of TVM's operator set.
NAMED = re.compile(r"(?P<family>\w+)/(?P<index>-?\d{1,9})")


@dataclass(frozen=True)
class Task:
    """One PrimFunc, called `main` in `mod` and normalised as MetaSchedule does, and a complete target."""

    name: str
    mod: IRModule
    target: Target

    @property
    def flop(self) -> float:
        """Floating point operations of one call, TVM's own count (`tvm.s_tir.analysis.estimate_tir_flops`);
        integer operations count alike."""
        return float(estimate_tir_flops(self.mod))


def load_task(workload: str, target: Target) -> Task:
    """The task a workload string names.

    Args:
        workload: `C2D/1` (family/index of TVM's te_workload), `path/file.py:function` (a PrimFunc, an
            IRModule of one, or a function without arguments that returns one) or a TVMScript file.
        target: what to generate code for.

    Raises ConfigError, with the list of what is accepted, and UntunableError for symbolic shapes.
    """
    named = NAMED.fullmatch(workload)
    if named is not None:
        program = _operator(workload, named["family"], int(named["index"]))
    elif ".py" in workload:
        program = load_program(workload)
    else:
        raise ConfigError(f'workload "{workload}" is unknown. {_accepted()}')
    return make_task(program, target, workload)


def make_task(mod: IRModule | PrimFunc, target: Target, name: str = "main") -> Task:
    """The task of a module with one PrimFunc. Raises ConfigError when there is not exactly one, and
    UntunableError when an argument is no tensor or has a symbolic shape."""
    if not isinstance(mod, (IRModule, PrimFunc)):
        raise ConfigError(
            f"{name} is a {type(mod).__name__}; a tirx PrimFunc or an IRModule of one is needed."
        )
    mod = _normalize_mod(mod)
    functions = [variable.name_hint for variable in mod.get_global_vars()]
    if len(functions) != 1:
        listed = ", ".join(functions) or "none"
        raise ConfigError(
            f"{name} has {len(functions)} functions ({listed}); one is tuned at a time: pass one of them."
        )
    function = mod[functions[0]]
    if not isinstance(function, PrimFunc):
        raise ConfigError(f"{name} is a {type(function).__name__}; a tirx PrimFunc is needed.")
    try:
        ArgInfo.from_prim_func(function)
    except Exception as error:  # TVM reports symbolic shapes and scalar arguments as internal errors
        raise UntunableError(
            f"{name} cannot be tuned: every argument must be a tensor of a fixed shape "
            f"({_last_line(error)}). Give the program's symbolic sizes numbers and its scalars values, "
            "for example with PrimFunc.specialize."
        ) from error
    return Task(name, mod, target)


def _operator(workload: str, family: str, index: int) -> PrimFunc:
    if family not in te_workload.CONFIGS or not 0 <= index < len(te_workload.CONFIGS[family][1]):
        raise ConfigError(f'workload "{workload}" is unknown. {_accepted()}')
    try:
        return te_workload.create_te_workload(family, index)
    except Exception as error:  # TVM lists an operator that it has itself retired
        raise ConfigError(
            f'workload "{workload}": this TVM cannot make it ({_last_line(error)}). {_accepted()}'
        ) from error


def _accepted() -> str:
    listed = " ".join(
        f"{family}/0" if len(shapes) == 1 else f"{family}/0..{len(shapes) - 1}"
        for family, (_, shapes) in te_workload.CONFIGS.items()
    )
    return f"Accepted are {listed}, path/file.py:function, or a TVMScript file path/file.py."


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__

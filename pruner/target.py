"""Targets: what TVM generates code for, completed where a user's description leaves something out."""

from __future__ import annotations

import difflib
import json
import platform
import re
import shlex
from collections.abc import Mapping
from typing import Any, TypeAlias

from tvm.target import Target, codegen

from pruner.errors import ConfigError

_ACCEPTED = (
    'Accepted are a tag such as "nvidia/nvidia-a100" or "raspberry-pi/4b-aarch64", a kind such as "llvm", '
    'JSON or a dict such as {"kind": "llvm", "mcpu": "znver4", "num-cores": 2}, or a tvm.target.Target.'
)


_ARCH = re.compile(r"sm_\d+[af]?")

# One machine, several names.
_SAME = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}

# What a caller may give as a target.
Given: TypeAlias = str | Mapping[str, Any] | Target


def resolve_target(
    target: Given, cores: int, device_target: Mapping[str, object] | None = None
) -> tuple[Target, list[str]]:
    """A complete target and what had to be filled in, in words.

    Args:
        target: a tag, a kind, JSON, a dict, a Target, or the old string form `llvm -mcpu=znver4`, which is
            translated.
        cores: the number of cores a CPU target gets when it names none.
        device_target: of the device it is for; a cuda target is completed from it.

    Raises ConfigError when TVM does not know the target, or a cuda target has no architecture.
    """
    notes: list[str] = []
    description = described(target)
    text = target.strip() if isinstance(target, str) else ""
    if " " in text and not text.startswith("{"):
        notes.append(f'target "{text}" is the old string form; read as {json.dumps(description)}')
    if kind_of(description) == "cuda":
        complete, filled = _complete_gpu(description, dict(device_target or {}))
        return complete, [*notes, *filled]
    resolved = _target(description)
    if resolved.kind.name == "llvm":
        _check_cpu(resolved)
    if resolved.kind.name == "llvm" and resolved.attrs.get("num-cores") is None:
        config = dict(resolved.export())
        config["num-cores"] = cores
        resolved = _target(config)
        notes.append(f'target "{resolved.kind.name}" names no num-cores; {cores} filled in')
    return resolved, notes


def machine(target: Target | None = None) -> str:
    """The machine that an llvm target's code is for, such as x86_64 or aarch64; by default, and where the
    target does not say, this one."""
    triple = None if target is None else target.attrs.get("mtriple")
    name = (str(triple).partition("-")[0] if triple else platform.machine()).lower()
    return _SAME.get(name, name)


def family(arch: object) -> str:
    """An architecture without what says how much of it is used: sm_90a and sm_90 are the same device."""
    return str(arch).rstrip("af")


def kind_of(target: Given) -> str:
    """The kind of a target, such as llvm or cuda. Raises ConfigError when TVM does not know it."""
    description = described(target)
    if isinstance(description, dict) and "kind" in description:
        return str(description["kind"])
    return str(_target(description).kind.name)


def arch_of(target: Given) -> str | None:
    """The architecture that a cuda target names, such as sm_80, or None. TVM would take one for it.

    Raises ConfigError for a name that is none.
    """
    description = described(target)
    if isinstance(description, dict) and "tag" not in description:
        if "arch" not in description:
            return None
        arch = str(description["arch"])
    else:
        arch = str(_target(description).attrs["arch"])
    if not _ARCH.fullmatch(arch):
        raise ConfigError(f'arch "{arch}" of a cuda target is not accepted: give one such as "sm_80".')
    return arch


def described(target: Given) -> str | dict[str, Any] | Target:
    """The target as TVM takes it; a bare `cuda` as a dict, since TVM would complete it by a guess."""
    if isinstance(target, Target):
        return target
    if not isinstance(target, str):
        return dict(target)
    text = target.strip()
    if text.startswith("{"):
        return _from_json(text)
    if " " in text:
        return _from_options(text)
    return {"kind": "cuda"} if text == "cuda" else text


def _complete_gpu(
    description: str | dict[str, Any] | Target, known: dict[str, object]
) -> tuple[Target, list[str]]:
    """A cuda target with what the device knows, and that in words."""
    arch = arch_of(description)
    if arch is None and "arch" not in known:
        raise ConfigError(
            "target cuda names no GPU: choose a device and leave target out, or give a tag such as "
            '"nvidia/nvidia-a100", or an architecture as in {"kind": "cuda", "arch": "sm_80"}.'
        )
    if not isinstance(description, dict) or "tag" in description:
        description = _target(description)
    config = dict(description.export() if isinstance(description, Target) else description)
    missing = {name: value for name, value in known.items() if name not in config}
    if not missing:
        return _target(description), []
    filled = ", ".join(f"{name}={value}" for name, value in missing.items())
    return _target({**config, **missing}), [f"target cuda is completed from the device: {filled}"]


def _check_cpu(target: Target) -> None:
    """LLVM would pass over a CPU it does not know in silence, and TVM takes any number of cores."""
    triple = str(target.attrs.get("mtriple") or "")
    if not codegen.llvm_is_valid_cpu("generic", triple):  # its list of CPUs would end the process
        raise ConfigError(
            f"LLVM knows no machine {triple} (target mtriple): give one such as aarch64-linux-gnu, or leave "
            "it out for this machine."
        )
    cpu = str(target.attrs.get("mcpu") or "generic")
    try:
        known = sorted(str(name) for name in codegen.llvm_get_cpu_archlist(target))
    except Exception as error:  # TVM raises its own kinds of error
        raise ConfigError(
            f"LLVM refuses an option of target {target}: {str(error).splitlines()[-1]}. {_ACCEPTED}"
        ) from error
    if cpu not in known:
        close = difflib.get_close_matches(cpu, known, 3) or known[:: max(1, len(known) // 12)]
        raise ConfigError(
            f"LLVM knows no CPU {cpu} (target mcpu); among those it knows are {', '.join(close)}. Leave mcpu "
            "out for any CPU."
        )
    cores = target.attrs.get("num-cores")
    if cores is not None and int(cores) < 1:
        raise ConfigError(f"target num-cores={cores} is not accepted: give at least 1, or leave it out.")


def _target(description: str | dict[str, Any] | Target) -> Target:
    if isinstance(description, Target):
        return description
    try:
        return Target(description)
    except Exception as error:  # TVM raises ValueError, TypeError or its own kinds of error
        given = description if isinstance(description, str) else json.dumps(description, default=str)
        reason = str(error).split(". Target creation from")[0]
        kinds = ", ".join(sorted(str(kind) for kind in Target.list_kinds()))
        raise ConfigError(f"target {given} cannot be used: {reason}. {_ACCEPTED} Kinds: {kinds}.") from error


def _from_json(text: str) -> dict[str, Any]:
    try:
        return dict(json.loads(text))
    except (ValueError, RecursionError) as error:  # the latter for nested lists
        raise ConfigError(f"target {text} is not JSON: {error}. {_ACCEPTED}") from error


def _from_options(text: str) -> dict[str, Any]:
    """`llvm -mcpu=znver4 -mattr=+avx2,+fma -num-cores 2` as a dict."""
    try:
        kind, *words = shlex.split(text)
    except ValueError as error:  # a quotation that has no end
        raise ConfigError(f'target "{text}" cannot be read: {error}. {_ACCEPTED}') from error
    config: dict[str, Any] = {"kind": kind}
    while words:
        word = words.pop(0)
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("-") or not name:
            raise ConfigError(f'"{word}" in target "{text}" is not an option. {_ACCEPTED}')
        if not equals:
            value = words.pop(0) if words and not words[0].startswith("-") else "true"
        config[name] = _option(name, value)
    return config


def _option(name: str, value: str) -> object:
    """An option's value in the type TVM expects: lists for keys and CPU features, else what it looks like."""
    if name in ("mattr", "keys", "libs"):
        return value.split(",")
    if value in ("true", "false"):
        return value == "true"
    try:
        return int(value)
    except ValueError:
        return value

"""Which device and which complete target a run is for, from what the user gave of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tvm.target import Target

from pruner.analyzer.device import Device, declared
from pruner.analyzer.host import restricted_to
from pruner.cores import usable_cpus
from pruner.errors import ConfigError, DeviceError
from pruner.measure import gpu
from pruner.target import Given, arch_of, family, kind_of, resolve_target
from pruner.workload import Task

# The kind of device that a target of a kind is for.
_KINDS = {"llvm": "cpu", "cuda": "gpu"}


def placed(
    device: Device | None, target: Given | None, load: Callable[..., Task]
) -> tuple[Device, Task, list[str]]:
    """The task on its target, made by `load(target)`; the device as its programs see it; what the user should
    know about both.

    A CPU has no more cores and no wider vectors than the target has or this machine lets us use. For a cuda
    target a CPU, or no device, stands for the declared GPU that the target fits.

    Raises DeviceError for a device that the target does not fit, or that is not known.
    """
    chosen, notes = _chosen(device, target)
    complete, more = resolve_target(target or dict(chosen.target), chosen.cores, chosen.target)
    task = load(complete)
    notes += more
    if chosen.kind == "gpu":
        here = gpu.arch()
        fingerprint = gpu.fingerprint() if here is not None and _same(here, chosen) else ""
        return replace(chosen, fingerprint=fingerprint), task, [*notes, *chosen.notes]
    asked = int(complete.attrs.get("num-cores", chosen.cores))
    seen = restricted_to(chosen, complete, min(asked, len(usable_cpus())))
    if seen.cores < asked:
        # Threads without a core of their own only wait for each other.
        notes.append(f"the target has {asked} cores; programs run with TVM_NUM_THREADS={seen.cores}")
    return seen, task, [*notes, *chosen.notes]


def placed_on_records(device: Device | None, task: Task, machine: str) -> tuple[Device, list[str]]:
    """The device as the recorded programs of a task see it, and what the user should know about it. For a
    cuda target no device stands for the declared GPU that the target fits. machine: that the records are
    from, whose fingerprint the device then has.

    Raises ConfigError and DeviceError for a device that the recorded target does not fit, or that is not
    known.
    """
    notes: list[str] = []
    if device is None and kind_of(task.target) == "cuda":
        device, notes = _gpu_of(arch_of(task.target))
    seen = seen_by(device or Device.auto(), task.target, task.name)
    if device is None and seen.fingerprint != machine:
        notes.append(
            f"the draft is for this machine's CPU, and the records are of {machine or 'an unnamed machine'}: "
            "choose device=x86-64 or device=arm64 for another"
        )
    return replace(seen, fingerprint=machine), [*notes, *seen.notes]


def seen_by(device: Device, target: Target, task: str) -> Device:
    """The device as programs for the target see it: a CPU has the target's cores and vectors. Raises
    ConfigError when the target is for another device."""
    kind = str(target.kind.name)
    if _KINDS.get(kind) != device.kind:
        raise ConfigError(
            f"{task} was recorded for a target of kind {kind}; device {device.name} is a {device.kind}. Give "
            "device= the one that the records are from."
        )
    if device.kind == "cpu":
        return restricted_to(device, target, int(target.attrs.get("num-cores", device.cores)))
    arch = target.attrs.get("arch")
    if arch is not None and family(arch) != family(device.target["arch"]):
        raise ConfigError(
            f"{task} was recorded for {arch}; device {device.name} is {device.target['arch']}. Give device= "
            "the one that the records are from."
        )
    return device


def given_device(described: Mapping[str, Any]) -> Device | None:
    """The device of the `device` settings; None for plain `auto`: a cuda target then chooses a declared GPU,
    and this machine's CPU need not be described first."""
    return None if described == {"name": "auto"} else Device.of(described)


def host_threads(device: Device) -> int:
    """Threads of TVM's runtime: as many as the CPU has cores; for a GPU those of the machine it is in."""
    return device.cores if device.kind == "cpu" else len(usable_cpus())


def _chosen(device: Device | None, target: Given | None) -> tuple[Device, list[str]]:
    """The device, exchanged for a GPU where the target asks for one, and that in words."""
    if target is None or kind_of(target) != "cuda":
        given = device or Device.auto()
        if target is not None and given.kind == "gpu":
            raise DeviceError(
                f"device {given.name} is a GPU, and the target's kind is {kind_of(target)}: leave target "
                "out, or choose device=auto for this machine's CPU."
            )
        return given, []
    arch = arch_of(target)
    if device is None or device.kind != "gpu":
        return _gpu_of(arch)
    if arch is not None and not _same(arch, device):
        raise DeviceError(
            f"device {device.name} is {device.target['arch']}, and the target is for {arch}: leave target "
            "out, or choose the device that it is for."
        )
    return device, []


def _gpu_of(arch: str | None) -> tuple[Device, list[str]]:
    """The declared GPU of an architecture, by default of this machine's GPU."""
    gpus = [device for device in map(Device.load, declared()) if device.kind == "gpu"]
    here = gpu.arch()
    wanted = arch or here
    if wanted is None:
        raise DeviceError(
            f"target cuda names no GPU, and this machine has none: choose one with device={_names(gpus)}. "
            f"Then {gpu.WAYS}"
        )
    fitting = [device for device in gpus if _same(wanted, device)]
    if len(fitting) > 1 and here is not None and _same(here, fitting[0]):
        name = gpu.fingerprint().lower().replace(" ", "")
        named = [device for device in fitting if all(word in name for word in device.name.split("-"))]
        fitting = named or fitting
    if not fitting:
        ways = "" if here is not None else f" There is no GPU here: {gpu.WAYS}"
        raise DeviceError(
            f"no declared device is of the target's architecture {wanted}: choose one with device="
            f"{_names(gpus)}, or describe yours in a YAML file.{ways}"
        )
    chosen, *others = fitting
    if others:
        return chosen, [f"device={chosen.name} assumed for the target's {wanted}; {_names(others)} fits too"]
    return chosen, [f"device={chosen.name}, the one declared device of the target's {wanted}"]


def _same(arch: str, device: Device) -> bool:
    """Whether the device is of the architecture, whatever its suffix (sm_90a is an sm_90)."""
    return family(arch) == family(device.target["arch"])


def _names(devices: list[Device]) -> str:
    return "|".join(device.name for device in devices)

"""Devices are declared: levels of memory and compute, peak rates, a default target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any

import yaml

from pruner.errors import DeviceError

KINDS = ("cpu", "gpu")


@dataclass(frozen=True)
class Level:
    """One level, innermost first: registers and lanes, private cache and core, memory and cores.

    unit: what computes in parallel here, in words (lane, core, …).
    capacity: bytes of one unit's memory at this level (0 = unbounded); of a GPU's registers, one thread's.
    bandwidth: bytes per second of the whole level.
    units: how many compute in parallel inside one unit of the next level out.
    shared: all units use one memory of that capacity, instead of one each.
    """

    name: str
    unit: str
    capacity: int
    bandwidth: float
    units: int
    shared: bool = False


@dataclass(frozen=True)
class Multiprocessor:
    """What a GPU's multiprocessor holds at once.

    warp: threads that issue together. threads, blocks: the most that are resident. registers: of 4 bytes.
    registers_per_thread: the most a thread can address. shared_per_block: bytes of shared memory a block can
    have. shared_reserved: bytes the system adds to every block. cache_latency, memory_latency: cycles until a
    load is there, from the last cache and from memory behind it.
    """

    warp: int
    threads: int
    blocks: int
    registers: int
    registers_per_thread: int
    shared_per_block: int
    shared_reserved: int = 0
    cache_latency: float = 200.0
    memory_latency: float = 600.0


@dataclass(frozen=True)
class Device:
    """levels: innermost first. peak: operations (multiply and add count as two) per second by data type.
    transaction: bytes moved by one memory transaction. target: the default TVM target as a dict.
    launch: seconds that starting and joining one parallel loop or kernel takes. fused: a vector multiply-add
    is one instruction.
    fingerprint: what makes two machines the same for measurements (CPU model, cores, vector flags, TVM
    and LLVM versions); empty for a declared device. notes: what `auto` had to assume, in words.

    A CPU's levels are registers (lanes of a vector), l1 (pipes of a core), l2 (cores), l3 where there is
    one, and memory; a GPU's are registers (lanes of a scheduler), shared memory (schedulers of a
    multiprocessor), the l2 cache (multiprocessors) and global memory. `frequency` is in Hz. cores: of a GPU,
    multiprocessors, each a `multiprocessor`; None for a CPU."""

    name: str
    kind: str
    levels: tuple[Level, ...]
    peak: Mapping[str, float]
    transaction: int
    frequency: float
    cores: int
    target: Mapping[str, object]
    launch: float = 0.0
    fused: bool = True
    fingerprint: str = ""
    notes: tuple[str, ...] = ()
    multiprocessor: Multiprocessor | None = None

    @classmethod
    def load(cls, name: str) -> Device:
        """A declared device by name, or `auto`. Raises DeviceError with the list of names."""
        if name == "auto":
            return cls.auto()
        if name not in declared():
            raise DeviceError(f"unknown device {name}: accepted are auto, {', '.join(declared())}")
        text = resources.files(__package__).joinpath("devices", f"{name}.yaml").read_text("utf-8")
        return cls.parse(name, yaml.safe_load(text))

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Device:
        """The device of a config group: a `name` alone, or with it all that a device file says."""
        name = settings.get("name")
        if not isinstance(name, str) or not name:
            raise DeviceError(
                f"a device needs its name: begin the file with `name: mine`; it has {[*settings]}"
            )
        described = {key: value for key, value in settings.items() if key != "name"}
        return cls.parse(name, described) if described else cls.load(name)

    @classmethod
    def parse(cls, name: str, description: Mapping[str, Any]) -> Device:
        """The device a YAML file describes. Raises DeviceError naming what is missing or unknown."""
        try:
            fields = dict(description)
            levels = tuple(Level(**level) for level in fields.pop("levels"))
            inside = fields.pop("multiprocessor", None)
            device = cls(
                name=name,
                levels=levels,
                multiprocessor=None if inside is None else Multiprocessor(**inside),
                **fields,
            )
        except (KeyError, TypeError) as error:
            raise DeviceError(
                f"device {name} lacks something or has too much: {_reason(error)}; see "
                "pruner/analyzer/devices/x86-64.yaml, or a100-40g.yaml for a GPU"
            ) from None
        if device.kind not in KINDS:
            raise DeviceError(
                f"device {name}: kind {device.kind} is unknown; accepted are {', '.join(KINDS)}"
            )
        if (device.kind == "gpu") != (inside is not None):
            raise DeviceError(
                f"device {name}: a GPU needs a `multiprocessor`, and nothing else has one; see "
                "pruner/analyzer/devices/a100-40g.yaml"
            )
        if len(levels) < 3 or any(level.units < 1 or level.capacity < 0 for level in levels):
            raise DeviceError(f"device {name}: give at least three levels, innermost first, units from 1")
        return device

    @classmethod
    def auto(cls) -> Device:
        """The machine this runs on; peak and bandwidth come from a short calibration that is cached."""
        from pruner.analyzer.host import describe_host  # it needs this module

        return describe_host()

    def restricted(self, cores: int, vector_bytes: int, registers: int, fused: bool) -> Device:
        """The device as programs see it that use so many cores and vector registers of so many bytes, and
        fused multiply-adds, where that is less than it has."""
        cores, width = min(cores, self.cores), min(vector_bytes, self.vector_bytes)
        registers, fused = min(registers, self.registers), fused and self.fused
        has = self.cores, self.vector_bytes, self.registers, self.fused
        if (cores, width, registers, fused) == has:
            return self
        share, lanes = cores / self.cores, width // 4
        levels = [
            level if level.shared else replace(level, bandwidth=level.bandwidth * share)
            for level in self.levels
        ]
        levels = [replace(level, units=cores) if level.unit == "core" else level for level in levels]
        levels[0] = replace(levels[0], units=lanes, capacity=width * registers)
        slower = share * lanes / self.levels[0].units / (1 + (self.fused and not fused))
        peak = {dtype: rate * slower for dtype, rate in self.peak.items()}
        return replace(self, cores=cores, levels=tuple(levels), peak=peak, fused=fused)

    @property
    def sm(self) -> Multiprocessor:
        """A GPU's multiprocessor. Raises DeviceError for a device that has none."""
        if self.multiprocessor is None:
            raise DeviceError(f"device {self.name} is a {self.kind}: it has no multiprocessors.")
        return self.multiprocessor

    @property
    def vector_bytes(self) -> int:
        """Bytes of one vector register: the lanes are 4 bytes each."""
        return 4 * self.levels[0].units

    @property
    def registers(self) -> int:
        """Vector registers of a CPU's core."""
        return self.levels[0].capacity // self.vector_bytes

    @property
    def private(self) -> Level:
        """The largest memory that a core does not share."""
        return [level for level in self.levels if not level.shared][-1]


def _reason(error: KeyError | TypeError) -> str:
    """What is missing or unknown, without Python's words around it."""
    if isinstance(error, KeyError):
        return f"no {error.args[0]}"
    return str(error).partition("__init__() ")[2] or str(error)


def declared() -> list[str]:
    """The names of the declared devices."""
    files = resources.files(__package__).joinpath("devices").iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))

"""The machine this runs on as a `Device`: what /proc, /sys and LLVM say, and a short calibration."""

from __future__ import annotations

import math
import platform
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pruner.analyzer.calibrate import Rates, calibrated
from pruner.analyzer.device import Device, Level
from pruner.cores import usable_cpus

if TYPE_CHECKING:
    from tvm.target import Target

# Flags that decide which vector code a CPU can run.
_VECTOR_FLAG = re.compile(r"^(avx|fma$|sse4_2$|amx|asimd|neon$|sve|bf16$|i8mm$)")


@dataclass(frozen=True)
class Cache:
    """A data cache: bytes, and how many of this machine's cores share one."""

    level: int
    size: int
    cores: int


@dataclass(frozen=True)
class Host:
    """What the operating system says. flags: the CPU's vector flags, sorted."""

    model: str
    cores: int
    flags: tuple[str, ...]
    caches: tuple[Cache, ...]
    frequency: float
    notes: tuple[str, ...]


def read_host(root: Path = Path("/"), cpus: set[int] | None = None) -> Host:
    """Reads the machine from `root`/proc and `root`/sys. cpus: the logical CPUs this process may use, by
    default its affinity. Whatever is missing is assumed and noted; nothing is raised."""
    notes: list[str] = []
    usable = cpus if cpus is not None else usable_cpus()
    info = _cpuinfo(root)
    siblings = {
        frozenset(_cpu_list(_text(_cpu(root, cpu) / "topology/thread_siblings_list"))) for cpu in usable
    }
    known = {group & usable for group in siblings} - {frozenset()}
    cores = len(known) or len(usable)
    quota = _quota(root)
    if quota is not None and quota < cores:
        cores = max(1, math.ceil(quota))
        notes.append(f"the control group allows {quota:g} CPUs: {cores} cores are used")
    first = min(usable, default=0)
    caches = _caches(root, first, usable, max(1, len(usable) // max(1, len(known) or len(usable))))
    if not caches:
        caches = (Cache(1, 32 << 10, 1), Cache(2, 512 << 10, 1), Cache(3, 8 << 20, cores))
        notes.append("no cache sizes in /sys: 32 KiB, 512 KiB and 8 MiB assumed")
    frequency = _frequency(root, first, info)
    flags = info.get("flags", info.get("features", "")).split()
    return Host(
        model=_model(info),
        cores=cores,
        flags=tuple(sorted(flag for flag in flags if _VECTOR_FLAG.match(flag))),
        caches=caches,
        frequency=frequency,
        notes=tuple(notes),
    )


def describe_host() -> Device:
    """`Device.auto()`: the host with LLVM's name for its CPU and calibrated rates."""
    import tvm
    from tvm.target import Target, codegen

    host = read_host()
    notes = list(host.notes)
    mcpu = str(codegen.llvm_get_system_cpu())
    if not mcpu or not codegen.llvm_is_valid_cpu(mcpu, codegen.llvm_get_system_triple()):
        mcpu = _generic_cpu(host.flags)
        notes.append(f"LLVM does not know this CPU: code is made for {mcpu}")
    target: dict[str, object] = {"kind": "llvm", "mcpu": mcpu, "num-cores": host.cores}
    features = {str(feature) for feature in codegen.llvm_get_cpu_features(Target(target))}
    width, registers = vector_registers(features, host.flags)
    fingerprint = "; ".join(
        [
            f"{host.model} ({mcpu})",
            f"{host.cores} cores",
            " ".join(host.flags),
            f"tvm {tvm.__version__}",
            f"llvm {codegen.llvm_version_major(allow_none=True)}",
        ]
    )
    rates, problem = calibrated(fingerprint, target, width, host)
    if problem:
        notes.append(problem)
    return assemble(host, rates, target, width, registers, fuses(features), fingerprint, notes)


def assemble(
    host: Host,
    rates: Rates,
    target: dict[str, object],
    width: int,
    registers: int,
    fused: bool,
    fingerprint: str,
    notes: list[str],
) -> Device:
    """The device of a host: width in bytes of a vector, its number of registers, whether multiply-adds are
    fused, measured rates."""
    lanes = width // 4
    levels = [
        Level("registers", "lane", width * registers, rates.peak / 2 * 12, lanes),
        Level("l1", "pipe", _size(host, 1), rates.l1, rates.pipes),
    ]
    shared = False
    for cache in host.caches[1:]:
        shared = shared or cache.cores > 1
        rate = rates.l2 if cache.level == 2 else rates.l3
        levels.append(Level(f"l{cache.level}", "machine", cache.size, rate, 1, shared=shared))
    # The outermost private memory is the core's: that is where the cores count.
    last = max(i for i, level in enumerate(levels) if not level.shared)
    core = levels[last]
    units = host.cores if last > 1 else core.units
    levels[last] = Level(core.name, "core" if last > 1 else core.unit, core.capacity, core.bandwidth, units)
    levels.append(Level("memory", "machine", 0, rates.memory, 1, shared=True))
    return Device(
        name="auto",
        kind="cpu",
        levels=tuple(levels),
        peak={"float32": rates.peak, "float64": rates.peak / 2},
        transaction=64,
        frequency=rates.peak / (host.cores * lanes * 2 * rates.pipes),
        cores=host.cores,
        target=target,
        launch=rates.launch,
        fused=fused,
        fingerprint=fingerprint,
        notes=tuple(notes),
    )


def vector_registers(features: set[str], flags: tuple[str, ...] = ()) -> tuple[int, int]:
    """Bytes of a vector register LLVM will use, and how many there are, from LLVM's feature names."""
    if "avx512f" in features:
        # 32 registers either way; some CPUs slow down for 512 bits and LLVM keeps to 256 there.
        return (32 if "prefer-256-bit" in features else 64), 32
    if "avx" in features or "avx2" in flags:
        return 32, 16
    if "neon" in features or "asimd" in flags:
        return 16, 32
    return 16, 16


def fuses(features: set[str]) -> bool:
    """Whether LLVM multiplies and adds in one vector instruction, from its feature names."""
    return not features.isdisjoint({"fma", "fma4", "avx512f", "neon", "sve"})


def restricted_to(device: Device, target: Target, cores: int) -> Device:
    """The device as programs for the target see it when they run on so many cores."""
    from tvm.target import codegen

    features = {str(feature) for feature in codegen.llvm_get_cpu_features(target)}
    return device.restricted(cores, *vector_registers(features), fuses(features))


def _generic_cpu(flags: tuple[str, ...]) -> str:
    if "avx512f" in flags:
        return "x86-64-v4"
    if "avx2" in flags:
        return "x86-64-v3"
    return "generic" if platform.machine() in ("aarch64", "arm64") else "x86-64"


def _size(host: Host, level: int) -> int:
    return next((cache.size for cache in host.caches if cache.level == level), 32 << 10)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip()
    except OSError:
        return ""


def _cpu(root: Path, cpu: int) -> Path:
    return root / f"sys/devices/system/cpu/cpu{cpu}"


def _cpu_list(text: str) -> list[int]:
    """`0-2,5` as [0, 1, 2, 5]."""
    cpus: list[int] = []
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        cpus += range(int(low), int(high or low) + 1)
    return cpus


def _cpuinfo(root: Path) -> dict[str, str]:
    """The first processor's lines of /proc/cpuinfo, keys in lower case."""
    info: dict[str, str] = {}
    for line in _text(root / "proc/cpuinfo").splitlines():
        key, colon, value = line.partition(":")
        if colon:
            info.setdefault(key.strip().lower(), value.strip())
    return info


def _model(info: dict[str, str]) -> str:
    if "model name" in info:
        return info["model name"]
    if "cpu part" in info:
        return f"ARM implementer {info.get('cpu implementer', '?')} part {info['cpu part']}"
    return platform.processor() or platform.machine()


def _quota(root: Path) -> float | None:
    """CPUs the control group allows, by its version 2 or 1 files; None without a limit."""
    cgroup = root / "sys/fs/cgroup"
    paths = [
        line.split(":", 2)[2]
        for line in _text(root / "proc/self/cgroup").splitlines()
        if line.startswith("0::")
    ]
    for folder in [*(cgroup / path.lstrip("/") for path in paths), cgroup]:
        words = _text(folder / "cpu.max").split()
        if len(words) == 2 and words[0] != "max":
            return int(words[0]) / int(words[1])
    quota = _text(cgroup / "cpu/cpu.cfs_quota_us")
    period = _text(cgroup / "cpu/cpu.cfs_period_us")
    if quota and period and int(quota) > 0:
        return int(quota) / int(period)
    return None


def _caches(root: Path, cpu: int, usable: set[int], threads: int) -> tuple[Cache, ...]:
    """The data caches a core reaches, innermost first; `threads` logical CPUs make a core."""
    caches: dict[int, Cache] = {}
    for folder in sorted((_cpu(root, cpu) / "cache").glob("index*")):
        size = re.fullmatch(r"(\d+)([KM]?)", _text(folder / "size"))
        level = _text(folder / "level")
        if _text(folder / "type") == "Instruction" or size is None or not level.isdigit():
            continue
        scale = {"": 1, "K": 1 << 10, "M": 1 << 20}[size[2]]
        sharers = set(_cpu_list(_text(folder / "shared_cpu_list"))) & usable
        caches[int(level)] = Cache(int(level), int(size[1]) * scale, max(1, len(sharers) // threads))
    return tuple(caches[level] for level in sorted(caches))


def _frequency(root: Path, cpu: int, info: dict[str, str]) -> float:
    """Hz, for when nothing better was measured."""
    highest = _text(_cpu(root, cpu) / "cpufreq/cpuinfo_max_freq")
    if highest.isdigit():
        return int(highest) * 1e3
    try:
        return float(info["cpu mhz"]) * 1e6
    except (KeyError, ValueError):
        return 3.0e9

"""A short calibration of this machine: peak rate, bandwidth of each memory, cost of a parallel loop.

The kernels are TVM's own code, run in a child process whose runtime has as many threads as the device has
cores. Other programs disturb; the best of several runs is taken. The result is kept in the user's cache
folder under the machine's fingerprint.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pruner import child

if TYPE_CHECKING:
    from pruner.analyzer.host import Host

VERSION = 1
_TIMEOUT_S = 60


@dataclass(frozen=True)
class Rates:
    """peak: float32 operations per second of all cores. pipes: multiply-add pipes of a core. l1, l2, l3,
    memory: bytes per second read by all cores together. launch: seconds of an empty parallel loop."""

    peak: float
    pipes: int
    l1: float
    l2: float
    l3: float
    memory: float
    launch: float


def calibrated(fingerprint: str, target: Mapping[str, object], width: int, host: Host) -> tuple[Rates, str]:
    """The machine's rates, from the cache or measured now, and what went wrong, if anything ("" = nothing).
    width: bytes of a vector register."""
    file = cache_folder() / f"{hashlib.sha256(fingerprint.encode()).hexdigest()[:16]}.json"
    rates = read_rates(file, fingerprint)
    if rates is not None:
        return rates, ""
    sizes = {cache.level: cache.size for cache in host.caches}
    job = {"target": dict(target), "width": width, "cores": host.cores, "sizes": sizes}
    try:
        rates, settled = _measure_in_child(job)
    except (OSError, subprocess.SubprocessError, ValueError, TypeError) as error:
        return assumed(host, width), f"calibration failed ({type(error).__name__}): nominal rates are assumed"
    if not settled:
        return rates, "the machine was busy during calibration: its rates may be too low and are not kept"
    try:
        write_rates(file, fingerprint, rates)
    except OSError as error:
        return rates, f"the calibration cannot be kept in {file.parent}: {error.strerror}"
    return rates, ""


def assumed(host: Host, width: int) -> Rates:
    """Nominal rates of a core with two multiply-add pipes."""
    clock = host.frequency * host.cores
    return Rates(
        peak=clock * width,  # two pipes, two operations, lanes of four bytes
        pipes=2,
        l1=clock * 2 * width,
        l2=clock * min(32, width),
        l3=clock * 12,
        memory=2.0e10,
        launch=5.0e-6,
    )


def cache_folder() -> Path:
    """Where calibrations are kept: the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pruner" / "devices"


def read_rates(file: Path, fingerprint: str) -> Rates | None:
    """A kept calibration; None where there is none, or none that can be used."""
    try:
        kept = json.loads(file.read_text("utf-8"))
        if kept["version"] != VERSION or kept["fingerprint"] != fingerprint:
            return None
        return _checked(kept["rates"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_rates(file: Path, fingerprint: str, rates: Rates) -> None:
    """Keeps a calibration; a reader never sees half of it. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".{os.getpid()}")
    part.write_text(
        json.dumps({"version": VERSION, "fingerprint": fingerprint, "rates": asdict(rates)}), "utf-8"
    )
    part.replace(file)


def _checked(values: dict[str, Any]) -> Rates:
    rates = Rates(**values)
    if not all(math.isfinite(value) and value > 0 for value in asdict(rates).values()):
        raise ValueError("a rate is not positive")
    return rates


def _measure_in_child(job: dict[str, Any]) -> tuple[Rates, bool]:
    # TVM reads the thread count once, when its pool starts; the parent's own pool stays as it is.
    done = subprocess.run(
        child.command("pruner.analyzer.microkernels", json.dumps(job)),
        env=child.environment(job["cores"]),
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=True,
    )
    values = json.loads(done.stdout.splitlines()[-1])
    settled = bool(values.pop("settled"))
    return _checked(values), settled

"""The paper's Symbol-based Analyzer: latency as the sum of compute and memory time of every statement."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.cpu import CpuInspection
from pruner.analyzer.formula import FormulaDraft
from pruner.analyzer.gpu import GpuInspection
from pruner.analyzer.gpu_symbols import gpu_symbols
from pruner.analyzer.inspection import Inspection
from pruner.analyzer.penalties import fit, utilisation
from pruner.analyzer.symbols import Symbols, cpu_symbols

Floats = NDArray[np.float64]


class SymbolDraft(FormulaDraft):
    """Pruner's equation 1: `sum over statements of S8 / (T_p * compute penalties) + S5 / (T_m * memory
    penalties)`, with T_p the device's peak and T_m the bandwidth of its global memory; on a CPU, of the
    shared memory that the program's data stay in: the outermost one, or a cache that holds them all.

    Args:
        penalties: which of the six penalties stay in force, one of `analyzer.penalties.CHOICES`. On a GPU
            `l1_memory` is 1 for every program that TVM accepts: none takes more shared memory than there is.
    """

    def statement_seconds(self, statement: Inspection) -> Floats:
        return self.latency(self.symbols(statement))

    def symbols(self, statement: Inspection) -> Symbols:
        """The symbols of a batch of statements."""
        if isinstance(statement, GpuInspection):
            return gpu_symbols(statement, self.device)
        assert isinstance(statement, CpuInspection)  # there are no other kinds
        return cpu_symbols(statement, self.device)

    def penalties(self, found: Symbols) -> dict[str, Floats]:
        """Each penalty in (0, 1], by name; 1 where it was taken away. `l2_memory` depends on the access and
        is part of `latency`."""
        levels = self.device.levels
        values = {
            "l0_memory": fit(levels[0].capacity, found.register_bytes),
            "l0_compute": found.lane_use,
            "l1_memory": fit(levels[1].capacity, found.private_bytes),
            "l1_compute": utilisation(found.private_units, found.together),
            "l2_compute": utilisation(found.cores, self.device.cores),
        }
        return {name: value if name in self.kept else np.ones_like(value) for name, value in values.items()}

    def latency(self, found: Symbols) -> Floats:
        """Seconds of one statement, equation 1's `L_c + L_m`."""
        p = self.penalties(found)
        peak = found.rate * p["l0_compute"] * p["l1_compute"] * p["l2_compute"]
        bandwidth = self._bandwidth(found.data) * p["l0_memory"] * p["l1_memory"]
        seconds = found.operations / peak
        for traffic, run in zip(found.traffic, found.runs, strict=True):
            aligned = utilisation(run, self.device.transaction) if "l2_memory" in self.kept else 1.0
            seconds = seconds + traffic / (bandwidth * aligned)
        return seconds

    def _bandwidth(self, data: Floats) -> Floats:
        """T_m, bytes per second for programs whose buffers take `data` bytes."""
        shared = [level for level in self.device.levels if level.shared]
        rate = np.full(len(data), shared[-1].bandwidth)
        for level in reversed(shared[:-1]) if self.device.kind == "cpu" else ():
            rate = np.where(data <= level.capacity, level.bandwidth, rate)
        return rate

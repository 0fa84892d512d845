"""The default draft model: a roofline over the statements of a program, on a CPU and on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.cpu import CpuInspection
from pruner.analyzer.cpu_roofline import Costs, cpu_terms
from pruner.analyzer.formula import FormulaDraft
from pruner.analyzer.gpu import GpuInspection
from pruner.analyzer.gpu_roofline import gpu_terms, kernels_seconds
from pruner.analyzer.gpu_work import GpuCosts
from pruner.analyzer.inspection import Inspection, total
from pruner.analyzer.terms import Terms

Floats = NDArray[np.float64]


class RooflineDraft(FormulaDraft):
    """Predicted seconds of a program: what its statements take, one after another, plus a launch for every
    parallel nest or kernel. On a CPU a statement takes its inner code's cycles, divided over the cores that
    its parallel loop can fill, or, if that is more, its caches' traffic; on a GPU a kernel takes what the
    multiprocessor with the most blocks has to issue, load and wait for, step by step.

    What each penalty stands for, and what its removal makes ideal. l0_compute: lanes left empty. l0_memory:
    on a CPU operands, accumulators and spills through the load and store pipes; on a GPU accumulators in
    local memory. l1_compute: on a CPU chains too short for the latency, loop ends, padding tests,
    straight-line vectors; on a GPU schedulers without a warp, the latency of steps and waves, and loops that
    stay loops. l1_memory: traffic between private caches; on a GPU loads from shared memory and the
    instructions of fetches. l2_memory: traffic of shared cache and memory. l2_compute: cores that wait, and
    launches.

    Args:
        penalties: which penalties stay in force, one of `analyzer.penalties.CHOICES`.
        costs: the cycle table of a CPU. gpu_costs: that of a GPU.
    """

    def __init__(
        self,
        *,
        costs: Costs | None = None,
        gpu_costs: GpuCosts | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.costs = costs or Costs()
        self.gpu_costs = gpu_costs or GpuCosts()

    def together(self, statements: Sequence[Inspection], n: int) -> Floats:
        gpu = [s for s in statements if isinstance(s, GpuInspection)]
        if not gpu:
            return super().together(statements, n)
        terms = [gpu_terms(s, self.device, self.kept, self.gpu_costs) for s in gpu]
        return kernels_seconds(gpu, terms, n) + total(gpu, [self.launches(s) for s in gpu], n)

    def statement_seconds(self, statement: Inspection) -> Floats:
        return self.terms(statement).total + self.launches(statement)

    def launches(self, statement: Inspection) -> Floats:
        """float64[m] seconds for starting the nest's parallel loop, counted with its first statement."""
        starts = (statement.batch.slot == statement.batch.nest) & ("l2_compute" in self.kept)
        if isinstance(statement, CpuInspection):
            starts &= statement.code.chunks > 1
        return np.where(starts, self.device.launch, 0.0)

    def terms(self, statement: Inspection) -> Terms:
        """The terms of one batch of statements."""
        if isinstance(statement, GpuInspection):
            return gpu_terms(statement, self.device, self.kept, self.gpu_costs)
        assert isinstance(statement, CpuInspection)  # there are no other kinds
        return cpu_terms(statement, self.device, self.kept, self.costs)

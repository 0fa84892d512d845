"""The register and shared-memory symbols against what ptxas says of the compiled programs."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.stats import spearmanr

from pruner.analyzer.resources import resources
from pruner.analyzer.roofline import RooflineDraft
from pruner.analyzer.thread_code import registers_limit
from pruner.errors import CompileError, DeviceError
from pruner.measure import nvcc
from pruner.search.candidate import Candidate
from pruner.search.population import Population
from tests.analyzer.analyzer_util import DEVICE as CPU
from tests.analyzer.gpu_util import DEVICE, TARGET, sample, tiled

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc on the PATH")


def compiled(rows: Population) -> tuple[Population, list[nvcc.Resources]]:
    """The rows that TVM can generate code for, and their needs."""

    def attempt(candidate: Candidate) -> nvcc.Resources | None:
        try:
            return nvcc.compile_cuda(candidate.materialise().mod, TARGET).resources
        except CompileError:
            return None

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(attempt, list(rows)))
    kept = np.array([need is not None for need in found])
    assert kept.mean() > 0.8
    return rows[kept], [need for need in found if need is not None]


def fitting(workload: str, n: int, seed: int) -> Population:
    """n random rows that a draft takes: their threads have registers for their accumulators."""
    rows = sample(workload, 4 * n, seed)
    return rows[np.isfinite(RooflineDraft(device=DEVICE).score(rows))][:n]


def column(needs: list[nvcc.Resources], name: str) -> np.ndarray:
    return np.array([getattr(need, name) for need in needs], dtype=float)


@needs_nvcc
@pytest.mark.parametrize("workload", ["C2D/0", "GMM/0"])
def test_shared_bytes_are_those_of_ptxas(workload: str) -> None:
    rows, needs = compiled(fitting(workload, 6, 1))
    assert resources(rows, DEVICE).shared_bytes.tolist() == [need.shared_bytes for need in needs]


def agreement(rows: Population, needs: list[nvcc.Resources]) -> float:
    """Rank correlation of the register symbol with what ptxas says that a thread holds: registers, and in
    local memory what found none."""
    held = column(needs, "registers") + column(needs, "stack_bytes") / 4
    return float(spearmanr(resources(rows, DEVICE).registers, held).statistic)


@needs_nvcc
@pytest.mark.slow
@pytest.mark.parametrize("workload", ["C2D/0", "GMM/0"])
def test_the_register_symbol_orders_programs_as_ptxas_does(workload: str) -> None:
    """Sixty random legal programs, many of them with more accumulators than registers."""
    rows, needs = compiled(sample(workload, 60, 3))
    assert resources(rows, DEVICE).shared_bytes.tolist() == [need.shared_bytes for need in needs]
    assert agreement(rows, needs) >= 0.9


@needs_nvcc
@pytest.mark.slow
@pytest.mark.parametrize("workload", ["C2D/0", "GMM/0"])
def test_it_orders_the_programs_that_a_draft_takes(workload: str) -> None:
    """Sixty random programs whose threads have registers for their accumulators."""
    rows, needs = compiled(fitting(workload, 60, 2))
    assert resources(rows, DEVICE).shared_bytes.tolist() == [need.shared_bytes for need in needs]
    assert agreement(rows, needs) >= 0.8


@needs_nvcc
@pytest.mark.slow
@pytest.mark.parametrize("workload", ["NRM/0", "SFM/0", "DEP/0", "GRP/0", "DIL/0", "TBG/0", "CBR/0"])
def test_shared_bytes_everywhere(workload: str) -> None:
    rows, needs = compiled(fitting(workload, 16, 4))
    assert resources(rows, DEVICE).shared_bytes.tolist() == [need.shared_bytes for need in needs]


def test_symbols_by_hand() -> None:
    """GEMM-ReLU: 32 x 16 of A and 16 x 64 of B; three copies for a pipeline of three stages, four for
    four."""
    tiles = ([4, 2, 8, 2, 1], [2, 2, 16, 1, 2], [8, 4, 4])
    for sketch, copies in ((0, 1), (1, 3), (2, 4)):
        found = resources(tiled(*tiles, sketch=sketch), DEVICE)
        assert found.shared_bytes.tolist() == [4 * (32 * 16 + 16 * 64) * copies]
        assert found.local_bytes.tolist() == [0]
        # Sixteen accumulators, and what is on its way to them.
        assert 24 < found.registers[0] < 96


def test_an_array_whose_loops_stay_loops_is_in_local_memory() -> None:
    # 16 x 16 accumulators of two virtual threads: unrolled by the pragma of 1024, too much for nvcc alone.
    tiles = ([1, 2, 4, 4, 4], [1, 1, 8, 4, 4], [32, 2, 2])
    whole, loops = (resources(tiled(*tiles, unroll=unroll), DEVICE) for unroll in (7, 0))
    assert whole.local_bytes.tolist() == [0]
    assert loops.local_bytes.tolist() == [4 * 512]
    assert whole.registers[0] > 512


def test_registers_of_a_thread_depend_on_the_threads() -> None:
    """65,536 registers: a block of 448 threads is 14 warps, four to a scheduler, 128 registers each."""
    threads = np.array([32.0, 256.0, 257.0, 448.0, 512.0, 784.0, 1024.0])
    assert registers_limit(threads, DEVICE).tolist() == [255, 255, 168, 128, 128, 72, 64]


def test_a_cpu_has_none() -> None:
    with pytest.raises(DeviceError, match=r"round.*GPU"):
        resources(sample("GMM/0", 1), CPU)

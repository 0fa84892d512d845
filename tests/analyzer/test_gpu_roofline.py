"""The roofline's cycles on GPUs: by hand, by brute force, and against measured programs."""

import itertools
import os
from pathlib import Path

import numpy as np
import pytest

from experiments.best_k import expected_kth, size_of
from pruner.analyzer.device import Device
from pruner.analyzer.gpu import GpuInspection, Kernel
from pruner.analyzer.gpu_reuse import distinct, run, warp_sectors
from pruner.analyzer.gpu_roofline import gpu_terms, kernels_seconds, resident_blocks
from pruner.analyzer.gpu_work import GpuCosts, Work, work
from pruner.analyzer.inspection import inspect
from pruner.analyzer.penalties import PENALTIES
from pruner.analyzer.roofline import RooflineDraft
from pruner.search.members import accesses
from pruner.search.population import Population
from tests.analyzer.gpu_util import DEVICE, sample, statements, tiled

ALL = frozenset(PENALTIES)
COSTS = GpuCosts()
DATA = os.environ.get("PRUNER_DATA")


def cycles(rows: Population, name: str, device: Device = DEVICE, kept: frozenset[str] = ALL) -> Work:
    found = statements(rows, device)[name]
    return work(found, device, resident_blocks(found.kernel, device), kept, COSTS)


# 1024 x 1024 x 1024: 16 x 16 blocks of 16 x 16 threads, 4 x 4 outputs a thread, 32 steps of 32, no pragma.
TILE = [16, 1, 16, 2, 2], [16, 1, 16, 2, 2], [32, 8, 4]
GEMM = tiled(*TILE)


def test_arithmetic_is_what_the_fullest_multiprocessor_issues() -> None:
    # 256 blocks on 108 multiprocessors: 3 on some, of 8 warps each, so 6 warps a scheduler. A warp's
    # multiply-add takes 16 lanes two cycles, and 32 lanes one.
    adds = 1024 * 4 * 4
    assert cycles(GEMM, "C").issue[0] == 6 * adds * 2
    ampere = Device.load("rtx3080")  # 68 multiprocessors: 4 blocks, 8 warps a scheduler
    assert cycles(GEMM, "C", ampere).issue[0] == 8 * adds * 1


def test_operands_are_loaded_once_for_the_unrolled_tile() -> None:
    # The compiler makes straight-line code of all 4 x 4 outputs and four reductions.
    found = statements(GEMM)["C"]
    assert found.code.size[0] == 64
    loads = sum(distinct(found, i)[0] for i in (0, 1))
    assert loads == 4 * 4 + 4 * 4


def test_fetches_count_instructions_elements_and_sectors() -> None:
    rows = tiled([16, 1, 16, 2, 2], [16, 1, 16, 2, 2], [32, 8, 4], fetch=(3, 0))
    for position, found in enumerate(s for s in statements(rows).values() if s.fetches):
        took = work(found, DEVICE, resident_blocks(found.kernel, DEVICE), ALL, COSTS)
        # 64 x 32 elements a step for 256 threads: 8 each, four at a time or one by one.
        lanes = (4, 1)[position]
        assert took.fetch[0] == 6 * 32 * 8 / lanes * (COSTS.fetch + COSTS.element * lanes)
        # Rows of 32 elements, or of 64, begin with a sector: 2048 elements are 256 sectors.
        assert run(found, accesses(found.batch.statement)[0])[0] == (32, 64)[position]
        sector = 32 / (DEVICE.levels[2].bandwidth / DEVICE.cores / DEVICE.frequency)
        assert took.memory[0] == pytest.approx(3 * 32 * 256 * sector)
        # The operands find room in the cache.
        assert took.alone[0] == 0


def test_latency_counts_steps_waves_and_loops_that_stay() -> None:
    # 1024 products a thread and step of 16 x 64: unrolled as a whole by a pragma of 1024 or not at all.
    unrolled = tiled([16, 1, 16, 2, 2], [16, 1, 16, 2, 2], [16, 16, 4], unroll=7)
    looped = tiled([16, 1, 16, 2, 2], [16, 1, 16, 2, 2], [16, 16, 4], unroll=0)
    found = statements(unrolled)["C"]
    waves = np.ceil(3 / resident_blocks(found.kernel, DEVICE))[0]
    step = DEVICE.sm.cache_latency
    assert cycles(unrolled, "C").latency[0] == waves * 16 * (step + COSTS.iteration)
    turns = 1024 / COSTS.unrolled
    assert cycles(looped, "C").latency[0] == pytest.approx(waves * 16 * (step + COSTS.iteration * turns))


@pytest.mark.parametrize("workload", ["C2D/0", "DEP/0", "GMM/0", "C3D/0"])
def test_distinct_elements_equal_a_count_of_the_indices(workload: str) -> None:
    rows, checked = sample(workload, 60, 5), 0
    for i in range(len(rows)):
        for s in inspect(rows.space.nests(rows[i : i + 1]), DEVICE):
            assert isinstance(s, GpuInspection)
            if not s.reducing or s.code.size[0] > 1500:
                continue
            moving = [s.loops[level] for level, u in zip(s.code.own, s.code.unrolled, strict=True) if u[0]]
            for j in range(len(s.batch.statement.reads)):
                access = accesses(s.batch.statement)[j]
                if access.buffer.scope != "shared":
                    continue
                points = itertools.product(*(range(int(np.max(loop.extent))) for loop in moving))
                touched = {
                    tuple(
                        int(np.max(index.at(dict(zip(moving, point, strict=True))))) for index in access.index
                    )
                    for point in points
                }
                # Strides wider than a window leave gaps, which count as touched.
                assert distinct(s, j)[0] == pytest.approx(len(touched) * s.shares[j][0], rel=0.35)
                assert distinct(s, j)[0] >= len(touched) * s.shares[j][0]
                checked += 1
    assert checked > 20


def test_a_warp_touches_a_sector_for_every_eight_neighbours() -> None:
    write = statements(tiled([64, 1, 16, 1, 1], [16, 1, 64, 1, 1], [32, 8, 4]))["C_local"]
    i = len(write.batch.statement.reads)
    assert warp_sectors(write, i, DEVICE)[0] == 4
    apart = statements(tiled([64, 1, 16, 1, 1], [2, 1, 64, 1, 8], [32, 8, 4]))["C_local"]
    assert warp_sectors(apart, i, DEVICE)[0] == 32


def test_kernels_follow_one_another_and_take_the_longer_of_work_and_waiting() -> None:
    rows = sample("SFM/0", 40, 3)
    found = [s for s in inspect(rows.space.nests(rows), DEVICE) if isinstance(s, GpuInspection)]
    terms = [gpu_terms(s, DEVICE, ALL, COSTS) for s in found]
    expected = np.zeros(len(rows))
    kernels: dict[tuple[int, int], list[float]] = {}
    for s, own in zip(found, terms, strict=True):
        for k, (row, nest) in enumerate(zip(s.batch.rows, s.batch.nest, strict=True)):
            kernel = kernels.setdefault((int(row), int(nest)), [0.0, 0.0])
            kernel[0] += own.total[k]
            kernel[1] += own.alone[k]
    assert len(kernels) > len(rows)
    for (row, _), kernel in kernels.items():
        expected[row] += max(kernel)
    assert kernels_seconds(found, terms, len(rows)) == pytest.approx(expected)


def best_1(scores: np.ndarray, latency: np.ndarray, share: float) -> float:
    best = expected_kth(scores, latency, size_of(share, len(latency)), (1,))[0]
    assert best is not None
    return float(latency.min() / best)


@pytest.mark.slow
@pytest.mark.skipif(DATA is None, reason="PRUNER_DATA names no folder of measured programs")
@pytest.mark.parametrize(("folder", "device"), [("a100", "a100-40g"), ("rtx3080", "rtx3080")])
def test_drafts_of_measured_programs_beat_chance(folder: str, device: str) -> None:
    from pruner.records.ansor.read import read_ansor
    from pruner.records.spaces import recorded_rows

    draft, gains = RooflineDraft(device=Device.load(device)), []
    for file in sorted((Path(DATA or "") / "ansor" / folder).glob("*.json.gz")):
        records = read_ansor(file).dataset
        records = records[records.failure == ""]
        rows, kept = recorded_rows(records)
        latency = records.latency_s[kept]
        if len(rows) < 500:
            continue  # a space so small that it was measured as a whole
        regret = 1 - best_1(draft.score(rows), latency, 1 / 64)
        chance = 1 - best_1(np.zeros(len(rows)), latency, 1 / 64)
        gains.append(np.log(max(regret, 0.005) / max(chance, 0.005)))
    assert np.exp(np.mean(gains)) <= 0.5


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "resident"),
    [
        (256, 40, 8192, 6),  # 8 warps of 1280 registers: 65536 // 10240
        (256, 41, 8192, 5),  # a 41st takes each warp another 256: 65536 // 12288
        (1024, 32, 8192, 2),  # 2048 threads
        (128, 32, 48000, 3),  # 167936 bytes // (48000 + 1024 of the system's)
        (32, 16, 0, 32),  # no more blocks than that
        (1000, 255, 0, 1),  # one is always there
    ],
)
def test_resident_blocks_are_those_of_an_occupancy_table(
    threads: int, registers: int, shared: int, resident: int
) -> None:
    one = np.ones(1)
    kernel = Kernel(
        blocks=one,
        threads=one * threads,
        vthreads=one,
        registers=one * registers,
        limit=one * 255,
        accumulators=one,
        local_bytes=one * 0,
        register_bytes=one,
        staged_bytes=one,
        shared_bytes=one * shared,
    )
    assert resident_blocks(kernel, DEVICE)[0] == resident


def test_sectors_of_a_warp_equal_a_count_of_its_addresses() -> None:
    rows, checked = sample("C2D/0", 80, 9), 0
    for i in range(len(rows)):
        for s in inspect(rows.space.nests(rows[i : i + 1]), DEVICE):
            assert isinstance(s, GpuInspection)
            threads = [s.loops[level] for level in s.roles.span("threadIdx", s.loops)]
            extents = [int(np.max(loop.extent)) for loop in threads]
            # Powers of two fill a warp and end with a sector.
            if s.fetches or not threads or any(extent & (extent - 1) for extent in extents):
                continue
            for j in s.distinct:
                access = accesses(s.batch.statement)[j]
                if access.buffer.scope != "global":
                    continue
                strides = [int(np.max(access.stride(loop))) for loop in threads]
                points = itertools.islice(itertools.product(*map(range, extents)), 32)
                bytes_ = [4 * int(np.dot(point, strides)) for point in points]
                assert warp_sectors(s, j, DEVICE)[0] == len({at // 32 for at in bytes_})
                checked += 1
    assert checked > 10


def test_double_operands_take_the_banks_twice() -> None:
    single, double = (tiled(*TILE, dtype=dtype) for dtype in ("float32", "float64"))
    assert cycles(double, "C").shared[0] == 2 * cycles(single, "C").shared[0]

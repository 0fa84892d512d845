import numpy as np
import pytest

from pruner.analyzer.device import Device
from pruner.analyzer.roofline import RooflineDraft
from pruner.features.symbols import SymbolFeatures
from pruner.search.candidate import TraceCandidate
from pruner.search.population import Population
from tests.analyzer import gpu_util
from tests.analyzer.analyzer_util import ALL, DEVICE, FAST, sample

EXTRACTOR = SymbolFeatures(device=DEVICE)
GPU_EXTRACTOR = SymbolFeatures(device=gpu_util.DEVICE)


def as_traces(rows: Population) -> list[TraceCandidate]:
    """The same programs for the slow path: TVM replays them and their nests are read from the program."""
    space = rows.space
    decided = [
        space.sketches[int(i)].decided(row) for i, row in zip(rows.sketch_ids, rows.decisions, strict=True)
    ]
    return [TraceCandidate(space.task, trace) for trace in decided]


@pytest.mark.parametrize("workload", FAST)
def test_rows_candidates_and_programs_have_the_same_features(workload: str) -> None:
    rows = sample(workload, 25, seed=4)
    batch = EXTRACTOR.extract(rows)
    assert batch.values.shape == (len(rows), len(EXTRACTOR.columns))
    assert batch.values.dtype == np.float32
    assert batch.offsets.tolist() == list(range(len(rows) + 1))
    assert np.isfinite(batch.values).all()
    assert np.array_equal(EXTRACTOR.extract(list(rows)).values, batch.values)
    np.testing.assert_allclose(EXTRACTOR.extract(as_traces(rows)).values, batch.values, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("workload", ALL)
def test_features_equal_the_reference_everywhere(workload: str) -> None:
    rows = sample(workload, 100, seed=5)
    loose = 0.1 if workload.startswith("GRP") else 1e-4
    np.testing.assert_allclose(
        EXTRACTOR.extract(as_traces(rows)).values, EXTRACTOR.extract(rows).values, rtol=loose, atol=loose
    )


def test_mixed_candidates_keep_their_order() -> None:
    a, b = sample("C2D/0", 6), sample("GMM/0", 6)
    mixed = [*list(a), *as_traces(b), *list(b)][::-1]
    expected = np.concatenate([EXTRACTOR.extract(part).values for part in (a, b, b)])[::-1]
    np.testing.assert_allclose(EXTRACTOR.extract(mixed).values, expected, rtol=1e-5, atol=1e-5)


def test_names_are_unique_and_every_column_says_something() -> None:
    assert len(set(EXTRACTOR.columns)) == len(EXTRACTOR.columns)
    everything = np.concatenate([EXTRACTOR.extract(sample(w, 60)).values for w in (*FAST, "DEP/0", "T2D/0")])
    still = [
        name for name, column in zip(EXTRACTOR.columns, everything.T, strict=True) if np.ptp(column) == 0
    ]
    assert still == []


def test_role_columns_by_hand() -> None:
    from tests.analyzer.gemm_relu import tiled

    row = tiled([2, 4, 4, 4], [4, 2, 2, 8], [16, 8], unroll=2)
    value = dict(zip(EXTRACTOR.columns, EXTRACTOR.extract(row).values[0].tolist(), strict=True))
    for name, expected in {
        "outer_product": 2 * 4 * 4 * 2,
        "R0_product": 16,
        "S2_product": 4 * 2,
        "R1_product": 8,
        "S3_product": 4 * 8,
        "chunks": 64,
        "vector_lanes": 8,
        "unroll": 64,
        "S8_operations": 2 * 128**3,
        "innermost_reduction": 8,
    }.items():
        assert value[name] == pytest.approx(np.log2(1 + expected), rel=1e-6), name
    assert value["consumers"] == 1
    assert value["consumers_depth"] == 4
    assert value["producers"] == 0
    assert value["imbalance"] == 1


def test_every_column_is_explained_for_the_devices_kind() -> None:
    for extractor in (EXTRACTOR, GPU_EXTRACTOR):
        assert all(extractor.explain(name) != name for name in extractor.columns)
    assert EXTRACTOR.explain("chunks") == "main statement: iterations of the parallel loop, log2(1 + x)"
    assert GPU_EXTRACTOR.explain("chunks") == "main statement: blocks, log2(1 + x)"
    assert GPU_EXTRACTOR.explain("share").endswith("gets")
    assert EXTRACTOR.explain("seconds").endswith("log2(1 + nanoseconds)")


def test_nothing_gives_an_empty_batch() -> None:
    batch = EXTRACTOR.extract([])
    assert batch.values.shape == (0, len(EXTRACTOR.columns))
    assert len(batch) == 0


@pytest.mark.parametrize("workload", gpu_util.FAST)
def test_a_gpu_has_the_same_columns(workload: str) -> None:
    rows = gpu_util.sample(workload, 15, seed=4)
    batch = GPU_EXTRACTOR.extract(rows)
    assert batch.values.shape == (len(rows), len(EXTRACTOR.columns))
    assert np.isfinite(batch.values).all()
    assert np.array_equal(GPU_EXTRACTOR.extract(list(rows)).values, batch.values)
    traces = GPU_EXTRACTOR.extract(as_traces(rows)).values
    np.testing.assert_allclose(traces, batch.values, rtol=1e-4, atol=1e-4)


def test_a_program_that_does_not_fit_the_device_has_finite_features() -> None:
    rows = gpu_util.space("C2D/0").sample_legal(100, np.random.default_rng(0))
    small = Device.load("k80")
    assert np.isinf(RooflineDraft(device=small).score(rows)).any()
    assert np.isfinite(SymbolFeatures(device=small).extract(rows).values).all()


def test_gpu_columns_say_something() -> None:
    parts = [gpu_util.sample(w, 100) for w in (*gpu_util.FAST, "DEP/0", "T2D/0")]
    everything = np.concatenate([GPU_EXTRACTOR.extract(part).values for part in parts])
    columns = zip(EXTRACTOR.columns, everything.T, strict=True)
    # No program that TVM accepts asks for more shared memory than there is.
    assert [name for name, column in columns if np.ptp(column) == 0] == ["penalty_l1_memory"]


def test_gpu_role_columns_by_hand() -> None:
    row = gpu_util.tiled([4, 2, 8, 2, 1], [2, 2, 16, 1, 2], [8, 4, 4], unroll=2, sketch=1)
    values = GPU_EXTRACTOR.extract(row).values[0].tolist()
    value = dict(zip(EXTRACTOR.columns, values, strict=True))
    for name, expected in {
        "chunks": 4 * 2,  # blocks
        "lanes": 8 * 16,  # threads
        "outer_product": 4 * 2 * 8 * 16,
        "R0_product": 8,
        "S2_product": 2 * 2 * 2,  # virtual threads and S3
        "R1_product": 4 * 4,  # both inner reductions
        "S3_product": 2,
        "tile": 4 * 4,  # accumulators
        "largest_input_step": 4 * 4 * 16,  # bytes of a thread's operands in one step
        "unroll": 32,
        "fetched_l1": 3 * 4 * (32 * 16 + 64 * 16),  # shared memory, three stages
        "fetched_private": 4 * (32 * 16 + 64 * 16),
        "S4_private_units": 8 * 16,
        "S5_traffic": 4 * (2 * 128 * 128 + 4 * 128 * 128 + 128 * 128),
        "S7_run": 4 * 16,
        "S8_operations": 2 * 128**3,
    }.items():
        assert value[name] == pytest.approx(np.log2(1 + expected), rel=1e-6), name
    assert (value["producers"], value["consumers"], value["nests"]) == (2, 1, 1)
    assert value["vector_loops"] == 4
    assert value["imbalance"] == 108 / 8

"""What holds for every draft model on GPU programs."""

import dataclasses

import numpy as np
import pytest

from pruner.analyzer.device import Device
from pruner.analyzer.draft import DraftModel
from pruner.analyzer.penalties import PENALTIES
from pruner.analyzer.psa import PsaDraft
from pruner.analyzer.resources import VTHREADS
from pruner.analyzer.roofline import RooflineDraft
from pruner.analyzer.symbol import SymbolDraft
from pruner.search.space import Space
from pruner.target import resolve_target
from pruner.workload import load_task
from tests.analyzer.analyzer_util import check_reference
from tests.analyzer.gpu_util import ALL, DEVICE, FAST, sample, space, tiled

DRAFTS = (SymbolDraft, PsaDraft, RooflineDraft)
Draft = type[SymbolDraft] | type[PsaDraft] | type[RooflineDraft]


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("workload", FAST)
def test_scores_are_seconds_and_do_not_depend_on_the_company(draft: Draft, workload: str) -> None:
    model: DraftModel = draft(device=DEVICE)
    rows = sample(workload, 200)
    scores = model.score(rows)
    assert scores.dtype == np.float64
    assert (scores > 0).all()
    finite = scores[np.isfinite(scores)]
    assert len(finite) > 60
    assert (finite < 1).all()
    # Every sketch has programs that fit.
    assert set(rows.sketch_ids[np.isfinite(scores)].tolist()) == set(range(len(space(workload).sketches)))
    order = np.random.default_rng(1).permutation(len(rows))
    assert np.array_equal(model.score(rows[order]), scores[order])
    assert np.array_equal(np.concatenate([model.score(rows[i : i + 1]) for i in range(20)]), scores[:20])
    assert len(model.score(rows[:0])) == 0


def closeness(workload: str) -> float:
    """Floor terms of grouped and transposed convolutions are simplified further in the program than in the
    analysis: loads run a little longer or shorter, and windows that overlap are seen in one only."""
    if workload.startswith("T2D"):
        return 0.15
    return 6e-2 if workload.startswith("GRP") else 1e-6


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("workload", FAST)
def test_scores_equal_those_of_the_materialised_programs(draft: Draft, workload: str) -> None:
    check_reference(draft(device=DEVICE), sample(workload, 15, 2), closeness(workload))


@pytest.mark.slow
@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("workload", ALL)
def test_scores_equal_those_of_the_materialised_programs_everywhere(draft: Draft, workload: str) -> None:
    check_reference(draft(device=DEVICE), sample(workload, 100, 3), closeness(workload))


# Terms that a formula does not have, or that are ideal for every program that TVM accepts.
ABSENT = {
    SymbolDraft: {"l1_memory"},
    PsaDraft: {"l1_memory", "l2_memory"},
    RooflineDraft: set(),
}


@pytest.mark.parametrize("draft", DRAFTS)
def test_every_penalty_makes_a_difference_and_is_a_penalty(draft: Draft) -> None:
    rows = sample("C2D/0", 400)
    whole = draft(device=DEVICE).score(rows)
    rows, whole = rows[np.isfinite(whole)], whole[np.isfinite(whole)]
    none = draft(device=DEVICE, penalties="none").score(rows)
    for name in PENALTIES:
        without = draft(device=DEVICE, penalties=f"no_{name}").score(rows)
        assert (without <= whole * (1 + 1e-12)).all(), name
        assert (without < whole * 0.999).any() == (name not in ABSENT[draft]), name
        assert (without >= none * (1 - 1e-12)).all(), name


@pytest.mark.parametrize("draft", DRAFTS)
def test_programs_that_no_thread_can_hold_do_not_fit(draft: Draft) -> None:
    model = draft(device=DEVICE)
    # Accumulators: 16 x 15 fit in 255 registers, 16 x 16 do not.
    assert np.isfinite(model.score(tiled([1, 1, 15, 4, 4], [1, 1, 16, 5, 3], [60, 2, 2])))
    assert np.isinf(model.score(tiled([2, 1, 8, 4, 4], [2, 1, 8, 4, 4], [64, 2, 2])))
    # A block of 1024 threads leaves 64 registers for each.
    assert np.isfinite(model.score(tiled([4, 1, 32, 2, 2], [2, 1, 32, 2, 4], [128, 2, 2])))
    assert np.isinf(model.score(tiled([2, 1, 32, 2, 4], [1, 1, 32, 4, 4], [128, 2, 2])))
    # Virtual threads.
    assert np.isfinite(model.score(tiled([1, VTHREADS // 8, 8, 2, 1], [1, 8, 16, 1, 1], [32, 2, 2])))
    assert np.isinf(model.score(tiled([1, VTHREADS // 4, 8, 1, 1], [1, 8, 16, 1, 1], [32, 2, 2])))


@pytest.mark.parametrize("draft", DRAFTS)
def test_shared_arrays_must_fit_with_their_padding(draft: Draft) -> None:
    rows = tiled([4, 2, 8, 2, 1], [2, 2, 16, 1, 2], [8, 4, 4])  # 6144 bytes
    target = dict(DEVICE.target)
    for bytes_, fits in ((6144, True), (6143, False)):
        device = dataclasses.replace(DEVICE, target=target | {"max_shared_memory_per_block": bytes_})
        assert bool(np.isfinite(draft(device=device).score(rows)[0])) == fits


@pytest.mark.parametrize(
    "name", ["t4", "titan-v", "orin-agx", "a100-80g", "rtx3080", "rtx4090", "h100", "h200"]
)
def test_every_device_drafts_its_own_target(name: str) -> None:
    device = Device.load(name)
    target, _ = resolve_target(dict(device.target), 1)
    found = Space.of(load_task("GMM/0", target))
    rows = found.sample(2000, np.random.default_rng(0))
    rows = rows[found.legal(rows)]
    for draft in DRAFTS:
        scores = draft(device=device).score(rows)
        assert np.isfinite(scores).mean() > 0.5
        assert np.ptp(scores[np.isfinite(scores)]) > 0

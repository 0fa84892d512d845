"""What holds for every draft model."""

import subprocess
import sys

import numpy as np
import pytest

from pruner.analyzer.draft import DraftModel
from pruner.analyzer.penalties import CHOICES, PENALTIES
from pruner.analyzer.roofline import RooflineDraft
from pruner.analyzer.symbol import SymbolDraft
from pruner.errors import ConfigError
from tests.analyzer.analyzer_util import ALL, DEVICE, FAST, check_reference, sample

DRAFTS = (SymbolDraft, RooflineDraft)
Draft = type[SymbolDraft] | type[RooflineDraft]


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("workload", FAST)
def test_scores_are_seconds_and_do_not_depend_on_the_company(draft: Draft, workload: str) -> None:
    model: DraftModel = draft(device=DEVICE)
    rows = sample(workload, 120)
    scores = model.score(rows)
    assert scores.shape == (len(rows),)
    assert scores.dtype == np.float64
    assert ((scores > 1e-8) & (scores < 100)).all()
    order = np.random.default_rng(1).permutation(len(rows))
    assert np.array_equal(model.score(rows[order]), scores[order])
    assert np.array_equal(np.concatenate([model.score(rows[i : i + 1]) for i in range(20)]), scores[:20])
    assert len(model.score(rows[:0])) == 0


def closeness(workload: str) -> float:
    """GRP's floor terms are simplified further in the program than in the analysis: a line more or less."""
    return 5e-2 if workload.startswith("GRP") else 1e-6


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("workload", FAST)
def test_scores_equal_those_of_the_materialised_programs(draft: Draft, workload: str) -> None:
    check_reference(draft(device=DEVICE), sample(workload, 25, 2), closeness(workload))


@pytest.mark.slow
@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("workload", ALL)
def test_scores_equal_those_of_the_materialised_programs_everywhere(draft: Draft, workload: str) -> None:
    check_reference(draft(device=DEVICE), sample(workload, 100, 3), closeness(workload))


@pytest.mark.parametrize("draft", DRAFTS)
def test_every_penalty_makes_a_difference_and_is_a_penalty(draft: Draft) -> None:
    rows = sample("C2D/0", 300)
    whole = draft(device=DEVICE).score(rows)
    none = draft(device=DEVICE, penalties="none").score(rows)
    for name in PENALTIES:
        without = draft(device=DEVICE, penalties=f"no_{name}").score(rows)
        assert (without <= whole * (1 + 1e-12)).all(), name
        assert (without < whole * 0.999).any(), name
        assert (without >= none * (1 - 1e-12)).all(), name
    no_compute = draft(device=DEVICE, penalties="no_compute").score(rows)
    assert (no_compute <= whole * (1 + 1e-12)).all()
    assert not np.array_equal(no_compute, draft(device=DEVICE, penalties="no_memory").score(rows))


@pytest.mark.parametrize("draft", DRAFTS)
def test_an_unknown_penalty_is_refused_with_the_list(draft: Draft) -> None:
    with pytest.raises(ConfigError, match=CHOICES[-1]):
        draft(device=DEVICE, penalties="no_mercy")


def test_a_fresh_process_gives_the_same_scores() -> None:
    code = (
        "import sys\n"
        "from tests.analyzer.analyzer_util import DEVICE, sample\n"
        "from pruner.analyzer.roofline import RooflineDraft\n"
        "scores = RooflineDraft(device=DEVICE).score(sample('TBG/0', 50))\n"
        "sys.stdout.write(scores.tobytes().hex())"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert bytes.fromhex(child.stdout) == RooflineDraft(device=DEVICE).score(sample("TBG/0", 50)).tobytes()

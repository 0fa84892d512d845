"""Drafts of several sizes, on a dummy device."""

import csv
import json

import pytest

from experiments import draft_value
from pruner.records.journal import NAME, Journal
from tests.experiments.test_compare import DUMMY


@pytest.fixture
def go(tmp_path, capsys):
    """Runs the command; gives its exit code, what it printed and the document."""

    def run(*words):
        code = draft_value.main([f"work_dir={tmp_path / 'out'}", *words])
        shown = capsys.readouterr()
        path = tmp_path / "out" / "draft_value.json"
        return code, shown.out + shown.err, json.loads(path.read_text()) if path.exists() else None

    return run


def test_sizes_of_a_draft_on_a_dummy_device(go, tmp_path):
    words = ["workload=GMM/0", "seed=0", "sizes=[16,64]", "base=64", "trials=12", "verifiers=[random]", DUMMY]
    code, _, document = go(*words)
    assert code == 0
    rows = {row["size"]: row for row in document["results"]}
    assert list(rows) == [16, 64]
    for size, row in rows.items():
        journal = Journal.read(tmp_path / "out" / "runs" / "GMM-0-seed0" / f"random-{size}" / NAME)
        assert journal.header.settings["draft"]["size"] == size
        assert journal.header.settings["verifier"]["_target_"].endswith("RandomVerifier")
        assert row["latency_s"] == pytest.approx(2 * min(trial.latency_s for trial in journal.trials))
    # Of one block the mean is the ratio of that block, the base's over the other size's.
    found = document["summary"]["random"]["16"]
    assert found["latency"]["mean"] == pytest.approx(rows[64]["latency_s"] / rows[16]["latency_s"])
    assert found["latency"]["low"] is None
    with (tmp_path / "out" / "draft_value.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [(row["verifier"], row["size"]) for row in table] == [("random", "16"), ("random", "64")]
    assert float(table[0]["total_s"]) == pytest.approx(rows[16]["seconds"]["total"])
    assert "| GMM/0 | random | 16 |" in (tmp_path / "out" / "draft_value.md").read_text()
    assert (tmp_path / "out" / "draft_value.png").read_bytes().startswith(b"\x89PNG")
    code, printed, again = go(*words)
    assert (code, again["results"]) == (0, document["results"])
    assert "GMM/0 seed 0  kept" in printed


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("base=100", "base=100 is none of the sizes: give one of 32, 128, 512, 2048, 8000"),
        ("sizes=[]", "sizes=[] is empty"),
        ("sizes=[0,512]", "sizes=0 is not accepted"),
        ("verifiers=[]", "verifiers=[] is empty"),
        ("verifiers=[nobody]", "Unknown verifier 'nobody'"),
        ("verifiers=['xgb verifier.deep=3']", "Unknown setting 'verifier.deep'"),
        ("overrides=['draft.size=3']", "overrides hold draft.size, which the study sets itself"),
        ("verifiers=['pacm verifier.form=nope']", "verifier.form=nope is not accepted"),
        ("verifiers=[xgb,'xgb ']", "verifiers hold xgb twice"),
        ("sizes=[512,100000]", "sizes=100000 is more than the 8000 rows that a draft explores"),
        ("trials=0", "trials=0 is not accepted"),
    ],
)
def test_bad_settings_are_told_before_anything_runs(word, message, go, tmp_path):
    code, printed, document = go(word)
    assert (code, document) == (2, None)
    assert message in printed
    assert len(printed.splitlines()) == 1
    assert not (tmp_path / "out" / "runs").exists()

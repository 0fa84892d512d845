"""Runs whose measurer compiles and times nothing, on a dummy one."""

import csv
import io
import json
from typing import ClassVar

import numpy as np
import pytest
from rich.console import Console

import pruner
from pruner import compiled, report
from pruner.adapt.rule import Frozen
from pruner.analyzer.device import Device
from pruner.analyzer.draft import NoDraft, draft_scores
from pruner.analyzer.roofline import RooflineDraft
from pruner.costmodel.xgb import XGBVerifier
from pruner.display import Display, PlainDisplay
from pruner.errors import ConfigError
from pruner.measure.measurement import Measurement, Measurer
from pruner.measure.nvcc import Resources
from pruner.records.database import load
from pruner.records.journal import Journal
from pruner.search.latent import LatentSearch
from tests.run_util import matmul

DEVICE = Device.load("x86-64")


def needs(candidate):
    """Any needs that depend on the program alone."""
    number = int.from_bytes(candidate.key[-64:], "little")
    return Resources(32 + number % 97, number % 3, 64 * (number % 11), 0, 1000 + number % 13)


class Compiles(Measurer):
    """Compiles at once; those for which `fails` says so do not."""

    times: ClassVar[bool] = False

    def __init__(self, fails=lambda _: False):
        self._fails = fails
        self.measured = []

    def measure(self, candidates):
        self.measured += candidates
        return [
            Measurement(c, None, None, 0.1, 0.0, "build", "no kernel")
            if self._fails(c)
            else Measurement(c, None, None, 0.1, 0.0, resources=needs(c))
            for c in candidates
        ]


class Messages(PlainDisplay):
    """Keeps what is shown."""

    def __init__(self):
        super().__init__(io.StringIO())

    @property
    def text(self):
        return self.console.file._stream.getvalue()


@pytest.fixture
def go(tmp_path):
    def run(measurer=None, **settings):
        settings = {"trials": 12, "batch": 5, "work_dir": tmp_path / "run", "device": DEVICE, **settings}
        return pruner.tune(matmul(), measurer=measurer or Compiles(), **settings)

    return run


def test_results_are_kept_and_nothing_is_best(go, tmp_path):
    measurer = Compiles()
    result = go(measurer)
    true = [needs(candidate) for candidate in measurer.measured]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["baseline_s"], summary["best_s"], summary["correct"]) == (None, None, None)
    registers = [need.registers for need in true]
    assert summary["resources"]["registers"] == {"low": min(registers), "high": max(registers)}
    rows = list(csv.DictReader((tmp_path / "run" / "curve.csv").open()))
    assert [int(row["registers"]) for row in rows] == registers
    assert [int(row["spill_bytes"]) for row in rows] == [need.spill_bytes for need in true]
    assert {row["latency_s"] for row in rows} == {""}
    assert list(result.curve.columns) == [*report.CURVE, *compiled.COLUMNS]
    contents = Journal.read(tmp_path / "run" / "journal.jsonl")
    assert not contents.header.timed
    assert [trial.resources["cubin_bytes"] for trial in contents.trials] == [n.cubin_bytes for n in true]
    assert (contents.end.best, contents.end.reason, contents.baseline) == (None, "budget", None)
    assert result.best is None
    for ask in (result.compile, lambda: result.database, lambda: load(tmp_path / "run")):
        with pytest.raises(ConfigError, match="measure=compile"):
            ask()
    assert not list((tmp_path / "run").glob("database*"))


def test_the_drafts_order_is_the_runs(go):
    """Nothing is learnt: what the draft expects most of comes first, in every round."""
    measurer, draft = Compiles(), RooflineDraft(device=DEVICE, explored=300, size=60, random=5)
    verifier = XGBVerifier(seed=0)
    result = go(measurer, draft=draft, verifier=verifier, search=LatentSearch(epsilon=0.0), trials=15)
    assert not verifier.fitted
    assert result.summary.seconds["features"] == 0
    space = measurer.measured[0].space
    rows = pruner.search.population.Population(
        space,
        np.array([c.sketch_id for c in measurer.measured]),
        np.stack([c.row for c in measurer.measured]),
    )
    scores = draft_scores(draft, rows)
    np.testing.assert_array_equal(result.curve["draft_s"], scores)
    for first in (0, 5, 10):
        assert list(scores[first : first + 5]) == sorted(scores[first : first + 5])
    best = compiled.best_by_draft(Journal.read(result.work_dir / "journal.jsonl"))
    assert best.draft_s == scores.min()


def test_frozen_is_said_once_unless_it_was_asked_for(go, tmp_path):
    shown = Messages()
    go(display=shown)
    assert shown.text.count("adapt=frozen") == 1
    shown = Messages()
    result = go(display=shown, adapt=Frozen(), draft=NoDraft(device=DEVICE), work_dir=tmp_path / "b")
    assert "adapt=frozen" not in shown.text
    settings = [Journal.read(tmp_path / run / "journal.jsonl").header.settings for run in ("run", "b")]
    assert settings[0]["adapt"] == settings[1]["adapt"]
    assert result.curve["draft_s"].isna().all()


def test_rounds_the_table_and_the_closing_say_what_there_is(go, tmp_path):
    shown = Messages()
    bad = []

    def third(candidate):
        bad.append(candidate)
        return len(bad) % 3 == 0

    result = go(Compiles(third), display=shown)
    text = shown.text
    assert "measure=compile" in text.splitlines()[0]
    assert "trials 5/12  compiled 4" in text
    assert "trials 12/12  compiled 8" in text
    assert "best by the draft" in text
    assert "failed: 4 build" in text
    assert "speed-up" not in text
    assert "Nothing was timed" in text
    assert str(tmp_path / "run" / "curve.csv") in text
    assert result.summary.failures == {"build": 4}
    assert result.curve["registers"].isna().sum() == 4
    least, most = result.curve["registers"].min(), result.curve["registers"].max()
    table = Console(file=io.StringIO(), width=100)
    table.print(report.final_table(result.summary))
    assert f"{least} to {most} registers" in table.file.getvalue()


def test_a_run_in_which_nothing_compiles_says_why(go):
    shown = Messages()
    result = go(Compiles(lambda _: True), display=shown)
    assert result.summary.resources == {}
    assert result.summary.failed == 12
    assert "No candidate compiled. Trial 1 (build): no kernel" in shown.text
    with pytest.raises(ConfigError, match="measure=compile"):
        result.compile()


def test_a_measurer_that_is_none_is_refused(go):
    with pytest.raises(ConfigError, match="measure is 'local', a str"):
        go("local")


def test_a_timed_run_has_no_resources(tmp_path):
    from pruner.testing.dummy import DummyMeasurer

    result = pruner.tune(
        matmul(),
        device=DEVICE,
        trials=3,
        measurer=DummyMeasurer(latency=lambda _: 1e-3),
        work_dir=tmp_path / "run",
        display=Display(),
    )
    assert result.summary.resources is None
    assert list(result.curve.columns) == list(report.CURVE)
    contents = Journal.read(tmp_path / "run" / "journal.jsonl")
    assert contents.header.timed
    assert {(trial.resources, trial.draft_s) for trial in contents.trials} == {(None, None)}

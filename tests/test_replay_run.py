"""Whole runs on records: `measure=replay` and its way in from Python."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import pruner
from pruner.cli import main
from pruner.costmodel.random import RandomVerifier
from pruner.errors import ConfigError, DeviceError
from pruner.measure.replay import ReplayMeasurer
from pruner.records.dataset import Dataset
from pruner.records.journal import Journal
from pruner.records.read import read
from pruner.records.recorded_pool import RecordedPool
from pruner.records.storage import DTYPES
from pruner.search.metaschedule import MetaScheduleSearch
from pruner.search.random import RandomSearch
from pruner.search.space import Space
from tests.records.records_util import made, untranslated
from tests.run_util import matmul

EXCERPT = Path(__file__).parent / "data" / "metaschedule"
REPLAY = ["tune", "measure=replay", f"data={EXCERPT}", "workload=0", "device=a100-40g", "batch=4"]


@pytest.fixture(scope="module")
def pool():
    return RecordedPool.load(EXCERPT, "0")


def replay(pool, work_dir, **settings):
    settings = {"device": "a100-40g", "trials": 20, "batch": 4, "work_dir": work_dir, **settings}
    return pruner.tune(pool.task.mod, measurer=ReplayMeasurer(pool=pool), **settings)


def trials(work_dir):
    """What was decided and recorded, trial by trial."""
    contents = Journal.read(work_dir / "journal.jsonl")
    return [(json.dumps(t.trace), t.latency_s, t.failure) for t in contents.trials]


def test_the_command_replays_a_recorded_task(tmp_path, capsys):
    assert main([*REPLAY, "trials=20", "measure.trial_s=2.0", f"work_dir={tmp_path / 'run'}"]) == 0
    shown = capsys.readouterr().out
    assert "measure=replay" in shown.splitlines()[0]
    assert "nothing was run" in shown
    assert "untuned" not in shown
    assert "speed-up" not in shown
    dataset = read(EXCERPT).dataset.of("0")
    found = Journal.read(tmp_path / "run" / "journal.jsonl")
    assert len(found.trials) == 20
    recorded = {float(latency) for latency in dataset.latency_s}
    assert {t.latency_s for t in found.trials if t.failure is None} <= recorded
    assert found.header.replayed
    assert (found.header.device, found.header.fingerprint) == ("a100-40g", "cuda sm_80")
    assert found.header.settings["data"] == str(EXCERPT)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["replayed"]
    assert summary["seconds"]["run"] == 40.0
    assert summary["seconds"]["build"] == summary["seconds"]["materialise"] == 0.0
    assert summary["seconds"]["total"] > 40.0
    assert (summary["baseline_s"], summary["correct"]) == (None, None)
    assert summary["best_s"] == min(t.latency_s for t in found.trials if t.failure is None)
    assert summary["failed"] == sum(t.failure is not None for t in found.trials) > 0
    counts = summary["candidates"]
    assert counts["explored"] > counts["drafted"] > counts["verified"] > 0
    assert counts["measured"] == 20


def test_the_database_holds_the_best_program_and_the_journal_is_no_new_record(pool, tmp_path):
    result = replay(pool, tmp_path / "run")
    (record,) = result.database.get_all_tuning_records()
    assert [float(s) for s in record.run_secs] == [result.summary.best_s] == [result.best.latency_s]
    assert "threadIdx.x" in result.best.schedule.mod.script()
    recorded = read(tmp_path / "run" / "journal.jsonl")
    assert len(recorded.dataset) == 0
    assert recorded.report.skipped == {"replayed": 20}


def test_a_search_sees_the_rows_and_not_what_was_recorded_of_them(pool, tmp_path):
    given = []

    class Sees(RandomSearch):
        def start(self, space, *, pool, **parts):
            given.append(pool)
            return super().start(space, pool=pool, **parts)

    replay(pool, tmp_path / "run", trials=4, search=Sees(), verifier=RandomVerifier())
    assert given[0].keys().tolist() == pool.keys().tolist()
    assert not {"latency_s", "spread_s", "failure", "cost_s", "order"} & set(dir(given[0]))


def test_the_pool_is_measured_to_its_end(pool, tmp_path):
    result = replay(pool, tmp_path / "run", trials=10_000, search=RandomSearch(), verifier=RandomVerifier())
    assert result.summary.trials == len(pool)
    assert result.summary.best_s == np.nanmin(pool.latency_s)
    assert result.summary.failed == (pool.failure != "").sum()


def test_a_program_that_tvm_refuses_today_ends_no_run(tmp_path):
    """It can be the best of the records."""
    legal = made(6, name="T2D/0")
    space = Space.of(RecordedPool(legal).task)
    drawn = space.unique(space.sample(24, np.random.default_rng(1)))
    n = len(drawn)
    columns = {name: getattr(legal, name)[np.arange(n) % 6] for name in DTYPES}
    columns |= {"sketch_ids": drawn.sketch_ids, "decisions": drawn.decisions, "order": np.arange(n)}
    columns |= {"latency_s": np.where(space.legal(drawn), 1e-3, 1e-9), "failure": np.full(n, "")}
    pool = RecordedPool(Dataset(legal.tasks, **columns))
    result = replay(pool, tmp_path / "run", device="x86-64", trials=100)
    assert (result.summary.trials, result.summary.best_s) == (n, 1e-9)
    assert any("the database is empty" in note for note in result.summary.notes)


def test_one_seed_gives_the_same_trials_whenever_they_were_recorded(pool, tmp_path):
    first = replay(pool, tmp_path / "a")
    replay(pool, tmp_path / "b")
    replay(pool, tmp_path / "c", seed=1)
    dataset = read(EXCERPT).dataset.of("0")
    shuffled = RecordedPool(dataset[np.random.default_rng(0).permutation(len(dataset))])
    replay(shuffled, tmp_path / "d")
    assert (
        trials(tmp_path / "a") == trials(tmp_path / "b") == trials(tmp_path / "d") != trials(tmp_path / "c")
    )
    script = (
        "from tests.test_replay_run import *\n"
        f"replay(RecordedPool.load(EXCERPT, '0'), Path({str(tmp_path / 'e')!r}))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    root = Path(__file__).parents[1]
    subprocess.run([sys.executable, "-c", script], cwd=root, env=environment, check=True)
    assert trials(tmp_path / "e") == trials(tmp_path / "a")
    assert first.summary.trials == 20


def test_what_is_not_recorded_cannot_be_replayed(pool, tmp_path):
    with pytest.raises(ConfigError, match="not the recorded one of 0"):
        pruner.tune(
            matmul(), measurer=ReplayMeasurer(pool=pool), device="a100-40g", work_dir=tmp_path / "run"
        )
    with pytest.raises(ConfigError, match=r"target llvm.*the recorded one"):
        replay(pool, tmp_path / "run", target="llvm")
    with pytest.raises(ConfigError, match="0 was recorded for sm_80; device h100 is sm_90"):
        replay(pool, tmp_path / "run", device="h100")
    with pytest.raises(ConfigError, match="kind cuda; device x86-64 is a cpu"):
        replay(pool, tmp_path / "run", device="x86-64")
    with pytest.raises(ConfigError, match=r"MetaScheduleSearch.*search=latent or search=random"):
        replay(pool, tmp_path / "run", search=MetaScheduleSearch())
    with pytest.raises(DeviceError, match="unknown device a200"):
        replay(pool, tmp_path / "run", device="a200")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["workload=C2D/1"],
            "C2D/1 names no recorded task: the data set has no task C2D/1; it has 0, 1",
        ),
        (["search=metaschedule"], "search=latent or search=random"),
        (["measure.recorded=rtx"], "measure.recorded=rtx is in no device's name"),
        (["measure.recorded=90"], "measure.recorded=90 is in no device's name"),
        (["measure.recorded=[a,b]"], "measure.recorded=['a', 'b'] is not accepted: give part of"),
        (["data=nowhere"], "nowhere is not there"),
    ],
)
def test_the_command_refuses_what_it_cannot_replay(tmp_path, capsys, words, said):
    assert main([*[word for word in REPLAY if word.split("=")[0] != words[0].split("=")[0]], *words]) == 2
    assert said in capsys.readouterr().err


def test_part_of_a_machines_name_may_be_a_number(tmp_path):
    words = ["trials=4", "measure.recorded=80", f"work_dir={tmp_path / 'run'}"]
    assert main([*REPLAY, *words]) == 0
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["trials"] == 4


def test_failures_alone_are_told_as_such(tmp_path, capsys):
    pool = RecordedPool(made(12))
    failed = tmp_path / "failed.npz"
    (dataset := made(12))[dataset.failure != ""].save(failed)
    words = [f"data={failed}", f"workload={pool.task.name}", "device=x86-64", f"work_dir={tmp_path / 'run'}"]
    assert main(["tune", "measure=replay", *words]) == 0
    shown = capsys.readouterr().out
    assert "All programs that were tried failed when they were recorded. Trial 1 (run)" in shown
    assert "untuned" not in shown


def test_without_a_device_the_one_that_the_records_fit_is_taken(pool, tmp_path):
    result = replay(pool, tmp_path / "run", device=None, trials=4)
    assert result.summary.device == "a100-40g"
    assert any("device=a100-40g" in note for note in result.summary.notes)


def test_records_of_a_cpu(tmp_path):
    pool = RecordedPool(made(12))
    result = replay(pool, tmp_path / "run", device="x86-64", trials=100)
    assert (result.summary.trials, result.summary.failed) == (12, 1)
    assert result.summary.best_s == np.nanmin(pool.latency_s)
    assert Journal.read(tmp_path / "run" / "journal.jsonl").header.fingerprint == "cpu"
    result = replay(pool, tmp_path / "here", device=None, trials=4)
    assert any("the records are of cpu: choose device=x86-64" in note for note in result.summary.notes)


def test_what_is_left_out_is_said_and_reading_takes_no_time(tmp_path, capsys, monkeypatch):
    path = tmp_path / "records.npz"
    untranslated(made(12), 3).save(path)

    def slow(*arguments, **settings):
        time.sleep(3.0)
        return read(*arguments, **settings)

    monkeypatch.setattr("pruner.records.recorded_pool.read", slow)
    words = [
        "measure=replay",
        f"data={path}",
        "workload=GMM/0",
        "device=x86-64",
        f"work_dir={tmp_path / 'run'}",
    ]
    start = time.perf_counter()
    assert main(["tune", *words, "trials=4"]) == 0
    wall = time.perf_counter() - start
    assert "11 programs were recorded on cpu; 1 more that are no row" in capsys.readouterr().out
    seconds = json.loads((tmp_path / "run" / "summary.json").read_text())["seconds"]
    assert seconds["run"] == 10.0
    assert seconds["total"] - seconds["run"] <= wall - 3.0

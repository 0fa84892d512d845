import json
import math
import shutil

import numpy as np
import pytest
import tvm_ffi

from pruner.errors import ConfigError
from pruner.records.journal import Journal
from pruner.records.journal_reader import read_journal
from pruner.search.space import Space
from pruner.workload import make_task
from tests.run_util import matmul


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """A finished run of a program that has no name, on a dummy device."""
    import pruner
    from pruner.analyzer.device import Device
    from pruner.testing.dummy import DummyMeasurer
    from tests.run_util import latency

    folder = tmp_path_factory.mktemp("journal") / "run"
    measurer = DummyMeasurer(latency=latency, baseline_s=1e-3)
    pruner.tune(
        matmul(), measurer=measurer, trials=12, batch=6, work_dir=folder, device=Device.load("x86-64")
    )
    return folder


@pytest.fixture
def run(run_folder, tmp_path):
    return shutil.copytree(run_folder, tmp_path / "run")


def test_a_run_is_read_as_it_was_recorded(run):
    contents = Journal.read(run / "journal.jsonl")
    dataset, report = read_journal(run)
    trials = contents.confirmed()
    assert (report.seen, report.skipped, len(dataset)) == (12, {}, 12)
    assert dataset.latency_s.tolist() == [trial.latency_s for trial in trials]
    assert dataset.cost_s.tolist() == [trial.build_s + trial.run_s for trial in trials]
    assert dataset.order.tolist() == list(range(1, 13))
    assert dataset.devices == (contents.header.fingerprint or contents.header.device,)
    (task,) = dataset.tasks
    assert tvm_ffi.structural_equal(task.mod, make_task(matmul(), task.target).mod)
    # The journal holds the row as the candidate's key, which the reader does not look at.
    space = Space.of(make_task(task.mod, task.target, task.id))
    rows = dataset.population(space)
    keys = rows.keys()
    assert [key.tobytes().hex() for key in keys] == [trial.key for trial in trials]


def test_a_failure_keeps_its_kind_and_has_no_latency(run):
    path = run / "journal.jsonl"
    changed = []
    for line in path.read_text().splitlines():
        values = json.loads(line)
        if values["kind"] == "trial" and values["trial"] == 2:
            values |= {"failure": "timeout", "latency_s": None}
        if values["kind"] != "confirmation":
            changed.append(json.dumps(values))
    path.write_text("\n".join(changed))
    dataset, _ = read_journal(path)
    assert dataset.failure[:3].tolist() == ["", "timeout", ""]
    assert np.isnan(dataset.latency_s).tolist() == (dataset.failure == "timeout").tolist()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"trace": {}}, "not replayed: trace form"),
        ({"trace": [[]]}, "not replayed: trace form"),
        ({"trace": [[["GetSBlock", [], ["nowhere", "main"], ["b0"]]], []]}, "not replayed"),
        ({"trace": [[["Split"]], []]}, "not replayed: instruction form"),
        ({"latency_s": 0.0}, "run time 0"),
        ({"latency_s": -1.0}, "run time negative"),
        ({"latency_s": math.nan}, "run time NaN"),
        ({"latency_s": 1e10}, "failure mark"),
        ({"latency_s": None}, "run time no number"),
        ({"latency_s": [1e-3]}, "run time no number"),
        ({"failure": "tired"}, "unknown failure"),
        ({"latency_s": -(10**400)}, "run time negative"),
        ({"build_s": "long"}, "cost no number"),
        ({"build_s": 10**400}, "cost no number"),
        ({"run_s": math.inf}, "cost no number"),
        ({"spread_s": 10**400}, "spread no number"),
        ({"trial": 10**30}, "trial number no integer"),
        ({"spread_s": []}, "spread no number"),
        ({"trial": 1}, "repeated trial"),
        ({"trial": [3]}, "trial number no integer"),
        ({"kind": "trail"}, "no journal record"),
        ({"colour": 1}, "no journal record"),
        ({"kind": "header"}, "no journal record"),
    ],
)
def test_a_broken_trial_is_skipped_with_its_line(run, change, reason):
    path = run / "journal.jsonl"
    kept = [json.loads(line) for line in path.read_text().splitlines()]
    kept = [values for values in kept if values["kind"] != "confirmation"]
    number = next(i for i, values in enumerate(kept) if values.get("trial") == 3)
    kept[number] |= change
    path.write_text("\n".join(json.dumps(values) for values in kept))
    dataset, report = read_journal(path)
    assert len(dataset) == 11
    ((found, count),) = report.skipped.items()
    assert found.startswith(reason)
    assert (count, report.seen) == (1, 12)
    assert report.examples[found][0].startswith(f"{path}:{number + 1}: {reason}")


def test_broken_lines_are_skipped_and_the_rest_is_read(run):
    path = run / "journal.jsonl"
    text = path.read_text()
    header, rest = text.split("\n", 1)
    path.write_text(f"# ours\n\n{header}\n{header}\n[1, 2]\n{rest}" + '{"kind": "trial", "tri')
    dataset, report = read_journal(path)
    assert len(dataset) == 12
    assert report.skipped == {"second header": 1, "no journal record": 1, "truncated line": 1}
    assert report.seen == 15


def test_a_bad_confirmation_is_a_record_that_is_skipped(run):
    path = run / "journal.jsonl"
    broken = {"kind": "confirmation", "trial": "1", "latency_s": 1e-3, "spread_s": 0.0}
    path.write_text(path.read_text() + json.dumps(broken) + "\n")
    dataset, report = read_journal(path)
    assert (len(dataset), report.seen) == (12, 13)
    assert report.skipped == {"trial number no integer": 1}


def test_what_is_no_journal_is_refused(run, tmp_path):
    path = run / "journal.jsonl"
    lines = path.read_text().splitlines()
    header = json.loads(lines[0])
    for text, said in (
        ("", "does not start with a header"),
        ("\n".join(lines[1:]), "does not start with a header"),
        (json.dumps({**header, "target": "llvm"}), "lacks a target"),
        (json.dumps({**header, "target": {"kind": "abacus"}}), "does not know the target"),
        (json.dumps({**header, "workload": 3}), "no texts"),
        (json.dumps({**header, "workload_hash": "0x1"}), "not the one that was tuned"),
        (json.dumps({**header, "workload": "GMM/0"}), "not the one that was tuned"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigError, match=said):
            read_journal(run)


def test_the_file_that_a_journal_names_is_not_executed(run, tmp_path):
    path = run / "journal.jsonl"
    header, rest = path.read_text().split("\n", 1)
    hostile = tmp_path / "program.py"
    hostile.write_text(f"open({str(tmp_path / 'executed')!r}, 'w')\n")
    path.write_text(json.dumps({**json.loads(header), "workload": f"{hostile}:program"}) + f"\n{rest}")
    dataset, _ = read_journal(run)
    assert len(dataset) == 12
    (run / "database_workload.json").unlink()
    with pytest.raises(ConfigError, match="not beside it"):
        read_journal(run)
    assert not (tmp_path / "executed").exists()


def test_mutated_journals_end_in_a_result_or_a_named_error(run):
    path = run / "journal.jsonl"
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    outcomes = set()
    for _ in range(100):
        changed = bytearray(whole)
        for place in rng.integers(len(whole), size=rng.integers(1, 20)):
            changed[place] = rng.integers(256)
        path.write_bytes(changed[: rng.integers(len(whole)) if rng.random() < 0.3 else None])
        try:
            dataset, report = read_journal(path)
            assert len(dataset) + sum(report.skipped.values()) == report.seen
            outcomes.add("some" if report.skipped else "all")
        except ConfigError:
            outcomes.add("refused")
    assert {"some", "refused"} <= outcomes

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace

import pytest

from pruner.errors import ConfigError
from pruner.records.journal import Baseline, Confirmation, End, Header, Journal, Round, Trial, check_free

HEADER = Header(
    workload="GMM/0",
    workload_hash="0xabc",
    target={"kind": "llvm", "num-cores": 2},
    device="auto",
    fingerprint="cpu 2 cores",
    threads=2,
    runtime_threads=2,
    seed=0,
    settings={"batch": 10},
    versions={"python": "3"},
)


def trial(number, latency_s, failure=None):
    return Trial(number, 1, f"{number:04x}", [[], []], latency_s, 0.0, 0.1, 0.2, failure, "", 1.0 * number)


def test_what_is_appended_is_read_back(tmp_path):
    journal = Journal.create(tmp_path / "run", HEADER)
    records = [
        Baseline(2e-3, 1e-5),
        trial(1, 1e-3),
        trial(2, None, "build"),
        Round(1, 2, {"draft": 0.5}, {"explored": 100}),
        Confirmation(1, 1.1e-3, 0.0),
        End(1, "budget"),
    ]
    journal.append(*records)
    contents = Journal.read(journal.path)
    assert contents.header == HEADER
    assert contents.baseline == records[0]
    assert contents.trials == records[1:3]
    assert contents.rounds == [records[3]]
    assert contents.confirmations == [records[4]]
    assert contents.end == records[5]
    assert contents == journal.contents


def test_a_journal_without_the_fields_that_came_later_is_of_a_run_that_timed(tmp_path):
    journal = Journal.create(tmp_path, HEADER)
    journal.append(trial(1, 1e-3))
    header, first = map(json.loads, journal.path.read_text().splitlines())
    del header["timed"], first["resources"], first["draft_s"]
    journal.path.write_text(f"{json.dumps(header)}\n{json.dumps(first)}\n")
    assert Journal.read(journal.path) == journal.contents
    assert journal.contents.header.timed


def test_every_line_is_json_with_its_kind_first(tmp_path):
    journal = Journal.create(tmp_path, HEADER)
    journal.append(trial(1, 1e-3), End(1, "budget"))
    lines = journal.path.read_text().splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["header", "trial", "end"]
    assert all(line.startswith('{"kind"') for line in lines)


def test_a_line_cut_anywhere_loses_only_itself(tmp_path):
    journal = Journal.create(tmp_path, HEADER)
    journal.append(trial(1, 1e-3))
    whole = journal.path.stat().st_size
    journal.append(trial(2, 2e-3))
    data = journal.path.read_bytes()
    for cut in range(whole, len(data)):
        journal.path.write_bytes(data[:cut])
        assert [t.trial for t in Journal.read(journal.path).trials] == [1]
    journal.path.write_bytes(data)
    assert [t.trial for t in Journal.read(journal.path).trials] == [1, 2]


def test_a_broken_line_in_the_middle_is_named(tmp_path):
    journal = Journal.create(tmp_path, HEADER)
    with journal.path.open("a") as file:
        file.write("{half\n")
    journal.append(trial(1, 1e-3))
    with pytest.raises(ConfigError, match="line 2"):
        Journal.read(journal.path)


def test_another_format_is_refused(tmp_path):
    journal = Journal.create(tmp_path, HEADER)
    journal.path.write_text(journal.path.read_text().replace('"format": 1', '"format": 99'))
    with pytest.raises(ConfigError, match="99"):
        Journal.read(journal.path)


def test_nan_never_reaches_the_file(tmp_path):
    journal = Journal.create(tmp_path, HEADER)
    before = journal.path.read_bytes()
    with pytest.raises(ValueError, match="JSON"):
        journal.append(trial(1, 1e-3), trial(2, float("nan")))
    assert journal.path.read_bytes() == before


def test_what_was_appended_survives_a_kill(tmp_path):
    script = textwrap.dedent(
        f"""
        import os, signal, sys
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        from test_journal import HEADER, trial
        from pruner.records.journal import Journal
        journal = Journal.create({str(tmp_path / "run")!r}, HEADER)
        journal.append(trial(1, 1e-3), trial(2, 2e-3))
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    assert done.returncode == -signal.SIGKILL
    assert len(Journal.read(tmp_path / "run" / "journal.jsonl").trials) == 2


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"workload_hash": "0xdef"}, "workload"),
        ({"target": {"kind": "llvm", "num-cores": 4}}, "num-cores"),
        ({"fingerprint": "other cpu"}, "machine"),
        ({"seed": 7}, "seed"),
        ({"settings": {"batch": 5}}, "batch"),
    ],
)
def test_a_folder_of_another_run_is_refused_with_the_difference(tmp_path, change, named):
    Journal.create(tmp_path, HEADER)
    before = (tmp_path / "journal.jsonl").read_bytes()
    with pytest.raises(ConfigError, match=named) as error:
        Journal.create(tmp_path, replace(HEADER, **change))
    assert "another work_dir" in str(error.value)
    assert (tmp_path / "journal.jsonl").read_bytes() == before


def test_the_same_finished_run_is_refused_with_the_way_out(tmp_path):
    Journal.create(tmp_path, HEADER).append(trial(1, 1e-3), End(1, "budget"))
    with pytest.raises(ConfigError, match=r"finished run of GMM/0.*1 trials.*another work_dir"):
        Journal.create(tmp_path, HEADER)
    with pytest.raises(ConfigError, match="finished run"):
        check_free(tmp_path)


def test_a_tuple_that_reads_back_as_a_list_is_no_difference(tmp_path):
    header = replace(HEADER, target={"kind": "llvm", "keys": ("cpu",)})
    Journal.create(tmp_path, header)
    with pytest.raises(ConfigError, match="unfinished run of GMM/0"):
        Journal.create(tmp_path, header)


def test_a_file_or_a_foreign_database_in_the_way_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="is a file"):
        Journal.create(tmp_path / "file", HEADER)
    with pytest.raises(ConfigError, match="cannot be used"):
        Journal.create(tmp_path / "file" / "below", HEADER)
    (tmp_path / "database_workload.json").write_text("")
    with pytest.raises(ConfigError, match="database_workload"):
        Journal.create(tmp_path, HEADER)
    assert not (tmp_path / "journal.jsonl").exists()


def test_a_free_folder_is_not_touched_by_the_check(tmp_path):
    check_free(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_confirmations_override_trials(tmp_path):
    journal = Journal.create(tmp_path, HEADER)
    journal.append(trial(1, 1e-3), trial(2, 2e-3), trial(3, 3e-3), trial(4, None, "run"))
    assert journal.contents.best().trial == 1
    journal.append(Confirmation(1, None, None, "wrong", "off by 3"), Confirmation(2, 4e-3, 0.0))
    assert journal.contents.best().trial == 3
    assert [t.failure for t in journal.contents.confirmed()] == ["wrong", None, None, "run"]
    assert journal.contents.confirmed()[1].latency_s == 4e-3
    journal.append(End(2, "budget"))
    assert journal.contents.best().trial == 2


def test_a_full_disk_leaves_whole_lines(tmp_path, monkeypatch):
    journal = Journal.create(tmp_path, HEADER)
    journal.append(trial(1, 1e-3))
    write = os.write
    calls = []

    def half(descriptor, data):
        calls.append(descriptor)
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        return write(descriptor, data[: len(data) // 2])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", half)
        with pytest.raises(ConfigError, match=r"No space left.*holds 1 trials"):
            journal.append(trial(2, 2e-3), trial(3, 3e-3))
    assert len(calls) == 2
    assert journal.contents.trials == [trial(1, 1e-3)]
    # There is room again.
    journal.append(End(1, "error"))
    contents = Journal.read(journal.path)
    assert (contents.trials, contents.end) == ([trial(1, 1e-3)], End(1, "error"))


def test_a_folder_that_went_away_is_said(tmp_path):
    journal = Journal.create(tmp_path / "run", HEADER)
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(ConfigError, match="cannot be written"):
        journal.append(trial(1, 1e-3))


def test_a_name_that_no_file_can_have_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot be used"):
        check_free(tmp_path / ("x" * 300))


@pytest.mark.parametrize("text", ["", "garbage\n", '{"kind": "trial"}\n'])
def test_a_folder_whose_journal_cannot_be_read_is_left_alone(tmp_path, text):
    (tmp_path / "journal.jsonl").write_text(text)
    with pytest.raises(ConfigError, match="Choose another work_dir"):
        check_free(tmp_path)
    assert (tmp_path / "journal.jsonl").read_text() == text

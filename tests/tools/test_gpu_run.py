"""The run on the GPU machine, with a CuPy that only pretends."""

from __future__ import annotations

import json
import time
from pathlib import Path

import psutil
import pytest
from gpu_util import gpu_run, lines, make_folder, matmul, records, start

FAST, SLOW = 3e-6, 5e-4


def test_it_times_what_is_right_and_compares_the_arms(tmp_path: Path) -> None:
    programs = [(arm, matmul(seconds)) for arm in ("draft", "random") for seconds in (SLOW, 2 * SLOW)]
    programs[0] = ("draft", matmul(FAST))
    folder = make_folder(tmp_path / "made", programs)
    done = gpu_run(folder)
    assert done.returncode == 0, done.stderr
    device, *measured = lines(folder)
    assert device["device"]["name"] == "Fake GPU"
    assert device["device"]["multiprocessors"] == 132
    assert (
        [record["program"] for record in measured] == [record["order"] for record in measured] == [0, 1, 2, 3]
    )
    for record, seconds in zip(measured, (FAST, 2 * SLOW, SLOW, 2 * SLOW), strict=True):
        assert record["failure"] is None
        assert record["timed"] == "graph"
        assert record["median_s"] == pytest.approx(seconds)
        assert record["samples_s"] == pytest.approx([seconds] * len(record["samples_s"]))
    row = next(line for line in done.stdout.splitlines() if line.startswith("GMM/9  4"))
    assert row.split()[-1] == "-"  # two random programs are too few for a correlation
    assert f"{SLOW / FAST:.2f}" in row


def test_every_failure_is_a_record_and_the_rest_go_on(tmp_path: Path) -> None:
    kinds = ["nothing", "refuse", "illegal", "die", "hang"]
    programs = []
    for kind in kinds:
        programs += [("random", [(kind, FAST, (0, 1, 2))]), ("draft", matmul(FAST))]
    folder = make_folder(tmp_path / "made", programs)
    done = gpu_run(folder, "--limit", "3")
    found = records(folder)
    assert [record["failure"] for record in found[::2]] == ["wrong", "run", "run", "run", "timeout"]
    assert [record["failure"] for record in found[1::2]] == [None] * len(kinds)
    messages = [record["message"] for record in found[::2]]
    for message, said in zip(
        messages, ("nan", "too many resources", "ILLEGAL", "exit code 7", "3 s"), strict=True
    ):
        assert said in message
    assert "failures: 3 run, 1 timeout, 1 wrong" in done.stdout
    assert done.returncode == 1  # a wrong program is an error of ours


def test_programs_cannot_pass_by_what_others_left_behind(tmp_path: Path) -> None:
    through_workspace = [("matmul", FAST, (0, 1, 3)), ("copy", FAST, (3, 2))]
    folder = make_folder(
        tmp_path / "made",
        [
            ("draft", through_workspace),
            ("draft", [("copy", FAST, (3, 2))]),  # the workspace that the first one filled
            ("draft", [("nothing", FAST, (0, 1, 2))]),  # the output that it wrote
            ("draft", [("matmul", FAST, (0, 1, 2)), ("scribble", FAST, (0, 1))]),
            ("draft", matmul(FAST)),
        ],
    )
    gpu_run(folder)
    found = records(folder)
    assert [record["failure"] for record in found] == [None, "wrong", "wrong", None, None]
    assert found[0]["median_s"] == pytest.approx(2 * FAST)


def test_a_run_that_was_cut_off_goes_on_where_it_was(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "made", [("draft", matmul(seconds)) for seconds in (FAST, SLOW, FAST)])
    out = tmp_path / "elsewhere"
    assert gpu_run(folder, "--out", str(out)).returncode == 0
    path = out / "records.jsonl"
    first, second, *_ = path.read_bytes().splitlines(keepends=True)
    kept = json.loads(second)
    path.write_bytes(first + second + b'{"kind": "record", "progr')
    done = gpu_run(folder, "--out", str(out))
    assert done.returncode == 0
    assert "1 of them recorded already" in done.stdout
    found = lines(out)
    assert found[1] == kept
    assert [line["kind"] for line in found] == ["device", "record", "record", "record"]
    assert [record["program"] for record in records(out)] == [0, 1, 2]
    before = path.read_bytes()
    assert gpu_run(folder, "--out", str(out)).returncode == 0
    assert path.read_bytes() == before


def test_a_run_ends_in_time_and_the_next_one_does_the_rest(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "made", [("draft", matmul(SLOW))] * 10)
    # A program is launched some ninety times.
    done = gpu_run(folder, "--minutes", "0.05", FAKE_GPU_SLEEP="0.01")
    before = records(folder)
    assert len(before) < 10
    assert f"not run: {10 - len(before)}" in done.stdout
    assert gpu_run(folder).returncode == 0
    assert records(folder)[: len(before)] == before
    assert [record["program"] for record in records(folder)] == list(range(10))


def test_the_end_of_the_run_is_not_a_programs_timeout(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "made", [("draft", [("hang", FAST, (0, 1, 2))])])
    done = gpu_run(folder, "--minutes", "0.03", "--limit", "100")
    assert done.returncode == 1  # nothing ran
    assert records(folder) == []


def test_a_run_that_is_ended_leaves_its_records_and_no_process(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "made", [("draft", matmul(FAST)), ("draft", [("hang", FAST, (0, 1, 2))])])
    with start(folder, "--limit", "100") as process:
        while not (folder / "records.jsonl").exists() or not records(folder):
            time.sleep(0.05)
        children = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "not run: 1" in said
    assert children
    assert psutil.wait_procs(children, timeout=10)[1] == []
    assert [record["failure"] for record in records(folder)] == [None]


def test_without_graphs_launches_are_timed(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "made", [("draft", matmul(SLOW))])
    assert gpu_run(folder, FAKE_GPU_GRAPHS="no").returncode == 0
    assert records(folder)[0]["timed"] == "launches"
    assert records(folder)[0]["median_s"] == pytest.approx(SLOW)


def test_what_cannot_be_used_is_said(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "made", [("draft", matmul(FAST))])
    for done, said in (
        (gpu_run(folder, cupy=False), "has no CuPy"),
        (gpu_run(folder, FAKE_GPU_ARCH="none"), "no CUDA-capable device"),
        (gpu_run(folder, FAKE_GPU_ARCH="80"), "prepare again with --arch sm_80"),
    ):
        assert done.returncode == 2
        assert said in done.stderr
    assert not (folder / "records.jsonl").exists()
    assert gpu_run(folder).returncode == 0
    other = make_folder(tmp_path / "other", [("draft", matmul(FAST))], seed=1)
    (other / "records.jsonl").write_bytes((folder / "records.jsonl").read_bytes())
    assert "prepared at another time" in gpu_run(other).stderr
    (other / "manifest.json").unlink()
    assert "has no manifest.json" in gpu_run(other).stderr

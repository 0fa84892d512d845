import csv
import io
import json
import math

import pytest
from matplotlib import image
from rich.console import Console

from pruner.display import Display, LiveDisplay, PlainDisplay, RoundReport, make_display, panel
from pruner.records.journal import Baseline, Confirmation, Contents, End, Header, Trial
from pruner.report import CURVE, Summary, curve, final_table, latency, write_curve

SECONDS = {"draft": 1.0, "build": 6.0, "run": 3.0, "other": 0.0, "total": 10.0}
CANDIDATES = {"explored": 16000, "drafted": 1024, "verified": 1024, "measured": 5}


@pytest.fixture
def contents():
    """Five trials: 4 ms, a failure, 1 ms found wrong, 2 ms (the best), 3 ms."""
    found = Contents(Header("GMM/0", "0x1", {"kind": "llvm"}, "auto", "f", 2, 2, 0, {}, {"tvm": "1"}))
    found.add(Baseline(8e-3, 0.0))
    for number, (seconds, failure) in enumerate(
        [(4e-3, None), (None, "timeout"), (1e-3, None), (2e-3, None), (3e-3, None)], 1
    ):
        found.add(Trial(number, 1, "", [], seconds, 0.0, 0.0, 0.0, failure, "", 2.0 * number))
    found.add(Confirmation(3, None, None, "wrong", ""))
    found.add(End(4, "budget"))
    return found


def summary(contents, correct=True):
    return Summary.of(contents, correct=correct, candidates=CANDIDATES, seconds=SECONDS)


def text_of(renderable):
    console = Console(file=io.StringIO(), width=100)
    console.print(renderable)
    return console.file.getvalue()


def test_the_curve_never_rises_and_counts_no_wrong_program(contents):
    frame = curve(contents)
    assert tuple(frame.columns) == CURVE
    assert frame["best_s"].tolist() == [4e-3, 4e-3, 4e-3, 2e-3, 2e-3]
    assert frame["trial"].tolist() == [1, 2, 3, 4, 5]
    assert frame["failure"].tolist()[1:3] == ["timeout", "wrong"]
    assert math.isnan(frame["latency_s"][1])


def test_the_curve_files(contents, tmp_path):
    write_curve(tmp_path, contents)
    rows = list(csv.DictReader((tmp_path / "curve.csv").open()))
    assert [float(row["best_s"]) for row in rows] == [4e-3, 4e-3, 4e-3, 2e-3, 2e-3]
    assert [float(row["elapsed_s"]) for row in rows] == [2.0, 4.0, 6.0, 8.0, 10.0]
    pixels = image.imread(tmp_path / "curve.png")
    assert pixels.shape[1] > 1.5 * pixels.shape[0]
    # Something is drawn in both halves.
    half = pixels.shape[1] // 2
    assert pixels[:, :half].std() > 0.05
    assert pixels[:, half:].std() > 0.05


def test_the_curve_of_a_run_without_a_valid_trial(contents, tmp_path):
    nothing = Contents(contents.header)
    write_curve(tmp_path / ".", nothing)
    nothing.add(contents.trials[1])
    write_curve(tmp_path / ".", nothing)
    assert curve(nothing)["best_s"].isna().all()


def test_summary_json(contents, tmp_path):
    summary(contents).write(tmp_path)
    found = json.loads((tmp_path / "summary.json").read_text())
    assert found["trials"] == 5
    assert found["failed"] == 2
    assert found["failures"] == {"timeout": 1, "wrong": 1}
    assert (found["baseline_s"], found["best_s"], found["correct"]) == (8e-3, 2e-3, True)
    assert found["candidates"] == CANDIDATES
    assert found["seconds"] == SECONDS
    assert {"workload", "target", "device", "threads", "versions"} <= set(found)


def test_a_confirmed_latency_is_the_one_reported(contents):
    contents.add(Confirmation(4, 2.5e-3, 0.0))
    assert summary(contents).best_s == 2.5e-3


def test_the_final_table_says_it_all(contents):
    shown = text_of(final_table(summary(contents)))
    for part in (
        "8 ms",
        "2 ms",
        "4.00x",
        "1 timeout, 1 wrong",
        "build 6.0 s (60%)",
        "total 10.0 s",
        "16,000",
    ):
        assert part in shown
    assert "not compared" in text_of(final_table(summary(contents, correct=None)))


def test_a_run_that_found_nothing_has_a_table_too(contents):
    empty = Contents(contents.header)
    made = Summary.of(empty, correct=None, candidates={}, seconds={})
    assert "not compared" in text_of(final_table(made))
    assert made.best_s is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(2.5, "2.5 s"), (2.5e-3, "2.5 ms"), (3.3e-5, "33 us"), (1e-8, "0.01 us"), (None, "-")],
)
def test_latency_in_words(seconds, text):
    assert latency(seconds) == text


REPORT = RoundReport(2, 20, 60, 1.5e-3, 12.34, {"build": 3}, SECONDS)


class Task:
    name = "GMM/0"


def test_plain_lines_away_from_a_terminal(contents):
    stream = io.StringIO()
    display = make_display(stream)
    assert type(display) is PlainDisplay
    display.start(Task, {"seed": 0})
    display.round(REPORT)
    display.message("no num-cores given: [2] assumed")
    display.finish(summary(contents), "load it")
    lines = stream.getvalue().splitlines()
    assert lines[0] == "tuning GMM/0  seed=0"
    assert lines[1] == "round 2  trials 20/60  best 1.5 ms (12.3 GFLOP/s)  10.0 s  failed: 3 build"
    assert lines[2] == "no num-cores given: [2] assumed"
    assert lines[-1] == "load it"
    assert "\x1b" not in stream.getvalue()


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_live_panel_on_a_terminal(contents, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    display = make_display(stream)
    assert isinstance(display, LiveDisplay)
    display.start(Task, {})
    display.round(REPORT)
    assert "20/60" in stream.getvalue()
    display.finish(summary(contents), "load it")
    display.finish()
    assert stream.getvalue().rstrip().endswith("load it")


def test_the_panel_shows_where_the_time_goes():
    shown = text_of(panel(REPORT))
    for part in ("20/60", "1.5 ms (12.3 GFLOP/s)", "3 build", "6.0 s", "60%", "10.0 s"):
        assert part in shown
    assert "-" in text_of(panel(RoundReport(1, 0, 60, None, None)))


def test_silence(capsys, contents):
    display = Display()
    display.start(Task, {})
    display.round(REPORT)
    display.finish(summary(contents), "load it")
    assert capsys.readouterr() == ("", "")

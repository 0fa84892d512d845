"""The engine, with arms that do what a file says and a device that a dictionary stands for."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import pytest

from experiments.arm import Arm, run_arm
from experiments.block import Block, Retimed
from experiments.curves import digest
from experiments.place import Place, Timings
from experiments.retime import on_this_machine
from experiments.study import Study
from pruner import child
from pruner.errors import ConfigError
from tests.experiments.fake_arm import trace

PROGRAM = "tests.experiments.fake_arm"
PROGRAM_OF = """
from tvm import te
def f():
    a = te.placeholder(({n},), "float32", name="A")
    return te.create_prim_func([a, te.compute(({n},), lambda i: a[i] + 1.0, name="B")])
"""
OURS = [[1.0, 90, "a"], [2.0, None, "f"], [3.0, 50, "b"], [4.0, 70, "c"]]
THEIRS = [[10.0, 80, "d"], [20.0, 60, "e"]]
PLAN = {
    "ours": {"trials": OURS},
    "theirs": {"trials": THEIRS},
    "third": {"trials": [[5.0, 55, "a"], [6.0, 40, "g"]]},
}
# Timed again, everything takes two microseconds more, except that e turns out to be slow.
AGAIN = {"a": 92, "b": 52, "c": 72, "d": 82, "e": 99, "g": 42}


@dataclass
class Device(Place):
    """Times by name. wrong: programs whose output differs; asked: what was timed, call by call."""

    wrong: tuple = ()
    asked: tuple = ()
    threads: int = 3

    def run(self, arm, overrides, folder):
        return run_arm(arm, overrides, folder, self.threads)

    def retime(self, programs):
        names = {digest(trace(name)): name for name in AGAIN}
        assert all(found.trace == trace(names[key]) for key, found in programs.items())
        self.asked += (sorted(names[key] for key in programs),)
        found = {
            key: Retimed(None, "wrong") if names[key] in self.wrong else Retimed(AGAIN[names[key]] * 1e-6)
            for key in programs
        }
        return Timings(found, 1e-3)


@pytest.fixture
def device():
    return Device()


@pytest.fixture
def go(tmp_path, device):
    """Makes the block of arms; `ran` has the arms that were run by it, `said` its lines."""

    class Go:
        def __init__(self):
            self.plan = json.loads(json.dumps(PLAN))
            self.said = []

        @property
        def path(self):
            return tmp_path / "blocks" / "GMM-0-seed1.json"

        def __call__(self, *names, machine="here", trials=4, extra=()):
            (tmp_path / "plan.json").write_text(json.dumps(self.plan))
            log = tmp_path / "ran.txt"
            log.unlink(missing_ok=True)
            self.said.clear()
            study = Study(
                trials,
                (f"plan={tmp_path / 'plan.json'}",),
                tmp_path / "blocks",
                machine,
                self.said.append,
                lambda workload: device,
            )
            found = study.block("GMM/0", 1, [Arm(name, extra, PROGRAM) for name in names])
            self.lines = log.read_text().splitlines() if log.exists() else []
            self.ran = [line.split()[0] for line in self.lines]
            return found

    return Go()


def us(points):
    return [(point.trial, point.seconds, round(point.latency_s * 1e6)) for point in points]


def test_a_block_runs_its_arms_in_turn_and_times_their_incumbents_again(go, device):
    block = go("ours", "theirs")
    assert go.ran == ["ours", "theirs"]
    # One word on the workload, seed and the device's threads for all of them, each a process of its own.
    assert {tuple(line.split()[2:]) for line in go.lines} == {("3", "GMM/0", "1")}
    assert len({line.split()[1] for line in go.lines}) == 2
    # c was never held; all others are timed in one go.
    assert device.asked == (["a", "b", "d", "e"],)
    assert us(block.curve("ours")) == [(1, 1.0, 92), (3, 3.0, 52), (4, 5.0, 52)]
    # Held because its first timing was lucky: the curve shows what it is worth.
    assert us(block.curve("theirs")) == [(1, 10.0, 82), (2, 20.0, 99), (2, 21.0, 99)]
    assert block.arms["ours"].failures == {"run": 1}
    assert block.untuned_s == 1e-3
    assert Block.load(go.path) == block


def test_a_finished_block_is_kept_wherever_it_was_made(go, device):
    first = go("ours", "theirs")
    again = go("ours", "theirs", machine="elsewhere")
    assert (again, go.ran) == (first, [])
    assert again.machine == "here"
    assert len(device.asked) == 1


def test_a_further_arm_joins_a_block_and_everything_is_timed_again(go, device):
    go("ours", "theirs")
    block = go("ours", "third")
    assert go.ran == ["third"]
    assert device.asked[-1] == ["a", "b", "d", "e", "g"]
    assert us(block.curve("third")) == [(1, 5.0, 92), (2, 6.0, 42), (2, 7.0, 42)]
    assert us(block.curve("ours")) == [(1, 1.0, 92), (3, 3.0, 52), (4, 5.0, 52)]
    assert go("theirs", "third").timed == ["ours", "theirs", "third"]
    assert go.ran == []


def test_on_another_machine_a_further_arm_means_a_new_block(go):
    go("ours", "theirs")
    block = go("ours", "third", machine="elsewhere")
    assert go.ran == ["ours", "third"]
    assert block.machine == "elsewhere"
    assert set(block.arms) == {"ours", "third"}
    # What had been measured there is not lost.
    assert set(Block.load(go.path.with_suffix(".json.old")).arms) == {"ours", "theirs"}
    assert any(".json.old" in line for line in go.said)


def test_an_arm_that_fails_is_shown_and_the_rest_go_on(go, device):
    go.plan["ours"]["error"] = True
    block = go("ours", "theirs")
    assert go.ran == ["ours", "theirs"]
    assert block.failed == {"ours": "exit code 1\nfirst line\nno luck today"}
    assert any("FAILED: exit code 1\nfirst line\nno luck today" in line for line in go.said)
    assert block.curve("ours") == []
    assert us(block.curve("theirs"))[-1] == (2, 21.0, 99)
    # Where it fails again, nothing else is done again.
    asked = len(device.asked)
    assert go("ours", "theirs") == block
    assert (go.ran, len(device.asked)) == (["ours"], asked)
    # It is tried again, the other is not.
    del go.plan["ours"]["error"]
    block = go("ours", "theirs")
    assert (go.ran, block.failed) == (["ours"], {})
    assert us(block.curve("ours"))[-1] == (4, 5.0, 52)


def test_an_arm_that_was_stopped_has_failed(go):
    go.plan["ours"]["reason"] = "interrupted"
    assert "interrupted" in go("ours", "theirs").failed["ours"]


def test_an_arm_without_any_program_has_no_curve(go):
    go.plan["ours"] = {"trials": [[1.0, None, "f"]]}
    block = go("ours", "theirs")
    assert (block.curve("ours"), block.failed) == ([], {})
    assert block.arms["ours"].failures == {"run": 1}
    assert go("ours", "theirs").timed == ["ours", "theirs"]
    assert go.ran == []


def test_a_wrong_program_leaves_its_place_to_what_would_have_been_held(go, device):
    device.wrong = ("b",)
    block = go("ours", "theirs")
    # c takes the place of b, and all are timed in turn once more.
    assert device.asked == (["a", "b", "d", "e"], ["a", "c", "d", "e"])
    assert us(block.curve("ours")) == [(1, 1.0, 92), (4, 4.0, 72), (4, 5.0, 72)]
    assert any("ours held programs that do not count (wrong)" in line for line in go.said)


def test_where_the_journal_is_gone_the_incumbent_before_a_wrong_one_stands_longer(go, device, tmp_path):
    go("ours", "theirs")
    (tmp_path / "blocks" / "runs").rename(tmp_path / "gone")
    device.wrong = ("b",)
    block = go("ours", "third")
    assert us(block.curve("ours")) == [(1, 1.0, 92)]


def test_a_block_of_other_settings_is_refused(go, tmp_path):
    go("ours", "theirs")
    with pytest.raises(ConfigError, match=r"trials=4, here trials=5.*blocks=DIR"):
        go("ours", "theirs", trials=5)
    with pytest.raises(ConfigError, match="holds an arm ours with"):
        go("ours", extra=("batch=3",))


def test_a_block_of_another_program_is_refused(tmp_path):
    """A file of the user's own may hold another program by the same name."""

    def study():
        return Study(3, (), tmp_path, "here", print, on_this_machine(()))

    (tmp_path / "mine.py").write_text(PROGRAM_OF.format(n=64))
    workload = f"{tmp_path / 'mine.py'}:f"
    block = study()._fresh(on_this_machine(())(workload), workload, 0)
    block.save(tmp_path / f"{block.name}.json")
    study().check(workload, 0, [])
    (tmp_path / "mine.py").write_text(PROGRAM_OF.format(n=256))
    with pytest.raises(ConfigError, match=r"workload_hash=\w+, here workload_hash.*blocks=DIR"):
        study().check(workload, 0, [])
    # A block that was made before it was told is taken.
    del block.settings["workload_hash"]
    block.save(tmp_path / f"{block.name}.json")
    study().check(workload, 0, [])


def test_a_damaged_block_is_refused(go):
    go("ours")
    whole = go.path.read_text()
    found = json.loads(whole)
    for text in (
        "{}",
        whole[: len(whole) // 2],
        json.dumps({**found, "settings": None}),
        json.dumps({**found, "traces": {}}),
        json.dumps({**found, "retimed": {}}),
        json.dumps({**found, "timed": None}),
        json.dumps({**found, "timed": ["another"]}),
        json.dumps({**found, "arms": {}}),
        json.dumps({**found, "beside": "x"}),
        whole.replace('"latency_s": ', '"latency_s": -'),
        whole.replace('"latency_s": 9', '"latency_s": Infinity, "was": 9'),
        json.dumps({**found, "best_s": "x"}),
        json.dumps({**found, "untuned_s": float("nan")}),
        '{"a":' * 100_000,
        whole.replace('"notes": []', '"notes": [1]'),
        whole.replace('"trial": ', '"trial": -'),
        whole.replace('"failures": {', '"failures": {"run": -1'),
    ):
        assert text != whole
        go.path.write_text(text)
        with pytest.raises(ConfigError, match=r"is no block \(.*Remove it"):
            go("ours")


SCRIPT = """
import sys
from pathlib import Path
from experiments.arm import Arm
from experiments.study import Study
from tests.experiments.test_study import Device
folder = Path(sys.argv[1])
study = Study(
    4, (f"plan={folder / 'plan.json'}",), folder / "blocks", "here", print, lambda workload: Device()
)
study.block("GMM/0", 1, [Arm(name, (), "tests.experiments.fake_arm") for name in ("ours", "theirs")])
"""


@pytest.mark.parametrize("machine", ["here", "elsewhere"])
def test_a_killed_study_goes_on_after_its_last_finished_arm(go, tmp_path, machine):
    (tmp_path / "plan.json").write_text(json.dumps({**PLAN, "theirs": {**PLAN["theirs"], "wait": 600}}))
    (tmp_path / "script.py").write_text(SCRIPT)
    study = subprocess.Popen([sys.executable, tmp_path / "script.py", tmp_path], env=child.environment(1))
    log = tmp_path / "ran.txt"
    deadline = time.monotonic() + 120
    while not (log.exists() and "theirs" in log.read_text()):
        assert study.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    waiting = int(log.read_text().splitlines()[-1].split()[1])
    study.send_signal(signal.SIGKILL)
    study.wait()
    # The arm in hand ends with the study, so that nothing runs beside what comes next.
    while _alive(waiting):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert list(Block.load(go.path).arms) == ["ours"]
    block = go("ours", "theirs", machine=machine)
    # On another machine what is half done is worth nothing.
    assert go.ran == (["theirs"] if machine == "here" else ["ours", "theirs"])
    assert us(block.curve("ours"))[-1] == (4, 5.0, 52)
    assert block.machine == machine


def _alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().split()[2] != "Z"

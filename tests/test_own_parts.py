"""Parts of one's own through the real command, from a folder that holds them."""

import json
import os
import subprocess
import sys

import pytest

from pruner.records.journal import Journal
from tests.readme_util import write_examples

PARTS = '''
from linear import Linear
from pruner.measure.measurement import Measurement, Measurer


class Seeing(Linear):
    """Linear, on features of its own."""

    features = ("tiles.Tiles",)

    def fit(self, training_set):
        with open("fitted", "a") as file:
            batch = training_set.features["tiles.Tiles"]
            file.write(f"{len(training_set)} {self.penalty} {batch.version}\\n")
        self.fitted = True
        self.width = batch.values.shape[1]

    def predict(self, features):
        assert features["tiles.Tiles"].values.shape[1] == self.width
        return features["tiles.Tiles"].values.sum(axis=1)


class Made(Measurer):
    def __init__(self, *, task, threads, slowest=997):
        self.slowest = slowest

    def measure(self, candidates):
        return [Measurement(c, 1e-6 * (1 + sum(c.key) % self.slowest), 0.0, 0.0, 0.0) for c in candidates]
'''


@pytest.fixture
def pruner(tmp_path):
    """Runs the command in a folder that holds the parts; returns the completed process."""
    write_examples(tmp_path, "linear.py", "greedy.py", "thrifty.py", "tiles.py", "mine.py")
    (tmp_path / "parts.py").write_text(PARTS)

    def run(*words):
        return subprocess.run(
            [sys.executable, "-m", "pruner", "tune", "workload=GMM/0", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            timeout=300,
        )

    return run


def settings(tmp_path):
    header = Journal.read(tmp_path / "run" / "journal.jsonl").header
    return {group: header.settings[group] for group in ("draft", "verifier", "search", "adapt", "measure")}


def test_custom_parts_by_their_class(pruner, tmp_path):
    done = pruner(
        *("trials=15", "batch=5", "work_dir=run", "device=x86-64"),
        *("draft=custom", "draft._target_=mine.VectorCount", "draft.explored=300"),
        *("verifier=custom", "verifier._target_=parts.Seeing", "verifier.penalty=0.5"),
        *("adapt=custom", "adapt._target_=thrifty.Thrifty", "adapt.growth=1.1"),
        *("measure=custom", "measure._target_=parts.Made", "measure.slowest=31"),
    )
    assert done.returncode == 0, done.stderr
    # Fitted after the first and the second of three rounds, on features named by their class.
    assert (tmp_path / "fitted").read_text().splitlines() == ["5 0.5 1", "10 0.5 1"]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["trials"], summary["failed"]) == (15, 0)
    assert summary["best_s"] <= 31e-6
    assert summary["candidates"]["verified"] > 0
    assert not [note for note in summary["notes"] if "verifier" in note]
    assert settings(tmp_path)["adapt"] == {"_target_": "thrifty.Thrifty", "growth": 1.1}


@pytest.mark.slow
def test_parts_by_files_of_ones_own(pruner, tmp_path):
    chosen = {
        "draft": "_target_: mine.VectorCount\nexplored: 300\n",
        "verifier": "_target_: linear.Linear\npenalty: 0.5\n",
        "search": "_target_: greedy.Greedy\ndrawn: 100\n",
        "adapt": "_target_: thrifty.Thrifty\n",
        "measure": "_target_: parts.Made\n",
    }
    for group, text in chosen.items():
        (tmp_path / "conf" / group).mkdir(parents=True)
        (tmp_path / "conf" / group / "mine.yaml").write_text(text)
    done = pruner(
        *("--config-dir", "conf", "trials=6", "batch=3", "work_dir=run", "device=x86-64"),
        *(f"{group}=mine" for group in chosen),
        "search.drawn=50",
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["trials"] == 6
    assert settings(tmp_path)["search"] == {"_target_": "greedy.Greedy", "drawn": 50}
    assert settings(tmp_path)["verifier"] == {"_target_": "linear.Linear", "penalty": 0.5}

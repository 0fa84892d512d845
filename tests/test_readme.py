"""What the README shows works as it stands."""

import re
from pathlib import Path

import numpy as np
import pytest

from pruner.analyzer.device import Device
from pruner.search.space import Space
from pruner.workload import load_task, resolve_target

README = (Path(__file__).parent.parent / "README.md").read_text("utf-8")


def block(start):
    return next(text for text in re.findall(r"```python\n(.*?)```", README, re.S) if text.startswith(start))


def test_the_draft_model_of_ones_own():
    names = {}
    exec(block("# mine.py"), names)
    target, _ = resolve_target({"kind": "llvm", "num-cores": 2}, 2)
    rows = Space.of(load_task("GMM/0", target)).sample(500, np.random.default_rng(0))
    device = Device.load("x86-64")
    scores = names["VectorCount"](device=device).score(rows)
    assert scores.shape == (500,)
    # A product of 128 x 128 x 128: at best every instruction is a full vector, at worst none is.
    lanes = device.vector_bytes // 4
    assert 128**3 / lanes <= scores.min() < scores.max()
    assert f"draft._target_=mine.{'VectorCount'}" in README


@pytest.mark.slow
def test_the_python_way(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(block("import numpy as np"), names)
    np.testing.assert_allclose(names["z"], names["x"] @ names["y"], rtol=1e-4)
    (folder,) = tmp_path.glob("outputs/*/*")
    assert (folder / "summary.json").exists()


def test_the_strategy_for_tvms_tuner():
    names = {}
    exec(block("from pruner.adapt.rule"), names)
    assert type(names["strategy"]).__name__ == "PrunerStrategy"

"""What the README shows works as it stands."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pytest

from pruner.analyzer.device import Device
from pruner.search.space import Space
from pruner.workload import load_task, resolve_target
from tests.readme_util import README, block, write_examples


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


@pytest.mark.parametrize(("name", "most"), [("linear.py", 29), ("greedy.py", 20), ("thrifty.py", 20)])
def test_parts_of_ones_own_are_short(name, most):
    assert sum(1 for line in block(f"# {name}\n").splitlines() if line.strip()) <= most


SUITES = """\
import pytest
from greedy import Greedy
from pruner.testing import AdaptationSuite, StrategySuite
from thrifty import Thrifty


class TestGreedy(StrategySuite):
    @pytest.fixture
    def make(self):
        return Greedy


class TestThrifty(AdaptationSuite):
    @pytest.fixture
    def make(self):
        return Thrifty
"""


def runner(python, folder, environment):
    """Runs Python with these words in the folder, which holds the examples; returns what it prints."""
    write_examples(folder, "linear.py", "greedy.py", "thrifty.py", "test_linear.py")
    (folder / "test_others.py").write_text(SUITES)

    def run(*words):
        done = subprocess.run(
            [python, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=500
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.mark.slow
def test_a_verifier_of_ones_own_passes_its_suite(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    assert " passed" in runner(sys.executable, tmp_path, environment)("-m", "pytest", "test_linear.py")


@pytest.mark.slow
def test_parts_of_ones_own_beside_an_installed_package(tmp_path):
    """From a wheel, in a fresh environment that sees this one's packages but not this checkout."""
    checkout = Path(__file__).parent.parent
    wheels, fresh, folder = tmp_path / "wheels", tmp_path / "env", tmp_path / "mine"
    folder.mkdir()
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    source = tmp_path / "source"
    for name in ("pruner", "setup.cfg", "pyproject.toml", "README.md"):
        source.mkdir(exist_ok=True)
        os.symlink(checkout / name, source / name)
    subprocess.run(
        [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(wheels), str(source)], check=True
    )
    venv.create(fresh, with_pip=False)
    (wheel,) = wheels.glob("pruner_tvm-*.whl")
    (library,) = fresh.glob("lib/python3.*/site-packages")
    subprocess.run(
        [*pip, "install", "--no-deps", "--no-index", "--target", str(library), str(wheel)], check=True
    )
    python = fresh / "bin" / "python"
    others = [path for path in sys.path if path.endswith("site-packages")]
    (library / "others.pth").write_text("\n".join(others))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = runner(python, folder, environment)
    assert str(library) in run("-c", "import pruner; print(pruner.__file__)")
    assert " passed" in run("-m", "pytest", "test_linear.py", "test_others.py")
    words = ["workload=GMM/0", "trials=20", "batch=5", "verifier=custom", "verifier._target_=linear.Linear"]
    words += ["verifier.penalty=0.1", "adapt=custom", "adapt._target_=thrifty.Thrifty", "work_dir=run"]
    assert "speed-up" in run("-m", "pruner", "tune", *words)

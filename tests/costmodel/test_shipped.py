"""Checkpoints that ship with the package."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from pruner.costmodel import shipped
from pruner.costmodel.checkpoint import save_checkpoint
from pruner.costmodel.pretrained import load_verifier
from pruner.errors import ConfigError
from tests.costmodel.neural_util import features

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(shipped, "FOLDER", tmp_path / "shipped")
    (tmp_path / "shipped").mkdir()
    for name in ("b", "a-f1"):
        (tmp_path / "shipped" / f"{name}.safetensors").touch()
    return tmp_path


def test_names_are_of_the_package_and_the_rest_are_paths(folder, monkeypatch):
    assert shipped.shipped() == ["a-f1", "b"]
    assert shipped.find_checkpoint("b") == folder / "shipped" / "b.safetensors"
    mine = folder / "mine.safetensors"
    mine.touch()
    monkeypatch.chdir(folder)
    assert shipped.find_checkpoint("mine.safetensors").samefile(mine)
    assert shipped.find_checkpoint(str(mine)) == shipped.find_checkpoint(mine) == mine
    for other in ("mine", "b.safetensors", str(folder), folder / "b"):
        with pytest.raises(ConfigError, match=r"there is no checkpoint .* \(a-f1, b\)"):
            shipped.find_checkpoint(other)


def test_the_packages_folder_is_that_of_the_checkout():
    assert shipped.FOLDER.samefile(CHECKOUT / "checkpoints")


@pytest.mark.parametrize("name", shipped.shipped())
def test_every_one_that_ships_is_small_can_be_made_and_tells_its_origin(name):
    path = shipped.find_checkpoint(name)
    assert path.stat().st_size < 2_000_000
    verifier, made = load_verifier(path)
    assert verifier.fitted
    assert made["name"] == name
    assert made["tasks"]
    for place in made["metrics"].values():
        assert place["top1"] > place["random_top1"]


@pytest.mark.slow
def test_a_wheel_holds_them(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pruner", "setup.cfg", "pyproject.toml", "README.md"):
        os.symlink(CHECKOUT / name, source / name)
    # As in a checkout, with one more checkpoint.
    (source / "pruner").unlink()
    shutil.copytree(CHECKOUT / "pruner", source / "pruner", symlinks=True)
    shutil.copytree(CHECKOUT / "checkpoints", source / "checkpoints")
    save_checkpoint(source / "checkpoints" / "another.safetensors", {"w": np.zeros(3)}, {})
    command = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "wheel", "--no-deps"]
    command += ["--no-build-isolation", "-w", str(tmp_path), str(source)]
    subprocess.run(command, check=True)
    [wheel] = tmp_path.glob("pruner_tvm-*.whl")
    with zipfile.ZipFile(wheel) as file:
        held = {name for name in file.namelist() if name.endswith(".safetensors")}
        assert held == {f"pruner/checkpoints/{name}.safetensors" for name in ("another", *shipped.shipped())}
        content = file.read("pruner/checkpoints/another.safetensors")
    assert content == (source / "checkpoints" / "another.safetensors").read_bytes()


@pytest.mark.parametrize("name", ["pacm-a100", "xgb-a100", "tenset_mlp-a100-f1"])
def test_a_feature_that_is_not_given_is_named(name):
    """PaCM reads the draft's seconds among the symbols, besides what its network sees."""
    verifier, _ = load_verifier(shipped.find_checkpoint(name))
    found, _ = features(3)
    for missing in verifier.features:
        given = {other: found[other] for other in verifier.features if other != missing}
        with pytest.raises(ConfigError, match=f"no batch of {missing} "):
            verifier.predict(given)

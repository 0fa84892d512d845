import dataclasses
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pruner.analyzer import calibrate
from pruner.analyzer.calibrate import Rates, cache_folder, calibrated
from pruner.analyzer.device import Device
from pruner.analyzer.host import Cache, Host

HOST = Host("Imaginary", 2, ("avx2",), (Cache(1, 32 << 10, 1),), 3e9, ())
RATES = Rates(peak=1e11, pipes=2, l1=1e12, l2=5e11, l3=2e11, memory=3e10, launch=3e-6)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, Any]]:
    """Jobs that reached the child process; it answers RATES."""
    jobs: list[dict[str, Any]] = []

    def child(job: dict[str, Any]) -> tuple[Rates, bool]:
        jobs.append(job)
        return RATES, True

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(calibrate, "_measure_in_child", child)
    return jobs


def ask(fingerprint: str = "one") -> tuple[Rates, str]:
    return calibrated(fingerprint, {"kind": "llvm"}, 32, HOST)


def test_a_machine_is_calibrated_once(measured: list[dict[str, Any]]) -> None:
    assert ask() == (RATES, "")
    assert ask() == (RATES, "")
    assert len(measured) == 1
    ask("another machine")
    assert len(measured) == 2
    assert measured[0]["cores"] == 2


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"version": 1}', "not json", "null"])
def test_a_broken_file_is_redone(measured: list[dict[str, Any]], damage: str) -> None:
    ask()
    (file,) = cache_folder().iterdir()
    file.write_text(damage)
    assert ask() == (RATES, "")
    assert len(measured) == 2
    assert json.loads(file.read_text())["rates"] == dataclasses.asdict(RATES)


def test_impossible_rates_are_redone(measured: list[dict[str, Any]]) -> None:
    ask()
    (file,) = cache_folder().iterdir()
    kept = json.loads(file.read_text())
    kept["rates"]["memory"] = float("nan")
    file.write_text(json.dumps(kept))
    ask()
    assert len(measured) == 2


def test_a_failing_child_leaves_nominal_rates_and_a_note(
    measured: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(job: dict[str, Any]) -> tuple[Rates, bool]:
        raise subprocess.CalledProcessError(1, "child")

    monkeypatch.setattr(calibrate, "_measure_in_child", fails)
    rates, problem = ask()
    assert rates == calibrate.assumed(HOST, 32)
    assert "assumed" in problem
    assert not cache_folder().exists()


def test_a_disturbed_calibration_is_not_kept(
    measured: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrate, "_measure_in_child", lambda job: (RATES, False))
    rates, problem = ask()
    assert rates == RATES
    assert "busy" in problem
    assert not cache_folder().exists()


def test_a_cache_folder_that_cannot_be_written_is_said(
    measured: list[dict[str, Any]], tmp_path: Path
) -> None:
    (tmp_path / "pruner").write_text("a file where the folder should be")
    rates, problem = ask()
    assert rates == RATES
    assert "cannot be kept" in problem


def test_auto_describes_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import tvm

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    before = dict(os.environ)
    device = Device.load("auto")
    assert dict(os.environ) == before
    assert device.fingerprint
    # Any CPU that TVM runs on does between 1 GFLOP/s and 1 TFLOP/s a core, and no memory is faster than L1.
    assert 1e9 < device.peak["float32"] / device.cores < 1e12
    rates = [level.bandwidth for level in device.levels[1:]]
    assert rates == sorted(rates, reverse=True)
    assert not any("assumed" in note or "failed" in note for note in device.notes)
    target = tvm.target.Target(dict(device.target))
    assert int(target.attrs["num-cores"]) == device.cores

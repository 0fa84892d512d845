"""Devices and targets that fit each other, whatever the user gave of them."""

import subprocess
import sys

import pytest
from tvm.target import Target

from pruner.analyzer.device import Device
from pruner.errors import ConfigError, DeviceError
from pruner.measure import gpu
from pruner.placement import host_threads, placed
from pruner.target import resolve_target
from pruner.workload import load_task


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    monkeypatch.setattr(gpu, "arch", lambda: None)


def place(device, target):
    given = None if device is None else Device.load(device)
    device, task, notes = placed(given, target, lambda whole: load_task("GMM/0", whole))
    return device, task.target, " ".join(notes)


@pytest.mark.parametrize("device", [None, "x86-64"])
@pytest.mark.parametrize(
    "target",
    ["nvidia/geforce-rtx-3080", '{"kind": "cuda", "arch": "sm_86"}', Target("nvidia/geforce-rtx-3080")],
)
def test_the_one_gpu_of_the_targets_architecture_is_taken(device, target):
    chosen, complete, notes = place(device, target)
    assert (chosen.name, complete.attrs["arch"]) == ("rtx3080", "sm_86")
    assert "device=rtx3080" in notes
    assert complete.attrs["max_threads_per_block"] == 1024
    assert complete.attrs["max_shared_memory_per_block"] == 49152


@pytest.mark.parametrize(
    ("target", "taken", "other"),
    [
        ("nvidia/nvidia-a100", "a100-40g", "a100-80g"),
        ("nvidia/nvidia-h100", "h100", "h200"),  # TVM's is sm_90a, ours sm_90
    ],
)
def test_of_several_that_fit_one_is_assumed_and_said(target, taken, other):
    chosen, _, notes = place(None, target)
    assert chosen.name == taken
    assert f"device={taken} assumed" in notes
    assert other in notes


@pytest.mark.parametrize(
    ("device", "target", "said"),
    [
        (None, "cuda", "names no GPU.*a100-40g.*measure=compile"),
        (None, {"kind": "cuda", "arch": "sm_61"}, "sm_61.*a100-40g.*YAML"),
        ("a100-40g", "llvm", "kind is llvm"),
        ("a100-40g", "nvidia/nvidia-t4", "a100-40g is sm_80.*sm_75"),
    ],
)
def test_what_does_not_fit_is_refused(device, target, said):
    with pytest.raises(DeviceError, match=said):
        place(device, target)


@pytest.mark.parametrize(
    "arch", ["", "native", "all", "80", "sm_8x", "compute_80", "sm_80,sm_90", "sm_80 -G"]
)
def test_an_architecture_that_is_none_is_refused(arch):
    for device in (None, "a100-40g"):
        with pytest.raises(ConfigError, match=f'arch "{arch}".*sm_80'):
            place(device, {"kind": "cuda", "arch": arch})


@pytest.mark.parametrize("target", ["cuda", {"kind": "cuda"}, '{"kind": "cuda"}', "cuda -libs=thrust"])
def test_a_target_without_architecture_is_completed_from_the_device(target):
    _, complete, notes = place("t4", target)
    assert complete.attrs["arch"] == "sm_75"
    assert complete.attrs["max_shared_memory_per_block"] == 49152
    assert "arch=sm_75" in notes
    assert ("old string form" in notes) == ("-libs" in target)
    with pytest.raises(ConfigError, match="names no GPU"):
        resolve_target(target, 2)


def test_a_complete_target_stays_as_it_is():
    _, complete, notes = place("a100-80g", "nvidia/nvidia-a100")
    assert dict(complete.export()) == dict(Target("nvidia/nvidia-a100").export())
    assert notes == ""


def test_of_several_the_gpu_of_this_machine_is_taken(monkeypatch):
    monkeypatch.setattr(gpu, "arch", lambda: "sm_80")
    monkeypatch.setattr(gpu, "fingerprint", lambda: "NVIDIA A100-SXM4-80GB, sm_80, TVM 0.27.0")
    for target in ("cuda", "nvidia/nvidia-a100"):
        chosen, complete, _ = place(None, target)
        assert (chosen.name, complete.attrs["arch"]) == ("a100-80g", "sm_80")
        assert "A100-SXM4" in chosen.fingerprint
    assert place("t4", None)[0].fingerprint == ""


def test_threads_of_a_gpu_are_those_of_the_machine_it_is_in(monkeypatch):
    monkeypatch.setattr("pruner.placement.usable_cpus", lambda: {0, 1, 2})
    assert host_threads(Device.load("a100-40g")) == 3
    assert host_threads(Device.load("x86-64")) == 8


def test_tvm_does_not_guess_an_architecture():
    """It would, with a warning, for a cuda target without one."""
    code = (
        "from pruner.placement import placed\n"
        "try: placed(None, 'cuda', print)\n"
        "except Exception as error: print(type(error).__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "sm_50" not in done.stdout + done.stderr
    with pytest.raises(ConfigError, match="foo"):
        place(None, "foo")

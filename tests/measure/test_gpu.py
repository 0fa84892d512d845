"""Which targets the GPU of a machine runs, and what is said where there is none."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import tvm
from tvm.target import Target

from pruner.errors import DeviceError
from pruner.executable import Executable
from pruner.measure import gpu
from pruner.measure.local import LocalMeasurer


def target(arch):
    return Target({"kind": "cuda", "arch": arch})


def test_without_a_gpu_the_ways_are_named(monkeypatch):
    monkeypatch.setattr(gpu, "arch", lambda: None)
    with pytest.raises(DeviceError) as error:
        LocalMeasurer.check_target(target("sm_80"))
    for way in ("sm_80", "measure=compile", "machine with the GPU", "tools/gpu_check.sh", "leave target"):
        assert way in str(error.value)


def test_a_tuned_program_is_not_run_without_its_gpu(monkeypatch, cuda_programs):
    monkeypatch.setattr(gpu, "arch", lambda: None)
    with pytest.raises(DeviceError, match="sm_80"):
        Executable(cuda_programs.shared(), target("sm_80"))


# NVIDIA's rule: machine code runs on the same major version with at least its minor one; an `a` on one GPU.
@pytest.mark.parametrize(
    ("code", "here", "runs"),
    [
        ("sm_80", "sm_80", True),
        ("sm_80", "sm_86", True),
        ("sm_86", "sm_80", False),
        ("sm_75", "sm_80", False),
        ("sm_90a", "sm_90", True),
        ("sm_100a", "sm_103", False),
        ("sm_100", "sm_103", True),
        ("sm_90", "sm_100", False),
    ],
)
def test_code_runs_on_its_own_generation(monkeypatch, code, here, runs):
    monkeypatch.setattr(gpu, "arch", lambda: here)
    if runs:
        gpu.check(target(code))
        return
    with pytest.raises(DeviceError, match=f"{code} .*{here}"):
        gpu.check(target(code))


@pytest.mark.parametrize(("version", "arch"), [("8.6", "sm_86"), ("10.0", "sm_100")])
def test_the_gpu_here_is_what_tvm_sees(monkeypatch, version, arch):
    seen = SimpleNamespace(exist=True, compute_version=version, device_name="NVIDIA Some GPU")
    monkeypatch.setattr(tvm, "cuda", lambda number: seen)
    assert gpu.arch() == arch
    for part in ("NVIDIA Some GPU", arch, tvm.__version__):
        assert part in gpu.fingerprint()
    seen.exist = False
    assert gpu.arch() is None
    assert gpu.fingerprint() == ""

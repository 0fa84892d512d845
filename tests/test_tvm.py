"""The guard against releases that crash, and the fast import of the tensor intrinsics."""

import inspect
import subprocess
import sys
from importlib import metadata

import pytest

from pruner import _tvm
from pruner._tvm import IncompatibleTVMError, check_versions, fast_intrinsics


def _install(monkeypatch: pytest.MonkeyPatch, **versions: str | None) -> None:
    def version(distribution: str) -> str:
        found = versions[distribution.replace("-", "_")]
        if found is None:
            raise metadata.PackageNotFoundError(distribution)
        return found

    monkeypatch.setattr(metadata, "version", version)


@pytest.mark.parametrize("ffi", ["0.1.14.post0", "0.1.14.post1", "0.1.14"])
def test_working_releases_pass(monkeypatch: pytest.MonkeyPatch, ffi: str) -> None:
    _install(monkeypatch, apache_tvm="0.27.0.post1", apache_tvm_ffi=ffi)
    check_versions()


@pytest.mark.parametrize(
    ("tvm", "ffi", "said"),
    [
        ("0.27.0.post1", "0.1.15.post1", "apache-tvm-ffi 0.1.15.post1"),
        ("0.27.0.post1", "0.1.15.post2", "apache-tvm-ffi 0.1.15.post2"),
        ("0.27.0.post1", "0.1.140", "apache-tvm-ffi 0.1.140"),
        ("0.27.0.post1", "0.1.13.post3", "apache-tvm-ffi 0.1.13.post3"),
        ("0.26.0", "0.1.14.post1", "apache-tvm 0.26.0"),
        ("0.27.0.post1", None, "apache-tvm-ffi is not installed"),
        (None, None, "apache-tvm is not installed"),
    ],
)
def test_other_releases_are_refused_with_the_fix(
    monkeypatch: pytest.MonkeyPatch, tvm: str | None, ffi: str | None, said: str
) -> None:
    _install(monkeypatch, apache_tvm=tvm, apache_tvm_ffi=ffi)
    with pytest.raises(IncompatibleTVMError, match="pip install") as caught:
        check_versions()
    assert said in str(caught.value)


def test_import_refuses_a_crashing_release_before_tvm_is_imported() -> None:
    code = """
import sys
from importlib import metadata
known = metadata.version
metadata.version = lambda name: "0.1.15.post2" if name == "apache-tvm-ffi" else known(name)
try:
    import pruner
except ImportError as error:
    assert "apache-tvm-ffi==0.1.14" in str(error), error
    assert not [name for name in sys.modules if name.split(".")[0] in ("tvm", "tvm_ffi")]
    print("refused")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "refused"


def test_import_of_the_package_alone_leaves_tvm_out() -> None:
    code = "import sys, pruner; print(pruner.__version__, 'tvm' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    version, *loaded = done.stdout.split()
    assert version
    assert loaded == ["False", "False"]


def test_the_package_offers_the_tuner_whichever_way_it_is_imported() -> None:
    import pruner
    import pruner.tune
    from pruner.result import TuneResult

    assert callable(pruner.tune)
    assert pruner.TuneResult is TuneResult
    with pytest.raises(AttributeError, match="no attribute 'tuna'"):
        pruner.tuna  # noqa: B018


def test_intrinsics_are_registered_and_getmodule_is_restored() -> None:
    code = """
import inspect, tvm
original, calls = inspect.getmodule, 0
def counting(*given):
    global calls
    calls += 1
    return original(*given)
inspect.getmodule = counting
from pruner._tvm import fast_intrinsics
fast_intrinsics()
fast_intrinsics()
assert inspect.getmodule is counting
from tvm.s_tir import TensorIntrin
assert TensorIntrin.get("dot_16x4_vnni") is not None
print(calls)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 1000  # TVM alone asks some 27,000 times


def _run(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_cpu_gets_no_intrinsics_of_gpus_until_they_are_asked_for() -> None:
    code = """
import sys
from pruner._tvm import fast_intrinsics, tune_context
from tvm.s_tir import TensorIntrin
from tvm.target import Target
def made(*names):
    return [TensorIntrin.get(name, allow_missing=True) is not None for name in names]
names = "dot_16x4_vnni", "dot_4x4_i8i8s32_neon", "wmma_fill_16x16x16_f32"
cpu = {"kind": "llvm", "num-cores": 2}
tune_context(Target({**cpu, "mtriple": "x86_64-linux-gnu"}))
assert made(*names) == [True, False, False], made(*names)
tune_context(Target({**cpu, "mtriple": "aarch64-linux-gnu"}))
assert made(*names) == [True, True, False], made(*names)
assert "tvm.s_tir.tensor_intrin" not in sys.modules
assert not any("cuda" in name for name in sys.modules if "tensor_intrin" in name)
tune_context(Target("nvidia/nvidia-a100"))
assert made(*names) == [True, True, True]
"""
    _run(code)


def test_tvm_imports_its_intrinsics_after_a_cpu_had_its_own() -> None:
    code = """
from pruner._tvm import _memoised_getmodule, fast_intrinsics
from tvm.target import Target
fast_intrinsics(Target({"kind": "llvm", "num-cores": 2}))
with _memoised_getmodule():  # TVM takes half a minute by itself
    import tvm.s_tir.tensor_intrin
    from tvm.s_tir.tensor_intrin import cuda, x86
from tvm.s_tir import TensorIntrin
assert TensorIntrin.get("wmma_fill_16x16x16_f32") is not None
assert tvm.s_tir.tensor_intrin.x86 is x86
"""
    _run(code)


def test_tvm_is_imported_without_pytorch_which_can_be_imported_afterwards() -> None:
    pytest.importorskip("torch")
    code = """
import sys
from pruner._tvm import import_tvm
import_tvm()
assert "tvm" in sys.modules and "torch" not in sys.modules
import torch
print(float(torch.ones(2).sum()))
import_tvm()
assert sys.modules["torch"] is torch
"""
    assert _run(code) == ["2.0"]


def test_getmodule_is_restored_when_the_import_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_tvm, "_INTRINSICS", "tvm.s_tir.no_such_module")
    before = inspect.getmodule
    with pytest.raises(ModuleNotFoundError):
        fast_intrinsics()
    assert inspect.getmodule is before

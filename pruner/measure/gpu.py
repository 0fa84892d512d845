"""The GPU of this machine, if it has one that TVM can use, and why not otherwise."""

from __future__ import annotations

import ctypes
from pathlib import Path

import tvm
from tvm import base
from tvm.target import Target

from pruner.errors import DeviceError

WAYS = (
    "measure=compile builds the candidates without a GPU and times none; for latencies run it on a machine "
    "with the GPU, or on one that is lent without TVM (tools/gpu_check.sh says how); or leave target and "
    "device out for this machine's CPU."
)


def arch() -> str | None:
    """The architecture of the first GPU, such as sm_80; None where there is none."""
    gpu = tvm.cuda(0)
    return f"sm_{str(gpu.compute_version).replace('.', '')}" if gpu.exist else None


def fingerprint() -> str:
    """What makes two machines the same for measurements on a GPU; empty where there is none."""
    gpu = tvm.cuda(0)
    return f"{gpu.device_name}, {arch()}, TVM {tvm.__version__}" if gpu.exist else ""


def check(target: Target) -> None:
    """Raises DeviceError, naming the ways out, where this machine has no GPU that runs the target's code."""
    wanted, there = str(target.attrs["arch"]), arch()
    if there is None:
        raise DeviceError(
            f"code for {wanted} (a cuda target) cannot be timed here: {_missing()} Ways on: {WAYS}"
        )
    # Machine code runs on later GPUs of its own generation; the suffix (sm_90a) names one GPU alone.
    here, needed = _version(there), _version(wanted)
    older = needed[0] == here[0] and needed[1] <= here[1]
    if not (here == needed if wanted[-1].isalpha() else older):
        raise DeviceError(
            f"code for {wanted} (the target's arch) cannot run on the GPU of this machine, which is {there}: "
            f"choose the device or the target that it is, or another way: {WAYS}"
        )


def _missing() -> str:
    """Why there is no GPU, in a sentence."""
    if tvm.get_global_func("device_api.cuda", allow_missing=True) is not None:
        return "TVM finds no CUDA device."
    library = Path(base._LOADED_LIBS["tvm_runtime"]._name).with_name("libtvm_runtime_cuda.so")
    if not library.is_file():
        return "this TVM is built without the CUDA runtime."
    try:
        ctypes.CDLL(str(library))
    except OSError as error:
        return f"there is no GPU, or TVM's CUDA runtime does not load ({error})."
    return "TVM's CUDA runtime is not registered."


def _version(name: str) -> tuple[int, int]:
    """(8, 6) of sm_86, (9, 0) of sm_90a."""
    number = int(name.removeprefix("sm_").rstrip("abcdefghijklmnopqrstuvwxyz"))
    return divmod(number, 10)

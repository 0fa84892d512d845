"""CUDA source to machine code with nvcc, and what ptxas says that it needs."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import tvm
from tvm.ir import IRModule
from tvm.target import Target

from pruner.child import kill_family
from pruner.errors import CompileError, DeviceError
from pruner.measure.cause import is_error, root_cause
from pruner.measure.cuda import Generated, Launch, generate

# Where nvcc is when it is not on the path.
_HOMES = ("CUDA_HOME", "CUDA_PATH")
_DEFAULT_HOME = "/usr/local/cuda"

# As TVM compiles by default, so that the figures are those of the program that would run.
_FLAGS = ("-cubin", "-O3", "--use_fast_math", "-Xptxas=-v,--register-usage-level=10")

_COMPILER_HOOK = "tvm_callback_cuda_compile"

# What an nvcc that works can compile for every architecture that it knows, and the seconds that it may take
# to do so, or to say what it is. (Who has a program compiled says when it takes too long.)
_NOTHING = 'extern "C" __global__ void nothing() {}'
_ANSWER_S = 60.0
_ANOTHER = "put an nvcc that works first on the PATH"

_ENTRY = re.compile(r"ptxas info\s*: Compiling entry function '(?P<name>\S+)' for '\S+'")
_PROPERTIES = re.compile(r"ptxas info\s*: Function properties for (?P<name>\S+)")
_STACK = re.compile(
    r"\s*(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads"
)
_USED = re.compile(r"ptxas info\s*: Used (?P<registers>\d+) registers")
_SHARED = re.compile(r", (?P<bytes>\d+) bytes smem")
_LISTED = re.compile(r"compute_\d+")


@dataclass(frozen=True)
class Resources:
    """What a kernel needs, as ptxas says: registers of a thread; spill_bytes: stored and loaded by a thread
    for want of registers; shared_bytes: static, of a block; stack_bytes: of a thread; cubin_bytes: size of
    the machine code it is in."""

    registers: int
    spill_bytes: int
    shared_bytes: int
    stack_bytes: int
    cubin_bytes: int


@dataclass(frozen=True)
class Kernel:
    """A kernel: how it is launched and what it needs."""

    launch: Launch
    resources: Resources


@dataclass(frozen=True)
class Compiled:
    """A compiled program. kernels: one per launch, in order."""

    generated: Generated
    cubin: bytes
    kernels: tuple[Kernel, ...]

    @property
    def resources(self) -> Resources:
        """Of the whole program: the most that one of its kernels needs, and all that they spill."""
        needs = [kernel.resources for kernel in self.kernels]
        return Resources(
            max(need.registers for need in needs),
            sum(need.spill_bytes for need in needs),
            max(need.shared_bytes for need in needs),
            max(need.stack_bytes for need in needs),
            len(self.cubin),
        )


def compile_cuda(mod: IRModule, target: Target) -> Compiled:
    """Compiles a scheduled module for a cuda target; no GPU is needed and nothing is loaded.

    Raises CompileError where TVM or nvcc cannot compile it, DeviceError without nvcc.
    """
    return compile_generated(generate(mod, target), str(target.attrs["arch"]))


def compile_generated(generated: Generated, arch: str) -> Compiled:
    """The second half of `compile_cuda`, which may run in several threads at once. Raises as it does."""
    cubin, needs = compile_source(generated.source, arch)
    missing = [launch.name for launch in generated.launches if launch.name not in needs]
    if missing or not generated.launches:
        raise CompileError(f"ptxas says nothing of {', '.join(missing) or 'any kernel'}.")
    kernels = tuple(Kernel(launch, needs[launch.name]) for launch in generated.launches)
    return Compiled(generated, cubin, kernels)


def compile_source(
    source: str, arch: str, timeout_s: float | None = None
) -> tuple[bytes, dict[str, Resources]]:
    """Machine code of CUDA C++ source, and the needs of its kernels by name. arch: such as sm_80.
    timeout_s: after these seconds nvcc is killed, which is a DeviceError.

    Raises CompileError where nvcc cannot compile it, DeviceError without nvcc.
    """
    nvcc = find_nvcc()
    with tempfile.TemporaryDirectory() as folder:
        code, cubin = Path(folder, "kernels.cu"), Path(folder, "kernels.cubin")
        code.write_text(source)
        done = _call([nvcc, *_FLAGS, f"-arch={arch}", str(code), "-o", str(cubin)], folder, timeout_s)
        if done.returncode != 0 or not cubin.is_file():
            first = next(filter(is_error, done.stderr.splitlines()), done.stderr)
            raise CompileError(f"nvcc cannot compile it: {root_cause(first) or _end(done.returncode)}")
        machine_code = cubin.read_bytes()
    return machine_code, read_resources(done.stderr, len(machine_code))


def read_resources(text: str, cubin_bytes: int) -> dict[str, Resources]:
    """The needs of each kernel by name, from what `ptxas -v` writes.

    Raises CompileError for text that does not name all of a kernel's needs.
    """
    frames: dict[str, tuple[int, int]] = {}
    used: dict[str, tuple[int, int]] = {}
    entry = function = ""
    for line in text.splitlines():
        if found := _ENTRY.match(line):
            entry = found["name"]
        elif found := _PROPERTIES.match(line):
            function = found["name"]
        elif found := _STACK.match(line):
            frames[function] = int(found["stack"]), int(found["stores"]) + int(found["loads"])
        elif (found := _USED.match(line)) and function == entry:
            shared = _SHARED.search(line)
            used[entry] = int(found["registers"]), int(shared["bytes"]) if shared else 0
    if not used or not used.keys() <= frames.keys():
        raise CompileError(f"ptxas does not say what its kernels need: {root_cause(text)}")
    return {
        name: Resources(registers, frames[name][1], shared, frames[name][0], cubin_bytes)
        for name, (registers, shared) in used.items()
    }


def find_nvcc() -> str:
    """The path of nvcc. Raises DeviceError when there is none."""
    homes = [os.environ[name] for name in _HOMES if os.environ.get(name)]
    for place in (None, *(f"{home}/bin" for home in (*homes, _DEFAULT_HOME))):
        if found := shutil.which("nvcc", path=place):
            return found
    raise DeviceError(
        "CUDA programs are compiled with nvcc, which is neither on the PATH nor in CUDA_HOME/bin: install "
        "the CUDA toolkit (its nvcc and ptxas are all that is needed, no GPU), and a C++ compiler."
    )


def check_arch(arch: str) -> None:
    """Raises DeviceError for an architecture that nvcc does not compile for, and for an nvcc that compiles
    nothing."""
    nvcc = find_nvcc()
    problem = _problem(nvcc, arch)
    if problem is None:
        return
    listed = _call([nvcc, "--list-gpu-arch"], timeout_s=_ANSWER_S).stdout.split()
    names = [name.replace("compute_", "sm_") for name in listed if _LISTED.fullmatch(name)]
    if not names or arch in names:
        raise DeviceError(
            f"{nvcc} does not even compile an empty kernel for {arch}: {problem}. Install the CUDA toolkit "
            f"(nvcc and ptxas) anew, and a C++ compiler that it takes, or {_ANOTHER}."
        )
    raise DeviceError(
        f"{nvcc} does not compile for {arch}; it compiles for {', '.join(names)}. Choose a device of one of "
        f"these, or install a CUDA toolkit that has {arch}."
    )


def version() -> str:
    """nvcc's release, such as 13.0.88. Raises DeviceError without nvcc."""
    said = _call([find_nvcc(), "--version"], timeout_s=_ANSWER_S).stdout
    found = re.search(r"\bV([\d.]+)", said)
    return found[1] if found else "unknown"


@contextmanager
def as_tvm_compiler(target: Target) -> Iterator[None]:
    """While open, TVM compiles CUDA code by `compile_source` for this target, whatever its default is."""
    before = tvm.get_global_func(_COMPILER_HOOK)

    def hook(source: str) -> bytes:
        return compile_source(source, str(target.attrs["arch"]))[0]

    tvm.register_global_func(_COMPILER_HOOK, hook, override=True)
    try:
        yield
    finally:
        tvm.register_global_func(_COMPILER_HOOK, before, override=True)


def _end(code: int) -> str:
    """How an nvcc ended that says nothing."""
    how = f"it was killed by {signal.Signals(-code).name}" if code < 0 else f"it ended with exit code {code}"
    return f"{how} and wrote no machine code"


@lru_cache
def _problem(nvcc: str, arch: str) -> str | None:
    """Why the nvcc that is found compiles nothing for the architecture; None if it does."""
    try:
        compile_source(_NOTHING, arch, _ANSWER_S)
    except CompileError as error:
        return str(error).rstrip(".")
    return None


def _call(
    command: list[str], folder: str | None = None, timeout_s: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs nvcc, whose temporary files go into `folder`: nothing of them is left when it is killed. Raises
    DeviceError where it does not start, or is not done within `timeout_s` seconds."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**os.environ, **({"TMPDIR": folder} if folder else {})},
        )
    except OSError as error:
        raise DeviceError(
            f"{command[0]} cannot be started ({error.strerror}): install the CUDA toolkit anew, or "
            f"{_ANOTHER}."
        ) from error
    with process:
        try:
            said, complained = process.communicate(timeout=timeout_s)
        except BaseException as error:
            kill_family(process.pid)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            raise DeviceError(
                f"{command[0]} does not answer: killed after {timeout_s:g} s. Find out why with "
                f"`{command[0]} --version`, or {_ANOTHER}."
            ) from error
    return subprocess.CompletedProcess(command, process.returncode, said, complained)

"""What nvcc and ptxas say, against the machine code itself."""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import tvm
from tvm.target import Target

from pruner.errors import CompileError, DeviceError
from pruner.measure import nvcc as compiler
from pruner.measure.nvcc import (
    Resources,
    as_tvm_compiler,
    check_arch,
    compile_cuda,
    compile_source,
    find_nvcc,
    read_resources,
)

A100 = Target("nvidia/nvidia-a100")

# 4 * 100 and 8 * 33 bytes of shared memory; an array of 256 bytes that is indexed at run time: on the stack.
HAND_WRITTEN = """
extern "C" __global__ void shared_only(float* a) {
  __shared__ float s[100];
  s[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  a[0] = s[a[1] > 0 ? 5 : 6];
}
extern "C" __global__ void with_stack(double* a, int n) {
  __shared__ double s[33];
  float b[64];
  for (int i = 0; i < n; i++) b[i & 63] = a[i] * b[(i + 7) & 63];
  s[threadIdx.x] = b[n];
  __syncthreads();
  a[0] = s[a[1] > 0 ? 5 : 6];
}
"""


def sections(cubin: bytes) -> dict[str, tuple[int, int]]:
    """Size and information word of the sections of an ELF file of 64 bits, by name."""
    start = struct.unpack_from("<Q", cubin, 0x28)[0]
    size, count, names_at = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, start + i * size) for i in range(count)]
    names = headers[names_at][4]
    return {cubin[names + h[0] : cubin.index(b"\0", names + h[0])].decode(): (h[5], h[7]) for h in headers}


def test_a_kernel_of_known_needs(nvcc):
    cubin, needs = compile_source(HAND_WRITTEN, "sm_80")
    assert cubin[:4] == b"\x7fELF"
    assert needs["shared_only"].shared_bytes == 400
    assert (needs["with_stack"].shared_bytes, needs["with_stack"].stack_bytes) == (264, 256)
    assert needs["shared_only"].stack_bytes == needs["shared_only"].spill_bytes == 0
    assert {need.cubin_bytes for need in needs.values()} == {len(cubin)}


def test_generated_kernels_need_what_their_machine_code_says(nvcc, cuda_programs):
    """A cubin's text section has the registers in its upper byte, a section of its own the shared memory."""
    for mod in (cuda_programs.shared(), cuda_programs.two_kernels()):
        compiled = compile_cuda(mod, A100)
        found = sections(compiled.cubin)
        assert len(compiled.kernels) == sum(name.startswith(".text.") for name in found)
        for kernel in compiled.kernels:
            name, needs = kernel.launch.name, kernel.resources
            assert needs.registers == found[f".text.{name}"][1] >> 24 > 0
            assert needs.shared_bytes == found.get(f".nv.shared.{name}", (0, 0))[0]
    assert compile_cuda(cuda_programs.shared(), A100).resources.shared_bytes == 32 * 4


def test_few_registers_are_spilled(nvcc):
    """64 live sums do not fit 32 registers, which is what 1024 threads a block, two of them, leave."""
    sums = "\n".join(f"  float s{i} = a[{i} * n + threadIdx.x];" for i in range(64))
    uses = "\n".join(f"    s{i} = s{i} * s{(i + 1) % 64} + a[j + {i}];" for i in range(64))
    ends = "\n".join(f"  a[{i} * n + threadIdx.x] = s{i};" for i in range(64))
    body = f"{sums}\n  for (int j = 0; j < n; j++) {{\n{uses}\n  }}\n{ends}\n"
    source = f'extern "C" __global__ void __launch_bounds__(1024, 2) k(float* a, int n) {{\n{body}}}'
    (few,) = compile_source(source, "sm_80")[1].values()
    (many,) = compile_source(source.replace(" __launch_bounds__(1024, 2)", ""), "sm_80")[1].values()
    assert few.registers <= 32
    assert few.spill_bytes >= 2 * 4 * (64 - 32)
    assert many.registers > 64
    assert many.spill_bytes < few.spill_bytes / 4


def test_what_ptxas_does_not_say_is_an_error():
    said = (
        "ptxas info    : 0 bytes gmem\n"
        "ptxas info    : Compiling entry function 'k' for 'sm_80'\n"
        "ptxas info    : Function properties for k\n"
        "    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
        "ptxas info    : Used 40 registers, used 1 barriers, 2048 bytes smem, 376 bytes cmem[0]\n"
    )
    assert read_resources(said, 7) == {"k": Resources(40, 20, 2048, 16, 7)}
    lines = said.splitlines()
    for missing in range(1, 5):
        with pytest.raises(CompileError, match="ptxas"):
            read_resources("\n".join(lines[:missing] + lines[missing + 1 :]), 7)


def test_code_that_does_not_compile(nvcc):
    with pytest.raises(CompileError, match="undefined"):
        compile_source('extern "C" __global__ void k(float* a) { a[0] = nowhere; }', "sm_80")
    assert find_nvcc() == nvcc


def test_architectures_are_those_of_nvcc(nvcc, monkeypatch, tmp_path):
    check_arch("sm_80")
    check_arch("sm_90a")
    with pytest.raises(DeviceError, match=r"for sm_10; .*sm_80"):
        check_arch("sm_10")


def test_without_nvcc(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(compiler, "_DEFAULT_HOME", str(tmp_path))
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(DeviceError, match="CUDA toolkit"):
        compile_source(HAND_WRITTEN, "sm_80")
    there = tmp_path / "cuda" / "bin"
    there.mkdir(parents=True)
    (there / "nvcc").write_text("#!/bin/sh\nexit 1\n")
    (there / "nvcc").chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(there.parent))
    assert find_nvcc() == str(there / "nvcc")


def fake_nvcc(monkeypatch, folder, body):
    """A script that is found as nvcc before all others."""
    (folder / "nvcc").write_text(f"#!/bin/sh\n{body}\n")
    (folder / "nvcc").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("echo 'nvcc fatal : no licence' >&2; exit 1", "no licence"),
        ("echo 'no licence' >&2", "no licence"),
        ("exit 3", "exit code 3"),
        ("kill -9 $$", "SIGKILL"),
    ],
)
def test_an_nvcc_that_compiles_nothing_is_not_taken_for_an_old_one(monkeypatch, tmp_path, body, why):
    fake_nvcc(monkeypatch, tmp_path, body)
    with pytest.raises(DeviceError, match=rf"even compile an empty kernel for sm_80: .*{why}.*PATH"):
        check_arch("sm_80")


def test_an_nvcc_that_hangs_is_killed_with_all_it_started(monkeypatch, tmp_path):
    fake_nvcc(monkeypatch, tmp_path, f"sleep 1000 & echo $! > {tmp_path}/pid; wait")
    monkeypatch.setattr(compiler, "_ANSWER_S", 2.0)
    with pytest.raises(DeviceError, match=r"killed after 2 s"):
        check_arch("sm_80")
    with suppress(psutil.NoSuchProcess):
        started = psutil.Process(int((tmp_path / "pid").read_text()))
        with suppress(psutil.TimeoutExpired):
            started.wait(10)
        assert started.status() == psutil.STATUS_ZOMBIE


def test_nothing_temporary_is_left(nvcc, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    compile_source(HAND_WRITTEN, "sm_80")
    assert list(tmp_path.iterdir()) == []


def test_tvm_compiles_with_the_same_compiler_and_gets_its_own_back(nvcc):
    hook = "tvm_callback_cuda_compile"
    before = tvm.get_global_func(hook)
    with as_tvm_compiler(A100):
        cubin = tvm.get_global_func(hook)(HAND_WRITTEN)
    assert sections(bytes(cubin)).keys() == sections(compile_source(HAND_WRITTEN, "sm_80")[0]).keys()
    assert tvm.get_global_func(hook) == before
    assert "TVM_COMPILE_FORCE_FALLBACK" not in os.environ
    assert Path(nvcc).is_file()

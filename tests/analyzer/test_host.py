from pathlib import Path

import pytest
from tvm.target import Target, codegen

from pruner.analyzer.calibrate import Rates, assumed
from pruner.analyzer.host import assemble, fuses, read_host, vector_registers

X86 = """processor	: 0
model name	: Imaginary 9000
cpu MHz		: 2500.000
flags		: fpu sse4_2 avx avx2 fma avx512f

processor	: 1
model name	: Imaginary 9000
"""
ARM = """processor	: 0
Features	: fp asimd crc32
CPU implementer	: 0x41
CPU part	: 0xd0c
"""
RATES = Rates(peak=1.28e11, pipes=2, l1=1e12, l2=5e11, l3=2e11, memory=3e10, launch=3e-6)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


def machine(
    root: Path, cpuinfo: str, siblings: dict[int, str], caches: dict[int, tuple[int, str, str, str]]
) -> None:
    """caches: by index, (level, type, size, shared_cpu_list) of every CPU."""
    write(root / "proc/cpuinfo", cpuinfo)
    for cpu, group in siblings.items():
        folder = root / f"sys/devices/system/cpu/cpu{cpu}"
        write(folder / "topology/thread_siblings_list", group)
        for index, (level, kind, size, shared) in caches.items():
            for name, text in {
                "level": str(level),
                "type": kind,
                "size": size,
                "shared_cpu_list": shared,
            }.items():
                write(folder / f"cache/index{index}/{name}", text)


def test_hyper_threads_are_one_core_and_instruction_caches_are_no_data_cache(tmp_path: Path) -> None:
    machine(
        tmp_path,
        X86,
        {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"},
        {
            0: (1, "Data", "48K", "0,2"),
            1: (1, "Instruction", "32K", "0,2"),
            2: (2, "Unified", "2048K", "0,2"),
            3: (3, "Unified", "36M", "0-3"),
        },
    )
    host = read_host(tmp_path, cpus={0, 1, 2, 3})
    assert host.cores == 2
    assert host.model == "Imaginary 9000"
    assert host.flags == ("avx", "avx2", "avx512f", "fma", "sse4_2")
    assert [(c.level, c.size, c.cores) for c in host.caches] == [
        (1, 48 << 10, 1),
        (2, 2 << 20, 1),
        (3, 36 << 20, 2),
    ]
    assert host.frequency == 2.5e9
    assert host.notes == ()


def test_affinity_and_control_group_limit_the_cores(tmp_path: Path) -> None:
    machine(tmp_path, X86, {cpu: str(cpu) for cpu in range(8)}, {0: (1, "Data", "32K", "0")})
    assert read_host(tmp_path, cpus={2, 5, 6}).cores == 3
    write(tmp_path / "proc/self/cgroup", "0::/job")
    write(tmp_path / "sys/fs/cgroup/job/cpu.max", "250000 100000")
    host = read_host(tmp_path, cpus=set(range(8)))
    assert host.cores == 3
    assert "2.5" in host.notes[0]
    write(tmp_path / "sys/fs/cgroup/job/cpu.max", "max 100000")
    assert read_host(tmp_path, cpus=set(range(8))).cores == 8


def test_an_arm_machine_without_sysfs_is_described_with_notes(tmp_path: Path) -> None:
    write(tmp_path / "proc/cpuinfo", ARM)
    host = read_host(tmp_path, cpus={0, 1, 2, 3})
    assert host.cores == 4
    assert "0xd0c" in host.model
    assert host.flags == ("asimd",)
    assert len(host.caches) == 3
    assert any("cache" in note for note in host.notes)


def test_an_empty_tree_still_gives_a_host(tmp_path: Path) -> None:
    host = read_host(tmp_path, cpus={0})
    assert host.cores == 1
    assert host.frequency > 0


def test_levels_follow_the_caches(tmp_path: Path) -> None:
    machine(
        tmp_path,
        X86,
        {0: "0", 1: "1"},
        {0: (1, "Data", "32K", "0"), 1: (2, "Unified", "1M", "0"), 2: (3, "Unified", "16M", "0-1")},
    )
    host = read_host(tmp_path, cpus={0, 1})
    device = assemble(host, RATES, {"kind": "llvm"}, 32, 16, True, "print", [])
    assert [(level.name, level.unit, level.units, level.shared) for level in device.levels] == [
        ("registers", "lane", 8, False),
        ("l1", "pipe", 2, False),
        ("l2", "core", 2, False),
        ("l3", "machine", 1, True),
        ("memory", "machine", 1, True),
    ]
    assert device.registers == 16
    # 1.28e11 = 2 cores * 8 lanes * 2 pipes * 2 operations * 2 GHz
    assert device.frequency == pytest.approx(2e9)


def test_a_shared_second_cache_leaves_the_core_its_first(tmp_path: Path) -> None:
    machine(tmp_path, ARM, {0: "0", 1: "1"}, {0: (1, "Data", "64K", "0"), 1: (2, "Unified", "4M", "0-1")})
    host = read_host(tmp_path, cpus={0, 1})
    device = assemble(host, RATES, {"kind": "llvm"}, 16, 32, True, "print", [])
    assert device.private.name == "l1"
    assert [level.name for level in device.levels] == ["registers", "l1", "l2", "memory"]


def test_vector_registers_follow_llvm() -> None:
    assert vector_registers({"avx", "avx2", "avx512f"}) == (64, 32)
    assert vector_registers({"avx", "avx512f", "prefer-256-bit"}) == (32, 32)
    assert vector_registers({"avx", "avx2"}) == (32, 16)
    assert vector_registers({"neon"}) == (16, 32)


def test_nominal_rates_are_those_of_two_pipes(tmp_path: Path) -> None:
    machine(tmp_path, X86, {0: "0", 1: "1"}, {0: (1, "Data", "32K", "0")})
    host = read_host(tmp_path, cpus={0, 1})
    assert assumed(host, 32).peak == 2 * 2.5e9 * 8 * 2 * 2


@pytest.mark.parametrize(("mcpu", "fused"), [("x86-64", False), ("x86-64-v2", False), ("x86-64-v3", True)])
def test_fused_multiply_adds_follow_llvm(mcpu: str, fused: bool) -> None:
    features = codegen.llvm_get_cpu_features(Target({"kind": "llvm", "mcpu": mcpu}))
    assert fuses({str(feature) for feature in features}) == fused

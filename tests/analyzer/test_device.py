import dataclasses
from importlib import resources
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from pruner.analyzer.device import Device, declared
from pruner.config import compose
from pruner.errors import DeviceError

CPUS = [name for name in declared() if Device.load(name).kind == "cpu"]
GPUS = [name for name in declared() if Device.load(name).kind == "gpu"]

# Peak of float32 without tensor cores in TFLOP/s, bandwidth in GB/s, lanes of all multiprocessors.
PUBLISHED = {
    # Tesla K80 board specification, 2015: 8.74 and 480 with boost, of two GPUs
    "k80": (8.74 / 2, 480 / 2, 4992 // 2),
    # T4 datasheet, 2019
    "t4": (8.1, 320, 2560),
    # TITAN V product page, 2017: 14.9
    "titan-v": (14.9, 653, 5120),
    # Jetson AGX Orin technical brief, 2022
    "orin-agx": (5.3, 204.8, 2048),
    # A100 datasheet, 2021
    "a100-40g": (19.5, 1555, 6912),
    "a100-80g": (19.5, 1935, 6912),
    # GA102 whitepaper, 2020
    "rtx3080": (29.8, 760, 8704),
    # Ada whitepaper, 2022
    "rtx4090": (82.6, 1008, 16384),
    # H100 and H200 datasheets, 2023 and 2024
    "h100": (67, 3350, 16896),
    "h200": (67, 4800, 16896),
}


@pytest.mark.parametrize("name", declared())
def test_declared_devices_agree_with_themselves(name: str) -> None:
    device = Device.load(name)
    lanes, pipes = device.levels[0].units, device.levels[1].units
    derived = device.cores * device.frequency * lanes * pipes * 2
    assert device.peak["float32"] == pytest.approx(derived, rel=5e-4)
    capacities = [level.capacity for level in device.levels[:-1]]
    bandwidths = [level.bandwidth for level in device.levels]
    assert capacities == sorted(capacities)
    assert bandwidths == sorted(bandwidths, reverse=True)
    assert (device.multiprocessor is not None) == (device.kind == "gpu")


@pytest.mark.parametrize("name", CPUS)
def test_cpus_have_registers_and_private_caches(name: str) -> None:
    device = Device.load(name)
    assert device.target["num-cores"] == device.cores
    assert device.registers in (16, 32)
    assert device.private.name == "l2"


@pytest.mark.parametrize("name", GPUS)
def test_derived_peaks_are_the_published_ones(name: str) -> None:
    device = Device.load(name)
    peak, bandwidth, lanes = PUBLISHED[name]
    assert device.cores * device.levels[0].units * device.levels[1].units == lanes
    assert device.peak["float32"] / 1e12 == pytest.approx(peak, rel=1e-2)
    assert device.levels[-1].bandwidth / 1e9 == pytest.approx(bandwidth, rel=2e-3)


@pytest.mark.parametrize("name", GPUS)
def test_a_gpus_limits_are_those_of_its_compute_capability(name: str) -> None:
    device = Device.load(name)
    sm, arch = device.sm, int(str(device.target["arch"]).removeprefix("sm_"))
    # CUDA C++ Programming Guide: threads, blocks, and kilobytes of shared memory of a multiprocessor.
    threads, blocks, shared = {
        37: (2048, 16, 112),
        70: (2048, 32, 96),
        75: (1024, 16, 64),
        80: (2048, 32, 164),
        86: (1536, 16, 100),
        87: (1536, 16, 164),
        89: (1536, 24, 100),
        90: (2048, 32, 228),
    }[arch]
    assert (sm.threads, sm.blocks, device.levels[1].capacity) == (threads, blocks, shared << 10)
    assert (sm.warp, sm.registers_per_thread) == (32, 255)
    assert sm.shared_per_block <= device.levels[1].capacity
    assert device.levels[0].capacity == 4 * sm.registers_per_thread


def test_a_cpu_has_no_multiprocessors() -> None:
    with pytest.raises(DeviceError, match=r"x86-64.*cpu"):
        _ = Device.load("x86-64").sm


def test_declared_targets_compile() -> None:
    from tvm.target import Target

    for name in declared():
        device = Device.load(name)
        target = Target(dict(device.target))
        assert target.kind.name == ("cuda" if device.kind == "gpu" else "llvm")
        if device.kind == "gpu":
            # What TVM's own description of the same chip says, where it has one.
            assert int(target.attrs["max_shared_memory_per_block"]) == 49152
            assert int(target.attrs["l2_cache_size_bytes"]) == device.levels[-2].capacity
    a100 = Target("nvidia/nvidia-a100").attrs
    ours = Target(dict(Device.load("a100-40g").target)).attrs
    assert {key: str(ours[key]) for key in ours if key in a100} == {key: str(a100[key]) for key in ours}


def test_an_unknown_device_lists_the_known_ones() -> None:
    with pytest.raises(DeviceError, match=r"abacus.*auto.*arm64.*x86-64"):
        Device.load("abacus")


def test_an_incomplete_description_says_what_is_missing() -> None:
    whole = dataclasses.asdict(Device.load("x86-64"))
    del whole["name"]
    assert Device.parse("copy", whole).cores == Device.load("x86-64").cores
    with pytest.raises(DeviceError, match="frequency"):
        Device.parse("partial", {key: value for key, value in whole.items() if key != "frequency"})
    with pytest.raises(DeviceError, match="warp"):
        Device.parse("odd", whole | {"levels": [level | {"warp": 32} for level in whole["levels"]]})
    with pytest.raises(DeviceError, match=r"tpu.*cpu, gpu"):
        Device.parse("other", whole | {"kind": "tpu"})
    with pytest.raises(DeviceError, match="multiprocessor"):
        Device.parse("bare", whole | {"kind": "gpu"})
    gpu = dataclasses.asdict(Device.load("t4"))
    del gpu["name"]
    assert Device.parse("t4", gpu) == Device.load("t4")
    with pytest.raises(DeviceError, match="threads"):
        Device.parse("few", gpu | {"multiprocessor": {"warp": 32}})
    with pytest.raises(DeviceError, match="three levels"):
        Device.parse("flat", whole | {"levels": whole["levels"][:2]})


def test_a_device_of_ones_own_is_a_file_in_the_config_folder(tmp_path: Path) -> None:
    text = resources.files("pruner.analyzer").joinpath("devices", "x86-64.yaml").read_text("utf-8")
    (tmp_path / "device").mkdir()
    (tmp_path / "device" / "mine.yaml").write_text(f"name: mine\n{text}", "utf-8")
    cfg = compose(["workload=GMM/0", "device=mine", "device.cores=3"], str(tmp_path))
    mine = Device.of(OmegaConf.to_container(cfg.device))
    assert (mine.name, mine.cores) == ("mine", 3)
    assert mine.levels == Device.load("x86-64").levels
    assert Device.of({"name": "x86-64"}) == Device.load("x86-64")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kind": "gpu", "levels": []}, "needs its name"),
        ({"name": "mine", "kind": "gpu"}, "no levels"),
        (
            {"name": "mine", "kind": "gpu", "levels": [], "colour": "red"},
            "unexpected keyword argument 'colour'",
        ),
    ],
)
def test_a_device_file_that_lacks_something_is_refused_in_words(settings, said):
    with pytest.raises(DeviceError, match=said):
        Device.of(settings)

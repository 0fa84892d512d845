import dataclasses
from importlib import resources
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from pruner.analyzer.device import Device, declared
from pruner.config import compose
from pruner.errors import DeviceError


@pytest.mark.parametrize("name", declared())
def test_declared_devices_agree_with_themselves(name: str) -> None:
    device = Device.load(name)
    lanes, pipes = device.levels[0].units, device.levels[1].units
    assert device.peak["float32"] == pytest.approx(device.cores * device.frequency * lanes * pipes * 2)
    assert device.target["num-cores"] == device.cores
    capacities = [level.capacity for level in device.levels[:-1]]
    bandwidths = [level.bandwidth for level in device.levels]
    assert capacities == sorted(capacities)
    assert bandwidths == sorted(bandwidths, reverse=True)
    assert device.registers in (16, 32)
    assert device.private.name == "l2"


def test_declared_targets_compile() -> None:
    from tvm.target import Target

    for name in declared():
        assert Target(dict(Device.load(name).target)).kind.name == "llvm"


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

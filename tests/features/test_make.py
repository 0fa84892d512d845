"""Extractors by name."""

from __future__ import annotations

import pytest

from pruner.analyzer.device import Device
from pruner.errors import ConfigError
from pruner.features.make import make_extractor


def test_the_extractor_carries_the_name_asked_for() -> None:
    device = Device.load("x86-64")
    for name in ("symbols", "statement"):
        assert make_extractor(name, device).name == name


def test_an_unknown_name_is_answered_with_the_list() -> None:
    with pytest.raises(ConfigError, match=r"dataflow.*statement, symbols"):
        make_extractor("dataflow", Device.load("x86-64"))

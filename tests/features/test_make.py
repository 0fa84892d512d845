"""Extractors by name."""

from __future__ import annotations

import pytest

from pruner.analyzer.device import Device
from pruner.errors import ConfigError
from pruner.features.make import make_extractors


def test_the_extractor_carries_the_name_asked_for() -> None:
    device = Device.load("x86-64")
    for name in ("symbols", "statement", "statement_fast", "dataflow", "dataflow_code", "primitives"):
        assert make_extractors([name], device)[name].name == name


def test_an_unknown_name_is_answered_with_the_list() -> None:
    with pytest.raises(ConfigError, match=r"unknown.*statement.*symbols"):
        make_extractors(["unknown"], Device.load("x86-64"))


def test_a_feature_of_ones_own_is_named_by_its_class() -> None:
    device = Device.load("x86-64")
    path = "pruner.features.symbols.SymbolFeatures"
    assert list(make_extractors([path], device)) == [path]
    for wrong in ("nowhere.Features", "pruner.features.symbols.Missing", "pruner.analyzer.draft.NoDraft"):
        with pytest.raises(ConfigError, match=r"package\.module\.Class"):
            make_extractors([wrong], device)


@pytest.mark.parametrize("names", ["symbols", ()])
def test_names_are_a_tuple_of_at_least_one(names):
    with pytest.raises(ConfigError, match=r"a tuple of names.*statement.*symbols"):
        make_extractors(names, Device.load("x86-64"))

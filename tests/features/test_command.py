"""`pruner features`: the list, a description, and what cannot be described."""

from __future__ import annotations

import json
import re

import pytest

from pruner import cli
from pruner.analyzer.device import Device
from pruner.features.make import EXTRACTORS, make_extractors


def test_the_list_has_a_line_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["features"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == sorted(EXTRACTORS)
    assert all(len(line.split()) > 5 for line in lines)


@pytest.mark.parametrize("name", sorted(EXTRACTORS))
def test_every_column_is_described(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    [extractor] = make_extractors([name], Device.load("a100-40g")).values()
    assert cli.main(["features", "describe", name, "--json", "--device", "a100-40g"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["name"], told["version"]) == (name, extractor.version)
    assert (told["rows"], told["width"]) == (extractor.rows, len(extractor.columns))
    assert told["materialised"] == (name in ("statement", "statement_tagged"))
    assert [column["name"] for column in told["columns"]] == list(extractor.columns)
    assert [column["index"] for column in told["columns"]] == list(range(len(extractor.columns)))
    assert cli.main(["features", "describe", name, "--device", "a100-40g"]) == 0
    head, table, *rest = capsys.readouterr().out.split("\n\n")
    assert bool(rest) == bool(told["left_out"])
    assert f"version {extractor.version}" in head
    for line, column in zip(table.splitlines(), told["columns"], strict=True):
        index, column_name, explanation = line.split(maxsplit=2)
        assert (int(index), column_name) == (column["index"], column["name"])
        assert explanation == column["explanation"]
        assert explanation != column_name.replace("_", " ")


def test_columns_that_are_left_out_are_told_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    described = {}
    for name in ("statement", "statement_fast"):
        assert cli.main(["features", "describe", name, "--json"]) == 0
        described[name] = json.loads(capsys.readouterr().out)
    left_out = described["statement_fast"]["left_out"]
    every, kept = ([column["name"] for column in told["columns"]] for told in described.values())
    assert [name for name in every if name not in left_out] == kept
    assert len(every) - len(kept) == len(left_out) == 5
    cli.main(["features", "describe", "statement_fast"])
    lines = capsys.readouterr().out.partition("\n\nleft out:\n")[2].splitlines()
    assert [tuple(line.split(maxsplit=1)) for line in lines] == [*left_out.items()]


def test_the_shape_is_that_of_the_device(capsys: pytest.CaptureFixture[str]) -> None:
    rows = []
    for device in ("x86-64", "a100-40g"):
        cli.main(["features", "describe", "primitives", "--json", "--device", device])
        rows.append(json.loads(capsys.readouterr().out)["rows"])
    assert rows == [25, 72]


def test_unknown_names_are_answered_with_those_that_are_accepted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words, accepted in (
        (["mine"], "Accepted: .*primitives, statement"),
        (["symbols", "--device", "mine"], "accepted are auto, a100-40g"),
    ):
        assert cli.main(["features", "describe", *words]) == cli.BAD_INPUT
        out, err = capsys.readouterr()
        assert out == ""
        assert re.search(accepted, err)

"""`pruner features`, and `pruner features describe NAME`."""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pruner.features.batch import FeatureExtractor

# What is described where no device is named: the numbers of a feature may depend on its kind.
_DEVICE = "x86-64"


def run(words: Sequence[str]) -> int:
    """Runs the sub-command, the list where there is none, and returns the exit code."""
    given = _parser().parse_args(words)
    if given.command == "describe":
        _describe(given)
    else:
        _list()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pruner features",
        description="Without a command, lists the features that a verifier can name.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", metavar="describe")
    describe = commands.add_parser(
        "describe", help="name, version, shape and what each column holds", allow_abbrev=False
    )
    describe.add_argument("name", metavar="NAME", help="a feature of the list, or package.module.Class")
    describe.add_argument("--json", action="store_true", help="print JSON")
    describe.add_argument(
        "--device", default=_DEVICE, metavar="NAME", help=f"the device it is made for, {_DEVICE} by default"
    )
    return parser


def _list() -> None:
    from pruner.analyzer.device import Device
    from pruner.features.make import EXTRACTORS, make_extractors

    made = make_extractors(sorted(EXTRACTORS), Device.load(_DEVICE))
    width = max(map(len, made))
    for name, extractor in made.items():
        sys.stdout.write(f"{name:{width}}  {_summary(extractor)}\n")


def _describe(given: argparse.Namespace) -> None:
    from pruner.analyzer.device import Device
    from pruner.features.make import make_extractors

    [extractor] = make_extractors([given.name], Device.load(given.device)).values()
    if given.json:
        sys.stdout.write(f"{json.dumps(document(extractor, given.device), indent=2)}\n")
        return
    rows = "as many as the program needs" if extractor.rows is None else f"{extractor.rows}"
    source = "the materialised program" if extractor.materialised else "the decisions"
    sys.stdout.write(
        f"{extractor.name}, version {extractor.version}: {_summary(extractor)}\n"
        f"rows per candidate: {rows}\n"
        f"columns: {len(extractor.columns)}\n"
        f"read from: {source}\n"
        f"device: {given.device}\n\n"
    )
    width = max((len(column) for column in extractor.columns), default=0)
    for index, column in enumerate(extractor.columns):
        sys.stdout.write(f"{index:4}  {column:{width}}  {extractor.explain(column)}\n")
    if extractor.left_out:
        sys.stdout.write("\nleft out:\n")
    for column, reason in extractor.left_out.items():
        sys.stdout.write(f"      {column:{width}}  {reason}\n")


def document(extractor: FeatureExtractor, device: str) -> dict[str, Any]:
    """What `describe` tells, as JSON values; `rows` is null where it depends on the program."""
    return {
        "name": extractor.name,
        "version": extractor.version,
        "rows": extractor.rows,
        "width": len(extractor.columns),
        "materialised": extractor.materialised,
        "device": device,
        "columns": [
            {"index": index, "name": column, "explanation": extractor.explain(column)}
            for index, column in enumerate(extractor.columns)
        ],
        "left_out": dict(extractor.left_out),
    }


def _summary(extractor: FeatureExtractor) -> str:
    """The first paragraph of the class's text, as one line."""
    text = inspect.getdoc(type(extractor)) or ""
    return " ".join(text.split("\n\n")[0].split())

"""The command `pruner`: a small dispatcher, and `pruner tune`; `pruner records` and `pruner features` are in
the `command.py` of their folders.

Bad input is one message on stderr and exit code 2, before TVM is imported wherever that is possible.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from pruner.errors import PrunerError
from pruner.interrupt import terminated_like_interrupted
from pruner.stream import LastingStream

if TYPE_CHECKING:
    from omegaconf import DictConfig

BAD_INPUT = 2
INTERRUPTED = 130

USAGE = """\
usage: pruner COMMAND ...

commands:
  tune        tune one operator: pruner tune workload=C2D/1 trials=60 work_dir=runs/c2d
  records     what recorded measurements say: pruner records inspect|validate|convert PATH...
  features    what a verifier can see: pruner features, pruner features describe NAME

options:
  --version   show the version
  --help      show this text; `pruner tune --help` lists the settings
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line (`sys.argv` by default) and returns the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        # Whoever reads the first lines only, as `head` does, is told no more.
        with terminated_like_interrupted(), redirect_stdout(LastingStream(sys.stdout)):
            return _dispatch(words)
    except PrunerError as error:
        sys.stderr.write(f"pruner: {error}\n")
        return BAD_INPUT
    except KeyboardInterrupt:
        sys.stderr.write("pruner: interrupted\n")
        return INTERRUPTED


def _dispatch(words: list[str]) -> int:
    # A component of the user's own is imported from where the command is given, as `python -m` would.
    if "" not in sys.path:
        sys.path.append("")
    command = words[0] if words else ""
    if command == "tune":
        return _tune(words[1:])
    if command == "records":
        from pruner.records.command import run

        return run(words[1:])
    if command == "features":
        from pruner.features.command import run as features

        return features(words[1:])
    if command == "--version":
        from pruner import __version__

        sys.stdout.write(f"pruner {__version__}\n")
        return 0
    if command in ("--help", "-h"):
        sys.stdout.write(USAGE)
        return 0
    given = f"unknown command '{command}'" if command else "no command given"
    sys.stderr.write(f"pruner: {given}\n\n{USAGE}")
    return BAD_INPUT


def _tune(words: list[str]) -> int:
    from pruner import config

    parser = argparse.ArgumentParser(
        prog="pruner tune",
        usage="pruner tune workload=NAME [key=value | group=option | group.setting=value ...] [options]",
        description=_settings_help(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("overrides", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--config-dir", metavar="DIR", help="a folder with options: DIR/verifier/mine.yaml")
    parser.add_argument(
        "-m",
        "--multirun",
        action="store_true",
        help="one run per combination: seed=0,1,2 search=latent,random",
    )
    given = parser.parse_intermixed_args(words)
    if given.multirun:
        configs = config.compose_sweep(given.overrides, given.config_dir)
    else:
        configs = [config.compose(given.overrides, given.config_dir)]
    for cfg in configs:
        _check_work_dir(cfg)
    from pruner._tvm import import_tvm
    from pruner.measure.clock import Clock

    clock = Clock()  # importing TVM is time the user waits for
    import_tvm()
    from pruner.tune import run

    for number, cfg in enumerate(configs, 1):
        result = run(cfg, clock)
        clock = Clock()
        # Whoever stops a run does not want the next one of the sweep.
        if result.interrupted or (result.stopped and number < len(configs)):
            return INTERRUPTED
    return 0


def _check_work_dir(cfg: DictConfig) -> None:
    """Refuses an occupied folder early; the run itself compares task and machine."""
    from pruner.records.journal import check_free

    check_free(cfg.work_dir)


def _settings_help() -> str:
    """The plain settings with their defaults, then every group's options with their settings."""
    from pruner.config import CONF, groups

    text = (CONF / "config.yaml").read_text(encoding="utf-8")
    plain = [line for line in text.splitlines() if line and line[0].isalpha()]
    lines = ["settings (key=value), with their defaults:"]
    lines += [f"  {line}" for line in plain if not line.startswith(("defaults:", "hydra:"))]
    lines += ["", "groups (group=option; an option's settings are group.setting=value):"]
    for group, options in groups().items():
        lines.append(f"  {group}:")
        for option in options:
            lines.append(f"    {option}{_option_settings(CONF / group / f'{option}.yaml')}")
    return "\n".join(lines).replace("%", "%%")


def _option_settings(path: Path) -> str:
    lines = [line.split("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
    lines = [re.sub(r"^- override /(\w+): ", r"\1=", line) for line in lines]
    hidden = ("_target_: pruner", "name:", "defaults:", "- ")
    settings = [line for line in lines if line and not line.startswith(hidden)]
    return f"  ({', '.join(settings)})" if settings else ""

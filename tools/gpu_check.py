"""The command of tools/gpu_check.sh where the project is installed: `prepare` and `import`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pruner.errors import PrunerError
from pruner.interrupt import terminated_like_interrupted

FOLDER = Path(__file__).resolve().parents[1] / "gpu_check"


def main(words: Sequence[str] | None = None) -> int:
    """Returns 0, or 2 with a message for what cannot be used as given, or 130 when it was interrupted."""
    given = _parser().parse_args(words)
    try:
        with terminated_like_interrupted():
            _do(given)
    except PrunerError as error:
        sys.stderr.write(f"gpu_check: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("gpu_check: interrupted\n")
        return 130
    return 0


def _do(given: argparse.Namespace) -> None:
    if given.command == "prepare":
        # TVM takes seconds to import; a wrong word is refused at once.
        from tools.gpu_prepare import WORKLOADS, Settings, prepare

        settings = Settings(
            device=given.device,
            arch=given.arch,
            workloads=tuple(given.workloads or WORKLOADS),
            candidates=given.candidates,
            seed=given.seed,
        )
        prepare(given.folder, settings, _say)
    else:
        from tools.gpu_import import import_records

        import_records(given.folder, given.records, given.save, _say)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpu_check.sh")
    commands = parser.add_subparsers(dest="command", required=True)
    prepare = commands.add_parser("prepare", help="draft, compile and write the folder")
    prepare.add_argument("--device", default="h200", help="a declared GPU (h200)")
    prepare.add_argument("--arch", help="what to compile for, such as sm_90 (the device's)")
    prepare.add_argument("--workloads", nargs="+", metavar="NAME", help="such as GMM/2 SFM/2 (five of them)")
    prepare.add_argument("--candidates", type=int, default=32, help="of the draft and random ones, each (32)")
    prepare.add_argument("--seed", type=int, default=0, help="of the random choices (0)")
    read = commands.add_parser("import", help="read the records that the run wrote")
    read.add_argument("--records", type=Path, help="records.jsonl (the folder's)")
    read.add_argument("--save", type=Path, metavar="FILE", help="write the data set to an .npz file")
    for command in (prepare, read):
        command.add_argument("--folder", type=Path, default=FOLDER, help="(gpu_check beside tools)")
    return parser


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

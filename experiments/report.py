"""One table and one curve of a sweep that `pruner tune -m` or `experiments.cost_model -m` left; or finished
studies on one page.

    python -m experiments.report DIR...

A row a job: the settings in which the jobs differ, the best latency, seconds by stage. Where they differ in
one number besides the seed, the curve is the best latency against it; else it is the best latency against
trials and seconds. Of a folder that `python -m experiments.cost_model --multirun train_fraction=...` left,
the verifiers' learning curves. Writes report.json, .csv, .md and .png into the folder and prints the table.

Of folders of studies, their tables and pictures, with the paper's figures beside ours: report.md in the first
folder, or where --page says. An ablation whose jobs ran side by side becomes one table.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments import learning_curve, output
from experiments.draw import against, curves
from experiments.page import page, studies
from pruner.cli import BAD_INPUT
from pruner.errors import ConfigError, PrunerError
from pruner.measure.clock import STAGES
from pruner.records.journal import NAME, Contents, Journal
from pruner.report import curve, latency

STUDY = "report"
_SUMMARY = "summary.json"
_SEED = "seed"

Row = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit code. Bad input is one message on stderr and 2."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    about = " ".join((__doc__ or "").split("\n\n")[0].split())
    parser = argparse.ArgumentParser(prog="python -m experiments.report", description=about)
    parser.add_argument(
        "folders",
        metavar="DIR",
        type=Path,
        nargs="+",
        help="the folder of a sweep, with a folder a job, or of a study",
    )
    parser.add_argument(
        "--page",
        metavar="FILE",
        type=Path,
        help="where the page of studies goes; by default report.md in the first folder",
    )
    given = parser.parse_args(words)
    folder = given.folders[0]
    try:
        if len(given.folders) > 1 or given.page or _is_study(folder):
            made = given.page or folder / f"{STUDY}.md"
            print(page(given.folders, made), flush=True)
        else:
            made = folder
            print(report(folder, words), flush=True)
    except PrunerError as error:
        sys.stderr.write(f"{STUDY}: {error}\n")
        return BAD_INPUT
    print(made, flush=True)
    return 0


def _is_study(folder: Path) -> bool:
    """Whether it holds a study, and not a sweep from which a table is yet to be made."""
    return bool(studies(folder)) and not any(folder.glob(f"*/{learning_curve.FILE}"))


def report(folder: Path, words: Sequence[str]) -> str:
    """Writes the files of a sweep and returns its table. Raises ConfigError for a folder that is none."""
    origin = {
        "command": " ".join(["python", "-m", f"experiments.{STUDY}", *words]),
        "commit": output.commit(),
    }
    if any(folder.glob(f"*/{learning_curve.FILE}")):
        return learning_curve.learning_curve(folder, STUDY, origin)
    jobs, unfinished = _jobs(folder)
    settings = [_flat(contents.header.settings) for _, contents, _ in jobs]
    for one, (_, contents, _) in zip(settings, jobs, strict=True):
        one["workload"] = contents.header.workload
    differing = [
        key
        for key in dict.fromkeys(key for one in settings for key in one)
        if len({json.dumps(one.get(key)) for one in settings}) > 1
    ]
    rows = [
        _row(name, contents, summary, {key: one[key] for key in differing if key in one})
        for (name, contents, summary), one in zip(jobs, settings, strict=True)
    ]
    machines = sorted({f"{c.header.device}: {c.header.fingerprint}" for _, c, _ in jobs})
    made = {"machine": "; ".join(machines), **origin}
    numbers = [
        key
        for key in differing
        if key != _SEED and all(_is_number(row["overrides"].get(key)) for row in rows)
    ]
    others = set(differing) - {_SEED, "workload"}
    figure = against(rows, numbers[0]) if others == set(numbers[:1]) and numbers else curves(_arms(rows))
    text = _text(made, rows, differing, unfinished)
    output.write(
        folder,
        STUDY,
        document={**made, "differing": differing, "unfinished": unfinished, "results": rows},
        rows=[_plain(row) for row in rows],
        text=text,
        figure=figure,
    )
    return text


def _jobs(folder: Path) -> tuple[list[tuple[str, Contents, Mapping[str, Any]]], list[str]]:
    """Name, journal and summary of every finished job, in the order of the sweep; names of the others."""
    if not folder.is_dir():
        raise ConfigError(f"{folder} is no folder. Give the one that `pruner tune -m ...` left.")
    if (folder / NAME).exists():
        raise ConfigError(f"{folder} is the folder of one run. Give the folder of the sweep that it is in.")
    names = [path.name for path in folder.iterdir() if (path / NAME).is_file()]
    names.sort(key=lambda name: (not name.isdigit(), int(name) if name.isdigit() else 0, name))
    done = [name for name in names if (folder / name / _SUMMARY).is_file()]
    if not done:
        raise ConfigError(
            f"{folder} holds no finished job: none of its folders has a {NAME} and a {_SUMMARY}. Give the "
            "folder that `pruner tune -m ...` left."
        )
    jobs = []
    for name in done:
        path = folder / name / _SUMMARY
        try:
            summary = json.loads(path.read_text("utf-8"))
            summary["best_s"], summary["baseline_s"], summary["seconds"]["total"]
            numbers = [summary["trials"], summary["failed"], *summary["seconds"].values()]
            if not all(map(_is_number, numbers)):
                raise ValueError("no numbers of trials, failures and seconds")
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise ConfigError(f"{path} is no summary of a run ({error!r}).") from error
        jobs.append((name, Journal.read(folder / name / NAME), summary))
    return jobs, [name for name in names if name not in done]


def _flat(settings: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """`draft.size` and so on; a component's class under the group's name, without its module."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{before}{key}.")
        elif key == "_target_":
            found[before.rstrip(".")] = str(value).rpartition(".")[2]
        else:
            found[f"{before}{key}"] = value
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _row(name: str, contents: Contents, summary: Mapping[str, Any], overrides: Mapping[str, Any]) -> Row:
    """curve: [trial, seconds, latency_s] at every new best, and at the end what the run ended on."""
    total = summary["seconds"]["total"]
    return {
        "job": name,
        "workload": contents.header.workload,
        "seed": contents.header.seed,
        "overrides": dict(overrides),
        "best_s": summary["best_s"],
        "untuned_s": summary["baseline_s"],
        "trials": summary["trials"],
        "failed": summary["failed"],
        "seconds": summary["seconds"],
        "curve": [*_improvements(contents), *_end(summary, total)],
    }


def _improvements(contents: Contents) -> list[list[float]]:
    """As the run's own curve has them: by the latencies that it measured, wrong programs not counted."""
    frame = curve(contents)
    new = frame[frame["best_s"] < frame["best_s"].shift().fillna(float("inf"))]
    return [[int(r.trial), float(r.elapsed_s), float(r.best_s)] for r in new.itertuples()]


def _end(summary: Mapping[str, Any], total: float) -> Iterator[list[float]]:
    if summary["best_s"] is not None:
        yield [summary["trials"], total, summary["best_s"]]


def _arms(rows: Sequence[Row]) -> list[Row]:
    """The rows as `draw.curves` takes them: jobs that differ in the seed alone are one arm."""
    made = []
    for row in rows:
        words = [f"{k}={v}" for k, v in row["overrides"].items() if k not in (_SEED, "workload")]
        made.append({**row, "arm": " ".join(words) or "all jobs", "latency_s": row["best_s"]})
    return made


def _text(
    made: Mapping[str, Any], rows: Sequence[Row], differing: Sequence[str], unfinished: Sequence[str]
) -> str:
    stages = [stage for stage in STAGES if any(row["seconds"].get(stage, 0.0) >= 0.05 for row in rows)]
    lines = [
        [
            row["job"],
            *(row["overrides"].get(key) for key in differing),
            latency(row["best_s"]),
            latency(row["untuned_s"]),
            row["trials"],
            row["failed"] or None,
            *(f"{row['seconds'].get(stage, 0.0):.1f}" for stage in [*stages, "total"]),
        ]
        for row in rows
    ]
    columns = [
        "job",
        *differing,
        "best",
        "untuned",
        "trials",
        "failed",
        *(f"{s} s" for s in [*stages, "total"]),
    ]
    parts = [output.heading(STUDY, made), output.table(columns, lines)]
    if unfinished:
        parts.append(f"\nNot finished, left out: {', '.join(unfinished)}.")
    return "\n".join(parts)


def _plain(row: Row) -> Row:
    """A row with plain values alone."""
    kept = {key: row[key] for key in ("job", "workload", "seed", "best_s", "untuned_s", "trials", "failed")}
    return {**kept, **row["overrides"], **{f"{stage}_s": s for stage, s in row["seconds"].items()}}


if __name__ == "__main__":
    sys.exit(main())

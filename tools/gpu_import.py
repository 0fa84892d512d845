"""What ran on the GPU machine, as a data set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tvm.target import Target

from pruner.errors import ConfigError
from pruner.records.dataset import Dataset, RecordedTask, object_column
from pruner.search.population import UNUSED
from pruner.workload import load_task
from tools.gpu_run.errors import RunError
from tools.gpu_run.records import RECORDS, Records, read_manifest, read_records
from tools.gpu_run.summary import Outcome, table


def import_records(
    folder: Path, records: Path | None, save: Path | None, say: Callable[[str], None]
) -> Dataset:
    """Reads the manifest in the folder and the records, by default the folder's own; says what they hold, and
    writes the data set to `save`. Raises ConfigError where they cannot be read."""
    path = records or folder / RECORDS
    try:
        manifest = read_manifest(folder)
        if not path.is_file():
            raise ConfigError(f"{path} is no file: give the records.jsonl that the run wrote, as --records.")
        found = read_records(path, manifest)
    except RunError as error:
        raise ConfigError(str(error)) from error
    if not found.records:
        raise ConfigError(f"{path} holds no record: nothing ran.")
    dataset, programs = read(manifest, found)
    say(_summary(manifest, found, dataset, programs))
    if save is not None:
        dataset.save(save)
        say(f"saved to {save}")
    return dataset


def read(manifest: dict[str, Any], found: Records) -> tuple[Dataset, list[int]]:
    """The data set, and for each record the number of its program. Programs that did not compile come first:
    they were tried before all others."""
    programs = manifest["programs"]
    devices = [_name(device, manifest) for device in found.devices]
    lines = [
        (number, 0, {"failure": program["failure"], "run_s": 0.0})
        for number, program in enumerate(programs)
        if program["failure"] is not None
    ]
    lines += [(record["program"], device, record) for device, record in found.records]
    tasks = []
    for task in manifest["tasks"]:
        loaded = load_task(task["name"], Target(task["target"]))
        tasks.append(RecordedTask(loaded.name, loaded.mod, loaded.target, sketches=tuple(task["sketches"])))
    of = [programs[number] for number, _, _ in lines]
    samples = [record.get("samples_s", []) for _, _, record in lines]
    width = max(len(program["row"]) for program in programs)
    rows = np.full((len(lines), width), UNUSED, dtype=np.int64)
    for place, program in enumerate(of):
        rows[place, : len(program["row"])] = program["row"]
    dataset = Dataset(
        tuple(tasks),
        task=np.array([program["task"] for program in of], dtype=np.int64),
        sketch_ids=np.array([program["sketch"] for program in of], dtype=np.int64),
        decisions=rows,
        traces=object_column([None] * len(lines)),
        latency_s=np.array([np.mean(s) if s else np.nan for s in samples]),
        spread_s=np.array([np.std(s) if len(s) > 1 else np.nan for s in samples]),
        failure=np.array([record["failure"] or "" for _, _, record in lines], dtype=np.str_),
        cost_s=np.array([p["build_s"] + r["run_s"] for p, (_, _, r) in zip(of, lines, strict=True)]),
        order=np.arange(len(lines), dtype=np.int64),
        device=np.array([devices[device] for _, device, _ in lines], dtype=np.str_),
    )
    return dataset, [number for number, _, _ in lines]


def _name(device: dict[str, Any], manifest: dict[str, Any]) -> str:
    """The machine as the package names a GPU's (`measure.gpu.fingerprint`); the code is the TVM's that
    prepared it."""
    return f"{device['name']}, {device['arch']}, TVM {manifest['versions']['tvm']}"


def _summary(manifest: dict[str, Any], found: Records, dataset: Dataset, programs: list[int]) -> str:
    outcomes = []
    for place, number in enumerate(programs):
        program = manifest["programs"][number]
        name, failure = dataset.tasks[dataset.task[place]].id, str(dataset.failure[place]) or None
        latency = None if failure else float(dataset.latency_s[place])
        outcomes.append(Outcome(name, program["arm"], program["predicted_s"], latency, failure))
    loaded = [
        (
            record["registers"],
            [kernel["registers"] for kernel in manifest["programs"][record["program"]]["kernels"]],
        )
        for _, record in found.records
        if "registers" in record
    ]
    same = sum(there == here for there, here in loaded)
    return "\n".join(
        [
            f"{len(dataset)} records of {len(dataset.tasks)} tasks on {', '.join(np.unique(dataset.device))}",
            f"registers as ptxas said: {same} of {len(loaded)} programs",
            table(outcomes),
        ]
    )

"""A prepared folder made by hand, and `gpu_run` in a process of its own with a GPU that is none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.gpu_run.records import identity_of

FAKE = Path(__file__).parent / "fake_gpu"
TOOLS = Path(__file__).parents[2] / "tools"

ARGUMENTS = [{"shape": [1, 8, 8], "dtype": "float32", "seed": seed} for seed in (0, 1, None)]

# The kernels of a program: what each does, the seconds that it takes, and its arguments.
Kernels = Sequence[tuple[str, float, Sequence[int]]]


def matmul(seconds: float) -> Kernels:
    """The one kernel of a right program."""
    return [("matmul", seconds, (0, 1, 2))]


def make_folder(folder: Path, programs: Sequence[tuple[str, Kernels]], *, seed: int = 0) -> Path:
    """programs: arm and kernels of each; the draft predicts the seconds that the kernels take."""
    (folder / "programs").mkdir(parents=True)
    shutil.copytree(TOOLS / "gpu_run", folder / "gpu_run", ignore=shutil.ignore_patterns("__pycache__"))
    described = []
    for number, (arm, kernels) in enumerate(programs):
        names = [f"main_kernel_{i}" for i in range(len(kernels))]
        code = {name: kernel[:2] for name, kernel in zip(names, kernels, strict=True)}
        cubin = f"programs/{number}.cubin"
        (folder / cubin).write_text(json.dumps(code))
        launches = [
            {
                "name": name,
                "grid": [2, 1, 1],
                "block": [32, 1, 1],
                "arguments": list(kernel[2]),
                "dynamic_shared_bytes": 0,
                "registers": 32,
            }
            for name, kernel in zip(names, kernels, strict=True)
        ]
        described.append(
            {
                "task": 0,
                "arm": arm,
                "predicted_s": sum(kernel[1] for kernel in kernels),
                "failure": None,
                "cubin": cubin,
                "workspaces": [{"shape": [1, 8, 8], "dtype": "float32"}],
                "kernels": launches,
            }
        )
    task = {
        "name": "GMM/9",
        "operator": "GMM",
        "sizes": {},
        "arguments": ARGUMENTS,
        "output": 2,
        "tolerance": 1e-5,
    }
    body = {"format": 1, "arch": "sm_90", "tasks": [task], "programs": described, "seed": seed}
    sign(folder, body)
    return folder


def sign(folder: Path, body: dict[str, Any]) -> str:
    """Writes the manifest and returns its id."""
    body = json.loads(json.dumps(body))
    identity = identity_of(body)
    (folder / "manifest.json").write_text(json.dumps({"id": identity, **body}))
    return identity


def start(folder: Path, *options: str, cupy: bool = True, **environment: str) -> subprocess.Popen[str]:
    """The command, as a machine without TVM and without this package runs it."""
    paths = [str(folder), *([str(FAKE)] if cupy else [])]
    return subprocess.Popen(
        [sys.executable, "-m", "gpu_run", str(folder), *options],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **environment},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def gpu_run(
    folder: Path, *options: str, cupy: bool = True, **environment: str
) -> subprocess.CompletedProcess[str]:
    """The command, to its end."""
    with start(folder, *options, cupy=cupy, **environment) as process:
        said, complained = process.communicate(timeout=300)
    return subprocess.CompletedProcess(process.args, process.returncode, said, complained)


def lines(folder: Path) -> list[dict[str, Any]]:
    """What the run wrote."""
    return [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]


def records(folder: Path) -> list[dict[str, Any]]:
    """The programs among them."""
    return [line for line in lines(folder) if line["kind"] == "record"]

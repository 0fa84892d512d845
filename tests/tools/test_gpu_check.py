"""`prepare` and `import`: from operators to machine code, and from what ran there to a data set."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpu_util import FAKE, TOOLS, gpu_run, make_folder, matmul, records, sign

from pruner.errors import CompileError, DeviceError
from pruner.measure.nvcc import find_nvcc
from pruner.records.dataset import Dataset
from pruner.search.space import Space
from pruner.workload import Task
from tools import gpu_prepare
from tools.gpu_check import main

try:
    find_nvcc()
    MISSING = ""
except DeviceError as error:
    MISSING = str(error)
needs_nvcc = pytest.mark.skipif(bool(MISSING), reason=MISSING)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One product and one softmax, two candidates of each arm."""
    folder = tmp_path_factory.mktemp("check") / "gpu_check"
    words = ["prepare", "--folder", str(folder), "--workloads", "GMM/0", "SFM/0", "--candidates", "2"]
    assert main(words) == 0
    return folder


@pytest.fixture
def folder(prepared: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return Path(shutil.copytree(prepared, tmp_path / "gpu_check"))


def manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return found


def machine_code(cubin: bytes) -> tuple[int, set[str]]:
    """The architecture that an ELF file is for, and the names of its kernels (`.text.NAME`): as NVIDIA's
    tools write them since CUDA 13, the second byte of the header's flags holds the architecture."""
    header = struct.unpack_from("<16sHHIQQQIHHHHHH", cubin)
    machine, start, flags, size, count, names_at = header[2], header[6], header[7], *header[11:]
    assert machine == 190  # CUDA
    sections = [struct.unpack_from("<IIQQQQIIQQ", cubin, start + i * size) for i in range(count)]
    names = sections[names_at][4]
    found = [cubin[names + section[0] :].split(b"\0", 1)[0].decode() for section in sections]
    return flags >> 8 & 0xFF, {name.removeprefix(".text.") for name in found if name.startswith(".text.")}


@needs_nvcc
def test_the_folder_holds_what_the_other_machine_needs(prepared: Path) -> None:
    body = manifest(prepared)
    programs = body["programs"]
    # A run that is cut off has some of each.
    turn = [(0, "draft"), (0, "random"), (1, "draft"), (1, "random")]
    assert [(program["task"], program["arm"]) for program in programs] == turn * 2
    for program in programs:
        arch, kernels = machine_code((prepared / program["cubin"]).read_bytes())
        assert arch == 90
        assert kernels == {kernel["name"] for kernel in program["kernels"]}
        for kernel in program["kernels"]:
            assert np.prod(kernel["block"]) <= 1024
            assert 0 < kernel["registers"] <= 255
        buffers = len(body["tasks"][program["task"]]["arguments"]) + len(program["workspaces"])
        used = {i for kernel in program["kernels"] for i in kernel["arguments"]}
        assert used == set(range(buffers))
    assert any(len(program["kernels"]) > 1 and program["workspaces"] for program in programs)
    size = sum(path.stat().st_size for path in prepared.rglob("*") if path.is_file())
    assert size < 50e6


@needs_nvcc
def test_the_drafts_best_are_what_it_predicts_to_be_fastest(prepared: Path) -> None:
    body = manifest(prepared)
    for task in range(len(body["tasks"])):
        arms = {
            arm: [p["predicted_s"] for p in body["programs"] if (p["task"], p["arm"]) == (task, arm)]
            for arm in ("draft", "random")
        }
        assert arms["draft"] == sorted(arms["draft"])
        assert max(arms["draft"]) <= min(s for s in arms["random"] if s is not None)


@needs_nvcc
def test_kernels_that_do_nothing_are_all_found_wrong(folder: Path) -> None:
    done = gpu_run(folder)
    assert done.returncode == 1
    found = records(folder)
    assert [record["program"] for record in found] == list(range(8))
    assert {record["failure"] for record in found} == {"wrong"}


@needs_nvcc
def test_records_become_a_data_set(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = manifest(folder)
    device = {"name": "Fake GPU", "arch": "sm_90"}
    body["programs"][6] |= {"failure": "build", "message": "ptxas says no"}
    del body["id"]
    lines: list[dict[str, Any]] = [{"kind": "device", "manifest": sign(folder, body), "device": device}]
    for order, number in enumerate([3, 0, 1, 2, 5, 4]):
        lines.append({"kind": "record", "program": number, "order": order, "run_s": 0.25, "failure": None})
        lines[-1] |= {"samples_s": [1e-6 * (number + 1), 3e-6 * (number + 1)], "registers": [16]}
    lines[-1] = {"kind": "record", "program": 4, "order": 5, "run_s": 10.0, "failure": "timeout"}
    (folder / "records.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    saved = folder / "set.npz"
    assert main(["import", "--folder", str(folder), "--save", str(saved)]) == 0
    said = capsys.readouterr().out
    assert "7 records of 2 tasks on Fake GPU, sm_90, TVM" in said
    assert "failures: 1 build, 1 timeout" in said

    dataset = Dataset.load(saved)
    programs = [6, 3, 0, 1, 2, 5, 4]
    of = [body["programs"][number] for number in programs]
    assert [task.id for task in dataset.tasks] == ["GMM/0", "SFM/0"]
    assert dataset.task.tolist() == [program["task"] for program in of]
    assert dataset.failure.tolist() == ["build", "", "", "", "", "", "timeout"]
    ran = [2e-6 * (number + 1) for number in programs[1:-1]]
    np.testing.assert_allclose(dataset.latency_s, [np.nan, *ran, np.nan])
    np.testing.assert_allclose(dataset.spread_s, [np.nan, *(second / 2 for second in ran), np.nan])
    ran_s = [0.0, *[0.25] * 5, 10.0]
    built_s = [program["build_s"] for program in of]
    np.testing.assert_allclose(dataset.cost_s, np.add(built_s, ran_s))
    for task in dataset.tasks:
        rows = dataset.of(task.id).population(Space.of(Task(task.id, task.mod, task.target)))
        wanted = [program for program in of if body["tasks"][program["task"]]["name"] == task.id]
        assert [candidate.row.tolist() for candidate in rows] == [
            program["row"][: rows.space.width] for program in wanted
        ]
        assert rows.sketch_ids.tolist() == [program["sketch"] for program in wanted]


@needs_nvcc
def test_a_program_that_does_not_compile_is_kept_as_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = gpu_prepare.compile_generated
    calls: list[str] = []

    def refuse_the_first(generated: Any, arch: str) -> Any:
        calls.append(arch)
        if len(calls) == 1:
            raise CompileError("ptxas says no")
        return original(generated, arch)

    monkeypatch.setattr(gpu_prepare, "compile_generated", refuse_the_first)
    folder = tmp_path / "gpu_check"
    words = ["--folder", str(folder), "--workloads", "GMM/0", "--candidates", "1", "--arch", "sm_80"]
    assert main(["prepare", *words]) == 0
    assert calls == ["sm_80"] * 2
    programs = manifest(folder)["programs"]
    assert sorted(program["failure"] or "" for program in programs) == ["", "build"]
    (right,) = [program for program in programs if program["failure"] is None]
    assert machine_code((folder / right["cubin"]).read_bytes())[0] == 80
    gpu_run(folder, FAKE_GPU_ARCH="86")  # machine code of sm_80 runs on the later ones of its generation
    assert len(records(folder)) == 1


@needs_nvcc
def test_what_cannot_be_prepared_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "mine.txt").write_text("kept")
    ran = make_folder(tmp_path / "ran", [("draft", matmul(1e-6))])
    (ran / "records.jsonl").touch()
    for words, said in (
        (["--workloads", "T2D/0"], "no NumPy reference"),
        (["--workloads", "GMM/77"], "unknown"),
        (["--device", "x86-64"], "is a CPU"),
        (["--arch", "sm_37"], "sm_37"),
        (["--candidates", "0"], "candidates=0"),
        (["--arch", "native"], 'arch "native"'),
        (["--seed", "-1"], "seed=-1"),
        (["--folder", str(taken / "mine.txt")], "cannot be used"),
        (["--folder", str(taken)], "holds other things"),
        (["--folder", str(ran)], "holds the records"),
    ):
        assert main(["prepare", "--folder", str(tmp_path / "new"), *words]) == 2
        assert said in capsys.readouterr().err
    assert (taken / "mine.txt").read_text() == "kept"
    assert (ran / "records.jsonl").exists()
    assert not (tmp_path / "new").exists()


def test_records_that_cannot_be_read_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_folder(tmp_path / "made", [("draft", matmul(1e-6))])
    known = json.loads((folder / "manifest.json").read_text())["id"]
    gpu = {"name": "Fake GPU", "arch": "sm_90"}

    def recorded(**record: Any) -> str:
        lines = ({"kind": "device", "manifest": known, "device": gpu}, {"kind": "record", **record})
        return "".join(f"{json.dumps(line)}\n" for line in lines)

    for text, said in (
        (None, "is no file"),
        ("", "holds no record"),
        ("{}\n", "line 1, is no record"),
        ("[1]\n", "line 1, is no record"),
        ("\udcff\n", "line 1, is no record"),
        (f"{json.dumps({'kind': 'device', 'manifest': 'another', 'device': gpu})}\n", "at another time"),
        (f"{json.dumps({'kind': 'device', 'manifest': known, 'device': {}})}\n", "line 1, is no record"),
        (f"{json.dumps({'kind': 'record', 'program': 0})}\n", "on which GPU"),
        (recorded(program=1, failure="run", run_s=1.0), "line 2, is no record .*program's number"),
        (recorded(program="a", failure="run", run_s=1.0), "line 2, is no record .*program's number"),
        (recorded(program=0, failure=None, run_s=1.0), "line 2, is no record .*samples_s"),
        (recorded(program=0, failure=None, run_s=1.0, samples_s=[]), "line 2, is no record .*latency"),
        (recorded(program=0, failure="run"), "line 2, is no record .*run_s"),
    ):
        if text is not None:
            (folder / "records.jsonl").write_bytes(text.encode(errors="surrogateescape"))
        assert main(["import", "--folder", str(folder)]) == 2
        assert re.search(said, capsys.readouterr().err)


def test_a_manifest_that_was_changed_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On both sides: what follows from half a manifest is nothing that a message could explain."""
    folder = make_folder(tmp_path / "made", [("draft", matmul(1e-6))])
    path = folder / "manifest.json"
    whole = path.read_text()
    body = json.loads(whole)
    for text, said in (
        ("[1, 2]", "not of format"),
        ("null", "not of format"),
        (whole[:100], "damaged"),
        (json.dumps({**body, "programs": {}}), "was changed"),
        (json.dumps({name: value for name, value in body.items() if name != "id"}), "was changed"),
    ):
        path.write_text(text)
        done = gpu_run(folder)
        assert main(["import", "--folder", str(folder)]) == done.returncode == 2
        assert said in done.stderr
        assert said in capsys.readouterr().err
    path.unlink()
    path.mkdir()
    assert main(["import", "--folder", str(folder)]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_the_front_finds_the_folder_and_says_what_is_missing(tmp_path: Path) -> None:
    shutil.copytree(TOOLS, tmp_path / "tools")
    script = tmp_path / "tools" / "gpu_check.sh"

    def call(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", str(script), *words],
            env={"PATH": "/usr/bin:/bin", "PYTHON": sys.executable, **environment},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    for done, code, said in (
        (call(), 2, "usage"),
        (call("--help"), 0, "prepare"),
        (call("run"), 2, "gpu_check is missing"),
        (call("import", PYTHON="/nowhere/python"), 2, "does not have this project"),
        (call("run", PYTHON="/nowhere/python"), 2, "there is no /nowhere/python"),
    ):
        assert done.returncode == code
        assert said in done.stdout + done.stderr
    make_folder(tmp_path / "gpu_check", [("draft", matmul(1e-6))])
    assert call("run", "--out", str(tmp_path / "out"), PYTHONPATH=str(FAKE)).returncode == 0
    assert len(records(tmp_path / "out")) == 1

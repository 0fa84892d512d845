import json
import os
import subprocess
import sys

import numpy as np
import pytest
from tvm import te
from tvm.ir import assert_structural_equal
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Trace
from tvm.target import Target

from pruner.errors import ConfigError
from pruner.records.database import load, trace_json, write_database
from pruner.records.journal import Confirmation, End, Header, Journal, Trial
from pruner.report import load_command
from pruner.search.candidate import TraceCandidate
from pruner.workload import make_task

N = 32


@pytest.fixture(scope="module")
def task():
    a = te.placeholder((N, N), name="a")
    b = te.placeholder((N, N), name="b")
    k = te.reduce_axis((0, N), "k")
    c = te.compute((N, N), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    return make_task(te.create_prim_func([a, b, c]), Target({"kind": "llvm", "num-cores": 2}), "matmul")


def schedule(task, factor):
    """A tiled matmul whose trace has post-processing: the outer loop is parallel."""
    sch = Schedule(task.mod)
    block = sch.get_sblock("c")
    i, j, k = sch.get_loops(block)
    split = sch.sample_perfect_tile(i, n=2, decision=[N // factor, factor])
    outer, inner = sch.split(i, split)
    sch.reorder(outer, j, k, inner)
    sch.enter_postproc()
    sch.parallel(sch.get_loops(block)[0])
    return sch


@pytest.fixture
def journal(task, tmp_path):
    """Trials of factors 2, 4, 8 and 16; the one of 8 is fastest, the one of 16 failed."""
    header = Header("matmul", "0x1", {}, "auto", "", 2, 2, 0, {}, {})
    journal = Journal.create(tmp_path / "run", header)
    for number, (factor, latency) in enumerate({2: 3e-3, 4: 2e-3, 8: 1e-3, 16: None}.items(), 1):
        trace = trace_json(TraceCandidate.of(task, schedule(task, factor)))
        failure = None if latency else "build"
        journal.append(Trial(number, 1, f"{number}", trace, latency, 0.0, 0.0, 0.0, failure, "", 1.0))
    return journal


def normalised_lines(path):
    return sorted(json.dumps(json.loads(line), sort_keys=True) for line in path.read_text().splitlines())


def stock(work_dir):
    """The database as TVM itself reads it."""
    return ms.database.JSONDatabase(work_dir=str(work_dir), allow_missing=False)


def test_stock_tvm_finds_the_best_program(task, journal):
    folder = journal.path.parent
    write_database(folder, task, journal.contents)
    found = ms.tir_integration.compile_tir(stock(folder), task.mod, task.target)
    assert_structural_equal(found.mod, schedule(task, 8).mod)


def test_records_are_what_tvm_would_write(task, journal, tmp_path):
    folder = journal.path.parent
    write_database(folder, task, journal.contents)
    theirs = ms.database.JSONDatabase(work_dir=str(tmp_path))
    workload = theirs.commit_workload(task.mod)
    args = ms.arg_info.ArgInfo.from_entry_func(task.mod, True)
    for factor, latency in ((2, 3e-3), (4, 2e-3), (8, 1e-3)):
        trace = schedule(task, factor).trace
        theirs.commit_tuning_record(ms.database.TuningRecord(trace, workload, [latency], task.target, args))
    for name in ("database_workload.json", "database_tuning_record.json"):
        assert normalised_lines(folder / name) == normalised_lines(tmp_path / name)


def test_failed_and_wrong_trials_are_not_entered(task, journal):
    folder = journal.path.parent
    journal.append(Confirmation(3, None, None, "wrong", ""), End(2, "budget"))
    write_database(folder, task, journal.contents)
    assert len(stock(folder)) == 2
    found = stock(folder).query_schedule(task.mod, task.target, "main")
    assert_structural_equal(found.mod, schedule(task, 4).mod)


def test_the_confirmed_best_wins_over_a_faster_claim(task, journal):
    folder = journal.path.parent
    journal.append(Confirmation(2, 1.5e-3, 0.0), End(2, "budget"))
    write_database(folder, task, journal.contents)
    found = stock(folder).query_schedule(task.mod, task.target, "main")
    assert_structural_equal(found.mod, schedule(task, 4).mod)


def test_a_run_without_a_valid_trial_leaves_a_loadable_database(task, tmp_path):
    journal = Journal.create(tmp_path, Header("matmul", "0x1", {}, "auto", "", 2, 2, 0, {}, {}))
    write_database(tmp_path, task, journal.contents)
    assert len(stock(tmp_path)) == 0
    with pytest.raises(ConfigError, match="no program"):
        load(tmp_path)


def test_load_runs_the_best_program(task, journal):
    folder = journal.path.parent
    write_database(folder, task, journal.contents)
    best = load(folder)
    assert best.latency_s == 1e-3
    arguments = best.arguments()
    best(*arguments)
    a, b, c = (argument.numpy() for argument in arguments)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


def test_the_printed_line_works_as_it_stands(task, journal):
    folder = journal.path.parent
    write_database(folder, task, journal.contents)
    python = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": python, "PYTHONPATH": os.pathsep.join(sys.path)}
    line = load_command(folder, threads=2)
    done = subprocess.run(line, shell=True, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "[" in done.stdout


def test_a_folder_without_a_run_is_named(tmp_path):
    with pytest.raises(ConfigError, match="database_workload"):
        load(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_trace_survives_the_journal(task):
    sch = schedule(task, 8)
    again = Schedule(task.mod)
    Trace.apply_json_to_schedule(json.loads(json.dumps(trace_json(TraceCandidate.of(task, sch)))), again)
    assert_structural_equal(again.mod, sch.mod)

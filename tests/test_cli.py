import os
import subprocess
import sys
import types

import pytest

import pruner
from pruner.cli import main
from pruner.errors import UntunableError
from pruner.records.journal import End, Header, Journal


@pytest.fixture
def runs(monkeypatch, tmp_path):
    """Stands for the tuner: the configs it was called with. The working directory is an empty folder. A run
    of seed 7 is stopped by the user, of seed 8 in the middle of a batch."""
    called = []

    def run(cfg, clock):
        called.append(cfg)
        return types.SimpleNamespace(stopped=cfg.seed in (7, 8), interrupted=cfg.seed == 8)

    stand_in = types.ModuleType("pruner.tune")
    stand_in.run = run
    monkeypatch.setitem(sys.modules, "pruner.tune", stand_in)
    monkeypatch.chdir(tmp_path)
    return called


def test_tune_passes_the_settings_on(runs, tmp_path):
    assert main(["tune", "workload=C2D/1", "trials=60", "seed=3", "work_dir=there", "verifier=random"]) == 0
    (cfg,) = runs
    assert (cfg.workload, cfg.trials, cfg.seed, cfg.work_dir) == ("C2D/1", 60, 3, "there")
    assert cfg.verifier["_target_"].endswith("RandomVerifier")
    assert list(tmp_path.iterdir()) == []


def test_multirun(runs):
    assert main(["tune", "-m", "workload=C2D/1", "seed=0,1"]) == 0
    assert [cfg.seed for cfg in runs] == [0, 1]


@pytest.mark.parametrize(
    ("seeds", "code", "ran"), [("7,1", 130, [7]), ("8,1", 130, [8]), ("1,7", 0, [1, 7]), ("1,8", 130, [1, 8])]
)
def test_a_stopped_run_ends_the_sweep(runs, seeds, code, ran):
    assert main(["tune", "-m", "workload=C2D/1", f"seed={seeds}"]) == code
    assert [cfg.seed for cfg in runs] == ran


@pytest.mark.parametrize("folder", ["file", "file/below"])
def test_a_work_dir_that_cannot_be_made_is_refused_before_anything_runs(runs, capsys, tmp_path, folder):
    (tmp_path / "file").touch()
    assert main(["tune", "workload=C2D/1", f"work_dir={folder}"]) == 2
    assert "file is a file" in capsys.readouterr().err
    assert runs == []


def test_options_of_ones_own(runs, tmp_path):
    (tmp_path / "draft").mkdir()
    (tmp_path / "draft" / "mine.yaml").write_text("_target_: mine.Draft\n")
    assert main(["tune", "workload=C2D/1", "--config-dir", str(tmp_path), "draft=mine"]) == 0
    assert runs[0].draft["_target_"] == "mine.Draft"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["tune"], "workload="),
        (["tune", "workload=C2D/1", "trials=0"], "trials=0"),
        (["tune", "workload=C2D/1", "work_dir=null"], "work_dir=None"),
        (["tune", "workload=C2D/1", "work_dir="], "work_dir="),
        (
            ["tune", "workload=C2D/1", "verifier=forest"],
            "custom, pacm, pacm_paper, random, tenset_mlp, tlp, xgb",
        ),
        (["tune", "workload=C2D/1", "--config-dir", "missing"], "missing"),
        (["tume"], "unknown command 'tume'"),
        ([], "no command"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(runs, capsys, tmp_path, words, named):
    assert main(words) == 2
    shown = capsys.readouterr()
    assert named in shown.err
    assert shown.out == ""
    assert "Traceback" not in shown.err
    assert runs == []
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_flag(runs, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["tune", "workload=C2D/1", "--fast"])
    assert stop.value.code == 2
    assert "--fast" in capsys.readouterr().err


def test_errors_of_the_run_are_messages_too(runs, monkeypatch, capsys):
    def refuse(cfg, clock):
        raise UntunableError("no schedule to choose")

    monkeypatch.setattr(sys.modules["pruner.tune"], "run", refuse)
    assert main(["tune", "workload=C2D/1"]) == 2
    assert capsys.readouterr().err == "pruner: no schedule to choose\n"


def test_an_occupied_work_dir_is_refused_before_anything_runs(runs, capsys, tmp_path):
    header = Header("GMM/0", "0x1", {}, "auto", "", 2, 2, 0, {}, {})
    Journal.create(tmp_path / "there", header).append(End(None, "budget"))
    assert main(["tune", "workload=C2D/1", "work_dir=there"]) == 2
    assert "GMM/0" in capsys.readouterr().err
    assert runs == []


def test_version_and_help(capsys):
    assert main(["--version"]) == 0
    assert pruner.__version__ in capsys.readouterr().out
    assert main(["--help"]) == 0
    assert "tune" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        main(["tune", "--help"])
    assert stop.value.code == 0
    shown = capsys.readouterr().out
    for part in ("trials: 64", "roofline", "features: symbols", "--config-dir", "--multirun"):
        assert part in shown


def test_bad_input_is_refused_without_importing_tvm(tmp_path):
    script = "import sys; from pruner.cli import main; print(main(sys.argv[1:]), 'tvm' in sys.modules)"
    words = ["tune", "workload=C2D/1", "device=k81"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["2", "False"]
    assert "k81" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_whoever_reads_the_first_lines_only_ends_nothing(monkeypatch):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        assert main(["features", "describe", "statement"]) == 0
        monkeypatch.undo()

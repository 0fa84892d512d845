"""Settings of studies, on those of compare."""

import pytest

from experiments.settings import main, settings, usage
from pruner.errors import ConfigError


def test_lists_are_plain_and_one_value_stands_for_a_list_of_one():
    cfg = settings("compare", ["workload=[C2D/1,examples/x.py:f]", "seed=3", "trials=7"])
    assert list(cfg.workload) == ["C2D/1", "examples/x.py:f"]
    assert (list(cfg.seed), cfg.trials, cfg.blocks) == ([3], 7, None)
    assert cfg.arms[0] == "pruner"
    assert list(settings("compare", ["extra=[]"]).extra) == []
    assert list(settings("compare", ["arms=[0,b,10]"]).arms) == ["0", "b", "10"]  # a name may be a number


def test_the_run_folder_is_hydras_unless_it_is_given():
    assert settings("compare", []).work_dir.startswith("outputs/")
    assert settings("compare", ["hydra.run.dir=there"]).work_dir == "there"
    assert settings("compare", ["work_dir=20"]).work_dir == "20"


def test_a_setting_may_be_called_as_a_folder_of_files_is():
    for base in ("moa", "mine/base.yaml"):
        assert settings("ablation", [f"base={base}"]).base == base
    assert settings("ablation", ["trials=3", "trials=4"]).trials == 4


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("trails=5", r"Unknown setting 'trails'\. Did you mean trials\? Accepted: workload, seed"),
        ("search=random", "Unknown setting 'search'"),
        ("trials=five", "trials=five is not accepted: give a whole number"),
        ("trials=1.5", "give a whole number"),
        ("trials=true", "give a whole number"),
        ("trials=null", "give a whole number"),
        ("trials=", "give a whole number"),
        ("seed=[0,x]", r"seed=\[0, 'x'\] is not accepted: give a list"),
        ("seed=0,1", r"give several values as a list, seed=\[VALUE,VALUE\]"),
        ("seed=[1,1]", "seed lists 1 twice"),
        ("workload={a: b}", "not a mapping"),
        ("workload=[a b", "give a list"),
        ("blocks=3", "blocks=3 is not accepted: give a name"),
        ("work_dir=", "work_dir= is not accepted"),
        ("workload=[GMM/0,'']", "each of it a name"),
        ("+trials=3", "Write trials=VALUE in place of"),
        ("~trials", "Write trials=VALUE in place of"),
        ("trials@x=3", "Write trials=VALUE in place of"),
        ("trials", "Cannot read the argument 'trials'"),
        ("hydra.job.name=x", "Unknown setting 'hydra.job.name'"),
    ],
)
def test_bad_settings_are_explained(argument, message):
    with pytest.raises(ConfigError, match=message):
        settings("compare", [argument])


def test_a_study_prints_its_folder_last_and_makes_it(tmp_path, capsys):
    folder = tmp_path / "a" / "b"
    assert main("compare", lambda cfg: print(cfg.trials), [f"work_dir={folder}", "trials=3"]) == 0
    assert capsys.readouterr().out == f"3\n{folder}\n"
    assert folder.is_dir()


def test_bad_input_is_one_message_and_code_2(tmp_path, capsys):
    def refuse(cfg):
        raise ConfigError("that will not do")

    (tmp_path / "file").write_text("")
    assert main("compare", refuse, [f"work_dir={tmp_path}"]) == 2
    assert main("compare", refuse, [f"work_dir={tmp_path / 'file' / 'below'}"]) == 2
    assert main("compare", refuse, ["trials=x"]) == 2
    assert main("compare", refuse, [f"work_dir={tmp_path / 'new'}"]) == 2
    assert {path.name for path in tmp_path.iterdir()} == {"file"}  # a folder for nothing is not left
    first, second, third, _ = capsys.readouterr().err.splitlines()
    assert first == "compare: that will not do"
    assert "cannot be used" in second
    assert third.startswith("compare: trials=x")


def test_a_multirun_is_a_job_a_combination_in_a_folder_each(tmp_path, capsys):
    seen = []

    def work(cfg):
        seen.append((cfg.trials, list(cfg.seed), cfg.extra[:], cfg.work_dir))

    words = ["--multirun", "trials=3,4", "seed=[0,1],2", "extra=[a]", f"work_dir={tmp_path / 's'}"]
    assert main("compare", work, words) == 0
    jobs = [(3, [0, 1]), (3, [2]), (4, [0, 1]), (4, [2])]
    assert seen == [(*job, ["a"], str(tmp_path / "s" / str(i))) for i, job in enumerate(jobs)]
    assert capsys.readouterr().out.splitlines()[-1] == str(tmp_path / "s")
    # All jobs are checked before the first one runs, and nothing is left of a sweep that is refused.
    seen.clear()
    assert main("compare", work, ["-m", "trials=3,x", f"work_dir={tmp_path / 't'}"]) == 2
    assert "trials=x is not accepted" in capsys.readouterr().err
    assert not seen
    assert not (tmp_path / "t").exists()


def test_help_shows_every_setting(capsys):
    assert main("compare", pytest.fail, ["--help"]) == 0
    shown = capsys.readouterr().out
    assert shown == usage("compare")
    for key in settings("compare", []):
        assert f"\n  {key}: " in shown

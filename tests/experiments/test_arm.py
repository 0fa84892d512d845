"""Arms by name, and the processes they run in."""

import json
import time

import pytest
from omegaconf import OmegaConf

from experiments.arm import Arm, ArmError, read_run, run_arm
from experiments.settings import CONF
from experiments.stock import by_stage
from pruner.config import compose
from pruner.errors import ConfigError
from pruner.measure.clock import STAGES


def test_the_shipped_arms():
    files = (CONF / "arm").glob("*.yaml")
    names = {path.stem for path in files if "changes" not in OmegaConf.load(path)}  # those change a base
    assert names >= {"pruner", "metaschedule_10", "metaschedule_64", "stock"}
    arms = {name: Arm.load(name) for name in names}
    assert arms["pruner"] == Arm("pruner")
    for batch in (10, 64):
        cfg = compose(["workload=GMM/0", *arms[f"metaschedule_{batch}"].overrides])
        assert cfg.search["_target_"].endswith("MetaScheduleSearch")
        assert cfg.batch == batch
    assert arms["stock"].program == "experiments.stock"


def test_a_change_to_a_base_is_no_arm_of_its_own():
    with pytest.raises(ConfigError, match=r"no_draft changes a base.*experiments\.ablation"):
        Arm.load("no_draft")


def test_an_arm_of_ones_own_is_a_file(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("overrides: [search=random, 'draft.size=64']\n")
    assert Arm.load(str(path)) == Arm("mine", ("search=random", "draft.size=64"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("overrides: [serch=random]", "serch"),
        ("override: [search=random]", "holds override"),
        ("overrides: 3", "is no arm"),
        ("[search=random]", "is no arm"),
        ("overrides: [", "is no arm"),
        ("overrides: {search: random}", "is no arm"),
        ("overrides: search=random", "is no arm"),
        ("overrides: [1]", "is no arm"),
        ("program: 3", "is no arm"),
        ("program: nowhere.to.be.found", "no module nowhere"),
        ("overrides: [trials=3]", "trials, which the study sets itself"),
        ("overrides: ['work_dir=here']", "work_dir"),
        ("overrides: [measure=compile]", "times nothing"),
    ],
)
def test_an_arm_that_cannot_be_used_is_refused(tmp_path, text, message):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as refusal:
        Arm.load(str(path))
    assert str(path) in str(refusal.value)


def test_an_unknown_arm_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"Did you mean stock\? Accepted: .*metaschedule_10.*stock"):
        Arm.load("stok")


def test_the_clock_starts_before_the_process_is_made(tmp_path):
    (tmp_path / "plan.json").write_text(json.dumps({"ours": {"trials": [[1.0, 50, "a"]]}}))
    before = time.perf_counter()
    words = ["workload=GMM/0", "seed=0", f"plan={tmp_path / 'plan.json'}"]
    run = run_arm(Arm("ours", (), "tests.experiments.fake_arm"), words, tmp_path / "ours", 1)
    # Starting Python and importing the program is part of it.
    assert 0.01 < run.seconds["started"] < time.perf_counter() - before
    assert [trial.latency_s for trial in run.contents.trials] == [50 * 1e-6]


def test_a_folder_without_a_whole_run_is_an_error(tmp_path):
    with pytest.raises(ArmError, match="left no result"):
        read_run(tmp_path)


def test_tvms_profile_by_our_stages():
    profile = {
        "EvoSearch/SampleInitPopulation": 1.0,
        "EvoSearch/Evolve/PredictNormalizedScore": 2.0,
        "SendToBuilder": 4.0,
        "SendToRunner": 8.0,
        "JoinRunnerFutures": 16.0,
        "MeasureCallback/UpdateCostModel": 32.0,
        "MeasureCallback/AddToDatabase": 64.0,
        "Total": 127.0,
    }
    found = by_stage(profile, 200.0)
    assert {stage: s for stage, s in found.items() if s} == {
        "draft": 1.0, "predict": 2.0, "build": 4.0, "run": 24.0, "fit": 32.0, "other": 137.0, "total": 200.0
    }  # fmt: skip
    assert set(found) == {*STAGES, "total"}

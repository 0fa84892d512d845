"""Ablations: arms from a base, and replays from the command to the page."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from omegaconf import OmegaConf

from experiments import report
from experiments.ablation import main
from experiments.ablation_summary import combined
from experiments.bases import Base, changed
from experiments.settings import CONF
from pruner.config import compose, instantiate
from pruner.costmodel.pretrained import load_into
from pruner.errors import ConfigError
from pruner.measure.clock import STAGES
from pruner.records.recorded_pool import RecordedPool

EXCERPT = Path(__file__).parents[1] / "data" / "metaschedule"
REPLAY = [
    f"data={EXCERPT}",
    "device=a100-40g",
    "source=rtx3080",
    "tasks=[0]",
    "trials=12",
    "batch=4",
    "programs=20",
]
ARMS = sorted(path.stem for path in (CONF / "arm").glob("*.yaml") if "changes" in OmegaConf.load(path))


@pytest.fixture
def go(tmp_path):
    def run(*words, name="study"):
        folder = tmp_path / name
        assert main([*REPLAY, f"cache={tmp_path / 'features'}", f"work_dir={folder}", *words]) == 0
        return json.loads((folder / "ablation.json").read_text())

    return run


def test_a_change_takes_the_place_of_what_is_said_of_its_key_or_group():
    for changes in (["draft=none", "draft.share=0.5"], ["draft.share=0.5", "draft=none"]):
        assert changed(["draft=symbol", "draft.size=9", "batch=5"], changes) == ["batch=5", *changes]
    base = ["draft=symbol", "adapt=momentum", "adapt.checkpoint=a", "batch=5"]
    assert changed(base, []) == base
    assert changed(base, ["adapt=scratch"]) == ["draft=symbol", "batch=5", "adapt=scratch"]
    assert changed(base, ["adapt.checkpoint=b", "draft.size=9"]) == [
        "draft=symbol",
        "adapt=momentum",
        "batch=5",
        "adapt.checkpoint=b",
        "draft.size=9",
    ]


@pytest.mark.parametrize(
    ("base", "source"), [("pruner", "x86-64"), ("pruner", "a100-f1"), ("moa", "a100-f1")]
)
@pytest.mark.parametrize("name", ARMS)
def test_every_arm_differs_from_its_base_in_one_part_and_its_checkpoint_suits_it(base, source, name):
    whole = compose(["workload=GMM/0", *Base.load(base, source).overrides])
    arm = compose(["workload=GMM/0", *Base.load(base, source).arm(name).overrides])
    differing = {group for group in ("draft", "verifier", "search", "adapt") if arm[group] != whole[group]}
    parts = {
        "full": set(),
        "no_draft": {"search"},
        "random_draft": {"draft"},
        "no_dataflow": {"verifier", "adapt"},  # its checkpoint is another, too
        "no_statement": {"verifier", "adapt"},
        "no_adaptation": {"adapt"},
        "finetune": {"adapt"},
        "gap": {"adapt"},
        "offline": {"adapt"},
        "offline_no_draft": {"search", "adapt"},
        "offline_tenset_mlp": {"verifier", "search", "adapt"},
        "offline_tlp": {"verifier", "search", "adapt"},
    }
    assert differing == parts[name]
    if arm.adapt.get("checkpoint"):
        load_into(instantiate(arm.verifier, seed=0), arm.adapt.checkpoint)


def test_a_base_or_an_arm_that_is_none_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="Did you mean pruner"):
        Base.load("prunr", "a100-f1")
    base = Base.load("pruner", "a100-f1")
    with pytest.raises(ConfigError, match="Did you mean no_draft"):
        base.arm("no_darft")
    with pytest.raises(ConfigError, match="there is no checkpoint pacm-k80-no_dataflow"):
        Base.load("pruner", "k80").arm("no_dataflow")
    (tmp_path / "mine.yaml").write_text("overrides: [draft=none]\n")
    with pytest.raises(ConfigError, match="arms=mine is no change of a base"):
        base.arm(str(tmp_path / "mine.yaml"))
    (tmp_path / "mine.yaml").write_text("changes: [device=a100-80g]\n")
    assert base.arm(str(tmp_path / "mine.yaml")).overrides[-1] == "device=a100-80g"
    with pytest.raises(ConfigError, match=r"arms=mine, of base=pruner.*hold device, which the study sets"):
        base.arm(str(tmp_path / "mine.yaml"), "device")
    (tmp_path / "other.yaml").write_text(
        "checkpoint: '{model}'\noverrides: ['adapt.checkpoint={checkpoint}']\n"
    )
    assert Base.load(str(tmp_path / "other.yaml"), "k80").overrides == ("adapt.checkpoint={model}",)


def test_a_replay_says_what_the_records_say(go, tmp_path):
    found = go("arms=[full,random_draft,no_adaptation]", "seed=[0,1]", "trial_s=2.0")
    pool = RecordedPool.load(EXCERPT, "0")
    best_s = np.nanmin(pool.latency_s)
    assert (found["looks"], found["trials"], found["blocks"]) == ([5, 10], 12, 2)
    assert list(found["arms"]) == ["full", "random_draft", "no_adaptation"]
    for row in found["results"]:
        assert row["best_s"] == best_s
        assert {latency for _, _, latency in row["curve"]} <= set(pool.latency_s.tolist())
        assert row["seconds"]["run"] == pytest.approx(12 * 2.0)
        assert row["seconds"]["build"] == 0.0
        assert row["seconds"]["total"] > 24.0
        assert row["score"] == pytest.approx(np.mean(list(row["shares"].values())))
    for arm in found["arms"].values():
        assert set(arm["seconds"]) == {*STAGES, "total"}
        for key in ("score", "latency_s", "trials_to_5pct", "seconds_to_5pct", "difference"):
            assert set(arm[key]) == {"mean", "low", "high"}
    # In the order of recording, the lowest latency of the first records by hand.
    ordered = pool.latency_s[np.argsort(pool.order)][:12]
    for trial, share in found["as_recorded"]["0"]:
        assert share == pytest.approx(best_s / np.nanmin([np.inf, *ordered[:trial]]))
    text = (tmp_path / "study" / "ablation.md").read_text()
    assert "Replay: nothing was run." in text
    assert "2 s a trial where nobody kept the first" in text
    assert (tmp_path / "study" / "ablation.png").stat().st_size > 0
    table = pd.read_csv(tmp_path / "study" / "ablation.csv")
    assert len(table) == 6
    # Nothing says where on this machine the records are.
    stored = json.loads(next((tmp_path / "study").glob("0-seed0.json")).read_text())
    assert stored["settings"]["data"] == ["metaschedule"]


def test_blocks_of_other_records_are_not_taken(go, tmp_path, capsys):
    go("arms=[random_draft]", "seed=[0]")
    path = tmp_path / "study" / "0-seed0.json"
    kept = json.loads(path.read_text())
    path.write_text(json.dumps({**kept, "best_s": 2 * kept["best_s"]}))
    words = ["arms=[random_draft]", "seed=[0]", f"cache={tmp_path / 'features'}"]
    assert main([*REPLAY, *words, f"work_dir={tmp_path / 'study'}"]) == 2
    assert re.search(r"was made with best_s=.*, here best_s=", capsys.readouterr().err)


def test_a_killed_study_run_again_gives_the_same_table(go, tmp_path):
    words = ["arms=[full,no_adaptation]", "seed=[0,1,2]", f"cache={tmp_path / 'features'}"]
    whole = go(*words, name="whole")
    folder = tmp_path / "cut"
    command = [sys.executable, "-m", "experiments.ablation", *REPLAY, *words, f"work_dir={folder}"]
    study = subprocess.Popen(command)
    deadline = time.monotonic() + 120
    while not (folder / "0-seed0.json").exists():
        assert study.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    study.send_signal(signal.SIGKILL)
    study.wait()
    again = go(*words, name="cut")
    for key in ("looks", "workloads", "pairs", "as_recorded"):
        assert again[key] == whole[key]
    for arm, found in whole["arms"].items():
        for key in (
            "blocks",
            "unreached",
            "score",
            "difference",
            "latency_s",
            "latency_ratio",
            "trials_to_5pct",
        ):
            assert again["arms"][arm][key] == found[key]
    kept = [(row["seed"], row["arm"], row["latency_s"], row["failures"]) for row in again["results"]]
    assert kept == [(row["seed"], row["arm"], row["latency_s"], row["failures"]) for row in whole["results"]]


def test_jobs_side_by_side_are_one_table_without_seconds(tmp_path, capsys):
    words = ["-m", "hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "seed=0,1", "arms=[full,random_draft]"]
    folder = tmp_path / "sweep"
    assert main([*words, *REPLAY, f"cache={tmp_path / 'features'}", f"work_dir={folder}"]) == 0
    jobs = [json.loads((folder / name / "ablation.json").read_text()) for name in "01"]
    assert [job["seeds"] for job in jobs] == [[0], [1]]
    assert report.main([str(folder)]) == 0
    together = json.loads((folder / "ablation.json").read_text())
    assert (together["seeds"], together["blocks"]) == ([0, 1], 2)
    assert together["arms"]["full"]["seconds"]["total"]["mean"] is None
    assert together["arms"]["full"]["score"]["mean"] == pytest.approx(
        np.mean([job["arms"]["full"]["score"]["mean"] for job in jobs])
    )
    assert "blank, as studies ran beside one another" in (folder / "report.md").read_text()
    with pytest.raises(ConfigError, match="differ in batch are not parts of one table"):
        combined([jobs[0], {**jobs[1], "batch": 5}])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["measure=rpc"], "measure=rpc is not accepted: give replay or local"),
        (["arms=[]"], r"arms=\[\] is empty"),
        (["arms=[full,xgb]"], r"arms=xgb is no change of a base.*others=.*in arms: .*no_draft"),
        (["device=null"], "measure=replay needs data= and device="),
        (["tasks=[9]"], "there is no such task"),
        (["tasks=[3]", "programs=2", "source=a100-f1"], r"pacm-a100-f1 was trained on 1 .* 3 \(its 18\)"),
        (["measure=local"], "data= is of measure=replay"),
        (["workload=[GMM/0]"], "workload= is of measure=local"),
        (["source=x86-64"], "trained on programs of a cpu, and device a100-40g is a gpu"),
        (["batch=0"], "batch=0 is not accepted"),
        (["device=a101"], "Unknown device 'a101'"),
        (["device=h100"], "0 was recorded for sm_80; device h100 is sm_90"),
        (["cache=/dev/null"], "cache=/dev/null cannot be used"),
        (["base=released"], "base=released starts from a file: source=rtx3080 is none"),
        (["overrides=['batch=2']"], "overrides hold batch, which the study sets itself"),
        (["trial_s=0"], "trial_s=0"),
        (["-m", "hydra/launcher=joblib", "seed=0,1", "measure=local", "data=[]"], "cannot run side by side"),
        (["-m", "hydra/launcher=joblib", "seed=0,1", "blocks=b"], "cannot share blocks=b. Leave blocks out"),
        (["hydra/launcher=joblib"], "together with --multirun"),
        (["-m", "hydra/launcher=slurm"], "accepted is hydra/launcher=joblib"),
        (["-m", "hydra/launcher=joblib", "hydra.launcher.n_jobs=0"], "give a whole number from 1"),
        (
            ["-m", "hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "seed=0,1", "blocks=blocks"],
            "side by side cannot share blocks=blocks",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_runs(tmp_path, capsys, words, message):
    arms = [] if any(word.startswith("arms=") for word in words) else ["arms=[full]"]
    assert main([*REPLAY, f"work_dir={tmp_path / 'study'}", *arms, *words]) == 2
    shown = capsys.readouterr()
    assert re.search(message, shown.err)
    assert not (tmp_path / "study").exists()


def test_finished_studies_on_one_page(go, tmp_path, capsys):
    go("arms=[full,no_draft]", "seed=[0]", name="sweep/0")
    go("arms=[full,no_draft]", "seed=[1]", name="sweep/1")
    assert report.main([str(tmp_path / "sweep")]) == 0
    shown = capsys.readouterr().out
    page = (tmp_path / "sweep" / "report.md").read_text()
    assert page in shown
    assert "2 blocks: 0 with seeds 0, 1" in page
    assert "![ablation](ablation.png)" in page
    assert "latency of no_draft over full's | 1.120 |" in page
    together = json.loads((tmp_path / "sweep" / "ablation.json").read_text())
    assert together["arms"]["no_draft"]["blocks"] == 2
    # Studies that are no jobs of one command stay apart.
    go("arms=[full]", "seed=[0]", name="apart/first")
    go("arms=[full]", "seed=[1]", name="apart/second")
    assert report.main([str(tmp_path / "apart")]) == 0
    assert (tmp_path / "apart" / "report.md").read_text().count("1 blocks: 0 with seeds") == 2
    # Where the page is elsewhere, it still finds the picture; a block that is there twice is refused.
    other = tmp_path / "pages" / "all.md"
    other.parent.mkdir()
    assert report.main([str(tmp_path / "sweep" / "0"), "--page", str(other)]) == 0
    assert "(../sweep/0/ablation.png)" in other.read_text()
    go("arms=[full,no_draft]", "seed=[1]", name="sweep/2")
    assert report.main([str(tmp_path / "sweep")]) == 2
    assert "have blocks in common" in capsys.readouterr().err
    # Of other records, and no study of this release.
    path = tmp_path / "sweep" / "2" / "ablation.json"
    found = json.loads(path.read_text())
    rows = [{**row, "seed": 7, "best_s": 2 * row["best_s"]} for row in found["results"]]
    path.write_text(json.dumps({**found, "results": rows}))
    assert report.main([str(tmp_path / "sweep")]) == 2
    assert "the best of 0 is not the same" in capsys.readouterr().err
    for damaged in ({"results": None}, {"results": [{}]}, {"arms": 3}):
        path.write_text(json.dumps({**found, **damaged}))
        assert report.main([str(tmp_path / "sweep")]) == 2
        assert report.main([str(tmp_path / "sweep" / "2")]) == 2 or "results" in damaged
        assert "holds another study than this release makes" in capsys.readouterr().err

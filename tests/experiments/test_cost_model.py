"""cost_model from end to end on records that nobody measured, and on real ones."""

import json
import os
from statistics import fmean

import numpy as np
import pandas as pd
import pytest
from tvm.tirx import PrimFunc

from experiments import report
from experiments.cost_model import main
from experiments.judged import judged
from pruner.analyzer.device import Device
from pruner.features.symbols import SymbolFeatures
from pruner.records.dataset import Dataset
from pruner.workload import load_task, make_task
from tests.experiments.made_up import CUDA, records
from tests.experiments.test_kin import conv
from tests.experiments.verifiers import SECONDS, Breaks, Constant

DEVICE = Device.load("a100-40g")
HERE = "tests.experiments.verifiers"
FIGURES = ("top1", "top5", "median1", "pairwise", "rank_correlation")


def seconds(rows):
    """What features say that the roofline says; programs that it holds to be impossible are equally slow."""
    found = SymbolFeatures(device=DEVICE).extract(rows).values[:, SECONDS].astype(np.float64)
    return np.minimum(1e-9 * np.exp2(found), 1.0)


def with_(dataset, **changed):
    """The data set with other columns."""
    names = (name for name in Dataset.__dataclass_fields__ if name != "tasks")
    return Dataset(dataset.tasks, **{name: getattr(dataset, name) for name in names} | changed)


def task(module, name):
    assert not isinstance(module, PrimFunc)
    return make_task(module, CUDA, name)


@pytest.fixture(scope="module")
def made_up():
    """Four tasks of which the first two are kin; every program takes as long as the roofline says."""
    tasks = [
        task(conv(), "conv"),
        task(conv(relu=True), "conv_relu"),
        load_task("GMM/0", CUDA),
        task(conv(channels=24), "wide"),
    ]
    return [records(one, 24, seed, latency=seconds)[0] for seed, one in enumerate(tasks)]


@pytest.fixture
def saved(made_up, tmp_path):
    Dataset.concat(made_up).save(tmp_path / "a.npz")
    return tmp_path


def run(folder, *words, code=0, out="out"):
    given = [f"data={folder / 'a.npz'}", "device=a100-40g", f"cache={folder / 'cache'}"]
    chosen = {word.partition("=")[0] for word in words}
    given = [word for word in given if word.partition("=")[0] not in chosen]
    assert main([*given, *words, f"work_dir={folder / out}"]) == code
    return json.loads((folder / out / "cost_model.json").read_text()) if not code else None


@pytest.mark.parametrize("split", ["task", "within", "time"])
def test_who_knows_the_answer_scores_one_and_who_knows_nothing_is_random(split, saved):
    oracle, contrary, nobody = (
        f"{HERE}.Oracle",
        f"{HERE}.Oracle verifier.sign=-1.0",
        f"{HERE}.Constant",
    )
    found = run(saved, f"verifiers=[{oracle},'{contrary}',{nobody},random]", f"split={split}", "seed=[0,1]")
    summary = found["summary"]
    assert list(summary) == ["random", oracle, contrary, nobody]
    assert set(summary[oracle]) == {"direct", "other", "all", "fit_s", "predict_s"}
    for group in ("direct", "other", "all"):
        for name in FIGURES:
            assert summary[oracle][group][name]["mean"] == pytest.approx(1.0)
            # A model that has no order is as good as any order.
            assert summary[nobody][group][name]["mean"] == pytest.approx(summary["random"][group][name])
        assert summary["random"][group]["top1"] < summary["random"][group]["top5"] < 1
        assert summary["random"][group]["pairwise"] == 0.5
        assert summary["random"][group]["rank_correlation"] == 0
        assert summary[contrary][group]["pairwise"]["mean"] == pytest.approx(0.0)
        assert summary[contrary][group]["rank_correlation"]["mean"] == pytest.approx(-1.0)
        gain = found["against"][nobody][group]["top1"]["mean"]
        assert gain == pytest.approx(1 - summary["random"][group]["top1"])
    for kind in ("csv", "md", "png"):
        assert (saved / "out" / f"cost_model.{kind}").stat().st_size > 0
    table = pd.read_csv(saved / "out" / "cost_model.csv")
    assert len(table) == len(found["results"]) == 4 * 2 * 4
    assert set(table["task"]) == {"conv", "conv_relu", "GMM/0", "wide"}


def test_figures_are_those_of_the_distinct_programs_that_ran(saved, made_up):
    found = run(saved, f"verifiers={HERE}.Constant", "split=task", "seed=0")
    assert found["programs"] == 4 * 22
    for dataset in made_up:
        mine = judged(dataset, DEVICE)
        [row] = [r for r in found["results"] if r["task"] == mine.name and r["verifier"] != "random"]
        assert row["programs"] == len(mine.latency_s)
        assert row["best_s"] == mine.latency_s.min()
        assert row["top1_s"] == pytest.approx(fmean(mine.latency_s))
        assert row["random1"] == row["top1"] == pytest.approx(mine.latency_s.min() / fmean(mine.latency_s))
        assert row["weight"] == mine.weight


@pytest.mark.parametrize("failed", [False, True])
def test_models_train_on_what_is_not_scored_failures_if_asked_and_kin_stay_together(saved, made_up, failed):
    Constant.fits.clear()
    found = run(saved, f"verifiers={HERE}.Constant", "split=task", "seed=0", f"failed={failed}")
    folds = [set(unit["scores"]) for unit in found["units"]]
    assert sorted(map(sorted, folds)) == [["GMM/0"], ["conv", "conv_relu"], ["wide"]]
    names = ["conv", "conv_relu", "GMM/0", "wide"]
    for training, scored in zip(Constant.fits, folds, strict=True):
        assert {names[i] for i in np.unique(training.group)} == set(names) - scored
        for position in np.unique(training.group):
            mine = training.group == position
            dataset = made_up[position]
            latency = dataset.latency_s[:22].copy()
            # The last two records repeat others; where both ran, they took as long.
            again = dataset.latency_s[22:]
            latency[[1, 2]] = [a if np.isnan(b) else b for a, b in zip(again, latency[[1, 2]], strict=True)]
            expected = np.where(np.isnan(latency), 0.0, np.nanmin(latency) / latency)
            trained = np.flatnonzero((expected > 0) | failed)
            assert training.labels[mine] == pytest.approx(expected[trained])
            assert np.diff(training.order[mine]).tolist() == np.diff(trained).tolist()


def test_a_share_of_the_records_trains(saved):
    Constant.fits.clear()
    settings = ("split=within", "seed=0", "train_fraction=0.25", "failed=true")
    found = run(saved, f"verifiers={HERE}.Constant", *settings)
    [training] = Constant.fits
    assert np.bincount(training.group).tolist() == [3, 3, 3, 3]  # of eleven each
    assert found["units"][0]["trained"] == 12
    assert found["units"][0]["scored"] == 4 * 11


def test_settings_are_chosen_in_validation(saved, tmp_path, monkeypatch, capsys):
    (tmp_path / "tried.yaml").write_text(
        f"{HERE}.Oracle:\n  - [verifier.sign=-1.0]\n  - []\n  - [verifier.sign=-2.0]\nxgb: [[]]\n"
    )
    monkeypatch.setattr("experiments.entries._TRIED", tmp_path / "tried.yaml")
    found = run(saved, f"verifiers={HERE}.Oracle", "split=task", "seed=0", "settings=3", "fit_seconds=7")
    for unit in found["units"]:
        assert unit["chosen"] == []
        assert [one["settings"] for one in unit["tried"]] == [
            ["verifier.sign=-1.0"],
            [],
            ["verifier.sign=-2.0"],
        ]
        assert [one["pairwise"] for one in unit["tried"]] == pytest.approx([0.0, 1.0, 0.0])
    assert found["summary"][f"{HERE}.Oracle"]["all"]["top1"]["mean"] == 1.0
    # What the entry itself sets is not up for choice; here nothing is left to choose from.
    found = run(
        saved,
        f"verifiers=['{HERE}.Oracle verifier.sign=-1.0']",
        "split=within",
        "seed=0",
        "settings=2",
        out="b",
    )
    assert found["units"][0]["tried"] == []
    assert found["summary"][f"{HERE}.Oracle verifier.sign=-1.0"]["all"]["pairwise"]["mean"] == pytest.approx(
        0.0
    )
    run(saved, f"verifiers={HERE}.Constant", "split=within", "seed=0", "settings=2", out="c")
    few = f"Fewer settings to choose from than the others' 2: {HERE}.Constant (1)"
    assert few in (saved / "c" / "cost_model.md").read_text()
    assert run(saved, "verifiers=xgb", "settings=2", code=2) is None
    assert "settings=2 is not accepted: tried.yaml has 1 for xgb" in capsys.readouterr().err


def test_a_study_that_was_cut_off_goes_on(saved, capsys):
    words = (f"verifiers=[{HERE}.Breaks]", "split=task", "seed=[0,1]")
    Breaks.left = 4
    assert (
        main(
            [
                f"data={saved / 'a.npz'}",
                "device=a100-40g",
                f"cache={saved / 'c'}",
                *words,
                f"work_dir={saved / 'out'}",
            ]
        )
        == 130
    )
    assert not (saved / "out" / "cost_model.json").exists()
    Breaks.left = 2
    found = run(saved, *words)
    assert Breaks.left == 0
    assert capsys.readouterr().out.count("  kept\n") == 4
    assert found["summary"][f"{HERE}.Breaks"]["all"]["pairwise"]["mean"] == pytest.approx(1.0)
    # Other settings, another seed and other records make other units.
    for other in (("fit_seconds=9",), ("seed=2",), ("train_fraction=0.9",), ("tasks=[conv,wide]",)):
        Breaks.left = 0
        replaced = [word for word in words if word.partition("=")[0] != other[0].partition("=")[0]]
        assert run(saved, *replaced, *other, code=130) is None


@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "short", "NaN", "seconds"])
def test_a_damaged_unit_is_named(damage, saved, capsys):
    words = (f"verifiers=[{HERE}.Oracle]", "split=within", "seed=0", f"blocks={saved / 'blocks'}")
    run(saved, *words)
    [path] = (saved / "blocks").glob("*.npz")
    content = path.read_bytes()
    with np.load(path) as found:
        scores, said = found["scores"], found["said"]
    if damage in ("cut", "empty"):
        path.write_bytes(content[:100] if damage == "cut" else b"")
    elif damage == "flipped":
        start = content.index(b"scores.npy") + 40
        path.write_bytes(content[:start] + b"\xff" * 8 + content[start + 8 :])
    elif damage == "seconds":
        np.savez(path, scores=scores, said=np.array(json.dumps({**json.loads(str(said)), "fit_s": "x"})))
    else:
        np.savez(path, scores=scores[:-1] if damage == "short" else scores * np.nan, said=said)
    capsys.readouterr()
    run(saved, *words, code=2)
    error = capsys.readouterr().err
    assert f"{path} holds no predictions" in error
    assert len(error.splitlines()) == 1


def test_several_shares_make_a_learning_curve(saved, capsys):
    words = ("-m", f"verifiers=[xgb,{HERE}.Oracle]", "split=within", "seed=[0,1]", "train_fraction=0.2,1.0")
    given = [f"data={saved / 'a.npz'}", "device=a100-40g", f"cache={saved / 'cache'}"]
    assert main([*given, *words, f"work_dir={saved / 'sweep'}"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(saved / "sweep")
    jobs = [json.loads((saved / "sweep" / str(i) / "cost_model.json").read_text()) for i in (0, 1)]
    assert [job["train_fraction"] for job in jobs] == [0.2, 1.0]
    assert report.main([str(saved / "sweep")]) == 0
    found = json.loads((saved / "sweep" / "report.json").read_text())
    for row in found["curves"]:
        job = next(job for job in jobs if job["train_fraction"] == row["train_fraction"])
        for name in FIGURES:
            # Over seeds here and over tasks and seeds there, so that only the means are one.
            mine, theirs = row[name], job["summary"][row["verifier"]][row["group"]][name]
            if row["verifier"] != "random":
                mine, theirs = mine["mean"], theirs["mean"]
            assert mine == pytest.approx(theirs)
    [less] = [row for row in found["less_data"] if row["group"] == "all"]
    xgb = jobs[0]["summary"]["xgb"]["all"]["top1"]["mean"]
    assert (less["verifier"], less["train_fraction"], less["against"]) == ("xgb", 0.2, f"{HERE}.Oracle")
    assert less["top1"]["mean"] == pytest.approx(xgb - 1)
    assert (saved / "sweep" / "report.png").stat().st_size > 0
    (saved / "sweep" / "2").mkdir()
    other = json.dumps({**jobs[0], "split": "task", "train_fraction": 0.5})
    (saved / "sweep" / "2" / "cost_model.json").write_text(other)
    assert report.main([str(saved / "sweep")]) == 2
    assert "differ in more than train_fraction: split=task and within" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["data=[]"], "data=[] is empty"),
        (["verifiers=[]"], "verifiers=[] is empty"),
        (["verifiers=abc"], "there is no verifier abc"),
        (["verifiers=a.b.C"], "Cannot load 'a.b.C'"),
        (["verifiers=pruner.analyzer.draft.NoDraft"], "pruner.analyzer.draft.NoDraft"),
        (["verifiers=['xgb depth=3']"], "depth=3 is no setting of a verifier. Give an option"),
        (["verifiers=['xgb verifier.deep=3']"], "Unknown setting 'verifier.deep'"),
        (["verifiers=['pacm verifier.fit_seconds=3']"], "verifier.fit_seconds is not the verifier's here"),
        (["verifiers=['pacm verifier.resume=a']"], "verifier.resume is not the verifier's here"),
        ([f"verifiers={HERE}.Short"], "predict gave an array of shape (3,) for 44 candidates"),
        ([f"verifiers={HERE}.NaN"], "verifier NaN: predict gave NaN"),
        ([f"verifiers=['{HERE}.Raises verifier.where=fit']"], "fit raised ValueError: cannot (verifiers.py"),
        ([f"verifiers=['{HERE}.Raises verifier.where=predict']"], "predict raised ValueError: cannot (verif"),
        ([f"verifiers={HERE}.OneName"], "the features of a verifier are 'symbols': give a tuple"),
        (["split=half"], "split=half is not accepted: give one of task, within, time"),
        (["train_fraction=0.0"], "train_fraction=0.0 is not accepted"),
        (["train_fraction=1.5"], "train_fraction=1.5 is not accepted: give a share of at most 1"),
        (["settings=0"], "settings=0 is not accepted"),
        (["seed=-1"], "seed=-1 is not accepted"),
        (["fit_seconds=0.0"], "fit_seconds=0.0 is not accepted"),
        (["tasks=abc"], "tasks=abc: there is no such task; there are conv"),
        (["device=rtx3080"], "recorded for sm_80; device rtx3080 is sm_86"),
        (["device=x86-64"], "device x86-64 is a cpu"),
        (["tasks=[conv]", "split=task"], "Give more data, or split=within"),
        (["tasks=[conv,conv_relu]", "split=task"], "Give more data, or split=within"),
        (["data={empty}"], "has a valid record"),
        (["data={failed}"], "has a valid record"),
        (["data={one}"], "there is nothing to learn. Give more records"),
        (["data={equal}", "split=time"], "no task has two programs to score that differ in latency"),
        (["data={mixed}"], "the records are of 2 devices"),
    ],
)
def test_what_cannot_be_judged_is_explained(words, message, made_up, saved, capsys):
    first, second = made_up[0], made_up[2]
    ran = first[first.failure == ""]
    empty = first[np.zeros(0, dtype=np.int64)]
    elsewhere = with_(second, device=np.array(["b100"] * len(second)))
    sets = {
        "empty": empty,
        "failed": first[first.failure != ""],
        "one": ran[:1],
        "equal": with_(ran[:4], latency_s=np.array([1.0, 2.0, 3.0, 3.0])),
        "mixed": Dataset.concat([first, elsewhere]),
    }
    for name, dataset in sets.items():
        dataset.save(saved / f"{name}.npz")
    paths = {name: saved / f"{name}.npz" for name in sets}
    given = [word.format(**paths) for word in words]
    default = [] if any(word.startswith("split=") for word in given) else ["split=within"]
    default += [] if any(word.startswith("verifiers=") for word in given) else [f"verifiers={HERE}.Oracle"]
    run(saved, *given, *default, code=2)
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.skipif("PRUNER_DATA" not in os.environ, reason="PRUNER_DATA does not say where the records are")
def test_training_lifts_top_1_on_real_tasks_that_were_held_out(tmp_path):
    data = f"data={os.environ['PRUNER_DATA']}/metaschedule/a100-resnet34"
    trees = "xgb verifier.prior=0.0"
    found = run(tmp_path, data, f"verifiers=['{trees}']", "tasks=[0,1,2,7,10,13]", "split=task", "seed=[0,1]")
    learnt, chance = (found["summary"][name]["direct"] for name in (trees, "random"))
    # Without the formula the trees know nothing but what other tasks taught them.
    assert learnt["top1"]["low"] > chance["top1"] + 0.3
    assert learnt["pairwise"]["low"] > 0.7

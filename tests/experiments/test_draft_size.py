"""draft_size against a brute force that knows nothing of it, on a made-up data set."""

import json
import math
import os
from statistics import fmean, geometric_mean

import numpy as np
import pytest
from scipy.stats import spearmanr
from tvm.target import Target

from experiments.draft_size import main
from experiments.judged import group_of, judged
from pruner.analyzer.device import Device
from pruner.analyzer.draft import DraftModel
from pruner.analyzer.roofline import RooflineDraft
from pruner.analyzer.symbol import SymbolDraft
from pruner.records.database import plain
from pruner.records.dataset import NO_ROW, Dataset, RecordedTask, object_column
from pruner.workload import load_task, make_task
from tests.experiments.brute_force import all_drafts
from tests.experiments.made_up import CUDA, WEIGHTS, records
from tests.run_util import matmul


@pytest.fixture(scope="module")
def two_tasks():
    """Data sets of a convolution and of a matrix multiplication, and their spaces."""
    return {name: records(load_task(name, CUDA), 18, seed) for seed, name in enumerate(WEIGHTS)}


def by_hand(dataset, space, model):
    """Scores and latencies of the distinct programs that ran, with dictionaries."""
    times = {}
    for row, latency in zip(dataset.population(space), dataset.latency_s, strict=True):
        if not math.isnan(latency):
            times.setdefault(row.key, (row, []))[1].append(latency)
    rows = [row for row, _ in times.values()]
    scores = [float(model.score(space.encode(row.materialise().trace))[0]) for row in rows]
    return scores, [fmean(found) for _, found in times.values()]


def kth(scores, latency, size, k):
    """The k-th best latency in the draft, None where there is none."""
    return all_drafts(scores, latency, size, k) if k <= size <= len(latency) else None


def run(folder, *words):
    assert main([*words, "device=a100-40g", f"work_dir={folder / 'out'}"]) == 0
    return json.loads((folder / "out" / "draft_size.json").read_text())


def test_every_figure_is_the_brute_forces(two_tasks, tmp_path, capsys):
    Dataset.concat([dataset for dataset, _ in two_tasks.values()]).save(tmp_path / "a.npz")
    models = {
        "roofline": RooflineDraft(device=Device.load("a100-40g")),
        "symbol": SymbolDraft(device=Device.load("a100-40g")),
        "symbol no_compute": SymbolDraft(device=Device.load("a100-40g"), penalties="no_compute"),
    }
    words = ["drafts=[symbol]", "penalties=[all,no_compute]", "sizes=[3,6]", "shares=[0.5]"]
    found = run(tmp_path, f"data={tmp_path / 'a.npz'}", *words)
    more = run(tmp_path, f"data={tmp_path / 'a.npz'}", "drafts=[roofline]", "sizes=[3]", "shares=[]")
    assert capsys.readouterr().out.splitlines()[-1] == str(tmp_path / "out")
    hand = {
        (name, draft): by_hand(*two_tasks[name], model)
        for name in two_tasks
        for draft, model in models.items()
    }
    rows = {(r["task"], r["draft"], r["size"], r["share"]): r for r in found["results"] + more["results"]}
    for (name, draft), (scores, latency) in hand.items():
        n = len(latency)
        sizes = [(3, None)] if draft == "roofline" else [(3, None), (6, None), (math.ceil(n / 2), 0.5)]
        for size, share in sizes:
            row = rows[name, draft, size, share]
            assert row["programs"] == n == 12
            for k in (1, 5, 20):
                inside = kth(scores, latency, size, k)
                expected = None if inside is None else pytest.approx(min(latency) / inside)
                assert row[f"best{k}"] == expected
            assert row["random1"] == pytest.approx(min(latency) / all_drafts([0] * n, latency, size, 1))
            assert row["rank_correlation"] == pytest.approx(spearmanr(scores, latency).statistic)
    summary = found["summary"]["symbol no_compute"]
    for group, names in {"direct": ["C2D/0"], "other": ["GMM/0"], "all": list(WEIGHTS)}.items():
        hands = [(WEIGHTS[name], *hand[name, "symbol no_compute"]) for name in names]
        best = sum(w * min(latency) for w, _, latency in hands)
        # A sixteenth and a 64th of twelve programs are one.
        inside = sum(w * kth(scores, latency, 1, 1) for w, scores, latency in hands)
        chance = sum(w * fmean(latency) for w, _, latency in hands)
        assert summary[group]["best1_at_1_16"] == pytest.approx(best / inside)
        assert summary[group]["best1_at_1_64"] == pytest.approx(best / inside)
        assert summary[group]["random"] == pytest.approx(best / chance)
        one = [min(latency) / kth(scores, latency, 1, 1) for _, scores, latency in hands]
        lucky = [min(latency) / fmean(latency) for _, _, latency in hands]
        assert summary[group]["mean_best1_at_1_16"] == pytest.approx(fmean(one))
        assert summary[group]["mean_random1_at_1_64"] == pytest.approx(fmean(lucky))
        regrets = [max(1 - a, 0.005) / max(1 - b, 0.005) for a, b in zip(one, lucky, strict=True)]
        assert summary[group]["regret_at_1_64"] == pytest.approx(geometric_mean(regrets))
    half = next(r for r in found["groups"] if (r["group"], r["draft"], r["share"]) == ("all", "symbol", 0.5))
    hands = [(WEIGHTS[name], *hand[name, "symbol"]) for name in WEIGHTS]
    assert half["best5"] == pytest.approx(
        sum(w * min(latency) for w, _, latency in hands)
        / sum(w * kth(scores, latency, 6, 5) for w, scores, latency in hands)
    )
    assert half["best20"] is None  # no task has twenty programs
    for kind in ("csv", "md", "png"):
        assert (tmp_path / "out" / f"draft_size.{kind}").stat().st_size > 0


def test_without_drafts_every_model_is_judged_and_none_is_chance(two_tasks, tmp_path):
    two_tasks["GMM/0"][0].save(tmp_path / "a.npz")
    found = run(tmp_path, f"data={tmp_path / 'a.npz'}", "sizes=[]")
    assert set(found["summary"]) == {"symbol", "psa", "roofline", "none"}
    for row in found["results"]:
        if row["draft"] == "none":
            assert row["best1"] == row["random1"]
            assert row["rank_correlation"] is None


class ByPosition(DraftModel):
    """A draft of somebody else's: rows score what they hold."""

    def score(self, population):
        return population.decisions.sum(axis=1).astype(float)


def test_a_draft_model_of_ones_own_is_judged(two_tasks, tmp_path):
    dataset, _ = two_tasks["GMM/0"]
    dataset.save(tmp_path / "a.npz")
    name = "tests.experiments.test_draft_size.ByPosition"
    found = run(tmp_path, f"data={tmp_path / 'a.npz'}", f"drafts=[{name},none]")
    task = judged(dataset, Device.load("a100-40g"))
    expected = spearmanr(task.rows.decisions.sum(axis=1), task.latency_s).statistic
    rows = [row for row in found["results"] if row["draft"] == name]
    assert rows
    assert all(row["rank_correlation"] == pytest.approx(expected) for row in rows)


def test_nobody_needs_to_read_on(two_tasks, tmp_path, monkeypatch):
    two_tasks["GMM/0"][0].save(tmp_path / "a.npz")
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as closed:
        monkeypatch.setattr("sys.stdout", closed)
        run(tmp_path, f"data={tmp_path / 'a.npz'}", "drafts=none")


def test_tasks_that_never_ran_are_named(two_tasks, tmp_path, capsys):
    good, _ = two_tasks["GMM/0"]
    bad, _ = two_tasks["C2D/0"]
    Dataset.concat([good, bad[bad.failure != ""]]).save(tmp_path / "a.npz")
    found = run(tmp_path, f"data={tmp_path / 'a.npz'}", "drafts=none")
    assert found["left_out"] == ["C2D/0"]
    assert {row["task"] for row in found["results"]} == {"GMM/0"}
    assert "C2D/0  left out: no valid record of it can be replayed" in capsys.readouterr().out
    assert (
        "Left out, without a valid record that can be replayed: C2D/0."
        in (tmp_path / "out" / "draft_size.md").read_text()
    )


def test_records_with_traces_are_scored_as_those_with_rows(two_tasks):
    dataset, space = two_tasks["GMM/0"]
    traces = [json.dumps(plain(row.decided.as_json())) for row in dataset.population(space)]
    odd = np.arange(len(dataset)) % 2 == 1
    columns = {name: getattr(dataset, name) for name in Dataset.__dataclass_fields__ if name != "tasks"}
    columns["sketch_ids"] = np.where(odd, NO_ROW, dataset.sketch_ids)
    columns["traces"] = object_column([text if o else None for text, o in zip(traces, odd, strict=True)])
    device = Device.load("a100-40g")
    model = RooflineDraft(device=device)
    mixed, plain_rows = judged(Dataset(dataset.tasks, **columns), device), judged(dataset, device)
    order, other = np.argsort(mixed.latency_s), np.argsort(plain_rows.latency_s)
    assert mixed.latency_s[order] == pytest.approx(plain_rows.latency_s[other])
    assert (model.score(mixed.rows)[order] == model.score(plain_rows.rows)[other]).all()
    # A trace that TVM does not take is left out and counted.
    columns["traces"] = object_column(
        [text.replace("Split", "Unsplit") if text else None for text in columns["traces"]]
    )
    broken = Dataset(dataset.tasks, **columns)
    valid = dataset.failure == ""
    assert judged(broken, device).unscored == int((odd & valid).sum())
    assert judged(broken[odd], device) is None


def test_cpu_programs_are_scored_for_their_cores_and_vectors(two_tasks):
    narrow = Target({"kind": "llvm", "mcpu": "x86-64", "num-cores": 1})
    dataset, _ = records(make_task(matmul(16), narrow, "mm"), 12, 0)
    seen = judged(dataset, Device.load("x86-64")).device
    assert (seen.cores, seen.vector_bytes) == (1, 16)


def test_groups_are_told_by_the_program():
    def group(name):
        task = load_task(name, CUDA)
        return group_of(RecordedTask(name, task.mod, CUDA))

    assert [group(name) for name in ("C2D/0", "DEP/0", "CBR/0", "C1D/0")] == ["direct"] * 4
    assert [group(name) for name in ("GMM/0", "SFM/0", "NRM/0", "TBG/0")] == ["other"] * 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "data=[] is empty"),
        (["data=nowhere"], "nowhere is not there"),
        (["data={good}", "device=rtx3080"], "recorded for sm_80; device rtx3080 is sm_86"),
        (["data={good}", "device=x86-64"], "target of kind cuda; device x86-64 is a cpu"),
        (["data={good}", "device=abc"], "Unknown device 'abc'"),
        (["data={good}", "drafts=abc"], "Unknown draft 'abc'"),
        (["data={good}", "device=x86-64", "drafts=psa"], "psa"),
        (["data={good}", "shares=2.0"], "shares=2.0 is not accepted"),
        (["data={good}", "sizes=0"], "sizes=0 is not accepted"),
        (["data={good}", "sizes=99999999999999999999"], "is not accepted: give at most 1,000,000,000"),
        (["data={good}", "penalties=half"], "accepted are all, no_compute"),
        (["data={good}", "tasks=abc"], "tasks=abc: there is no such task; there are GMM/0"),
        (["data={good}", "recorded=abc"], "is in no device's name; the records are of a100; b100"),
        (["data={good}"], "are of 2 devices"),
        (["data={failed}"], "has a valid record"),
    ],
)
def test_what_cannot_be_judged_is_explained(words, message, two_tasks, tmp_path, capsys):
    dataset, _ = two_tasks["GMM/0"]
    columns = {name: getattr(dataset, name) for name in Dataset.__dataclass_fields__ if name != "tasks"}
    columns["device"] = np.where(np.arange(len(dataset)) < 9, "a100", "b100")
    Dataset(dataset.tasks, **columns).save(tmp_path / "good.npz")
    dataset[dataset.failure != ""].save(tmp_path / "failed.npz")
    paths = {name: tmp_path / f"{name}.npz" for name in ("good", "failed")}
    given = [word.format(**paths) for word in words]
    recorded = ["recorded=a100"] if any("device=" in word for word in words) else []
    default = [] if any(word.startswith("device=") for word in words) else ["device=a100-40g"]
    assert main([*given, *recorded, *default, f"work_dir={tmp_path / 'out'}"]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif("PRUNER_DATA" not in os.environ, reason="PRUNER_DATA does not say where the records are")
def test_chance_on_real_records_is_what_their_description_says(tmp_path):
    found = run(
        tmp_path, f"data={os.environ['PRUNER_DATA']}/metaschedule/a100-resnet34", "drafts=none", "sizes=[]"
    )
    assert found["left_out"] == ["11"]
    figures = found["summary"]["none"]
    assert figures["direct"]["tasks"] == figures["winograd"]["tasks"] == 7
    # The description counts repeated records twice.
    assert figures["direct"]["random"] == pytest.approx(0.880, abs=0.004)
    assert figures["direct"]["random_at_1_64"] == pytest.approx(0.707, abs=0.004)
    assert figures["winograd"]["random"] == pytest.approx(0.990, abs=0.001)
    assert figures["winograd"]["random_at_1_64"] == pytest.approx(0.979, abs=0.001)

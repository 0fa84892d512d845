"""Collections: what is chosen and kept, how they go on, what they refuse."""

import json

import numpy as np
import pytest
from tvm_ffi import structural_hash

from experiments import collect
from experiments.collect import TARGETS, main
from experiments.collecting import CHECKED, Chosen, choose, measured
from experiments.settings import settings
from pruner.analyzer.device import Device
from pruner.analyzer.roofline import RooflineDraft
from pruner.records.dataset import Dataset
from pruner.search.space import Space
from pruner.testing.dummy import DummyMeasurer
from pruner.workload import make_task, resolve_target
from tests.experiments.dummy_device import latency as dummy_latency
from tests.run_util import latency, matmul

DUMMY = "overrides=['measure=custom','measure._target_=tests.experiments.dummy_device.Dummy']"
TINY = ["tasks=GMM/0", "programs=10", DUMMY]


@pytest.fixture(scope="module")
def space():
    target, _ = resolve_target({"kind": "llvm", "num-cores": 2}, 2)
    return Space.of(make_task(matmul(16), target))


def draft(**settings):
    return RooflineDraft(device=Device.load("x86-64"), **settings)


def test_half_is_random_and_half_is_drafted(space):
    model = draft(explored=600, size=40)
    chosen = choose(space, model, 21, np.random.default_rng(0))
    assert [one.random for one in chosen].count(True) == 11
    programs = {structural_hash(one.candidate.materialise().mod) for one in chosen}
    assert len(programs) == len(chosen) == 21
    assert [one.random for one in chosen] != sorted((one.random for one in chosen), reverse=True)

    def scores(random):
        rows = [one.candidate.key for one in chosen if one.random == random]
        everything = space.enumerate(10**6)
        known = {key.tobytes(): i for i, key in enumerate(everything.keys())}
        return model.score(everything[np.array([known[key] for key in rows])])

    # What the draft keeps is better by its own formula.
    assert np.median(scores(False)) < np.median(scores(True))
    again = choose(space, model, 21, np.random.default_rng(0))
    assert [one.candidate.key for one in again] == [one.candidate.key for one in chosen]


def test_a_small_space_gives_what_it_has():
    target, _ = resolve_target({"kind": "llvm", "num-cores": 2}, 2)
    tiny = Space.of(make_task(matmul(2), target))
    chosen = choose(tiny, draft(), 5000, np.random.default_rng(0))
    programs = {structural_hash(one.candidate.materialise().mod) for one in chosen}
    assert 2 < len(programs) == len(chosen) < 2500


def test_the_fastest_are_compared_and_wrong_ones_fail(space):
    chosen = choose(space, draft(explored=600), 20, np.random.default_rng(1))
    order = sorted(chosen, key=lambda one: latency(one.candidate))
    wrong = [order[0].candidate, order[3].candidate, order[CHECKED + 1].candidate]
    measurer = DummyMeasurer(latency=latency, wrong=lambda candidate: candidate in wrong)
    found = dict(zip((one.candidate.key for one in chosen), measured(measurer, chosen, 7), strict=True))
    ranked = [found[one.candidate.key] for one in order]
    assert [m.failure for m in ranked[: CHECKED + 3]] == [
        "wrong",
        *[None] * 2,
        "wrong",
        *[None] * 2,
        "wrong",
        None,
    ]
    # As many as are asked for were found to be right, and no more were looked at.
    assert [m.compared for m in ranked].count(True) == CHECKED
    assert not any(m.compared or m.failure for m in ranked[CHECKED + 3 :])
    assert [m.latency_s for m in ranked[4:6]] == [latency(one.candidate) for one in order[4:6]]


def test_failures_are_records_too(space):
    chosen = [Chosen(one.candidate, True) for one in choose(space, draft(), 6, np.random.default_rng(2))]
    lost = chosen[2].candidate
    measurer = DummyMeasurer(latency=latency, failure=lambda c: "timeout" if c is lost else None)
    assert [m.failure for m in measured(measurer, chosen, 4)] == [None, None, "timeout", None, None, None]


def run(folder, *words):
    return main([*TINY, *words, f"work_dir={folder}"])


def test_a_collection_is_two_data_sets_with_its_machine(tmp_path, capsys):
    assert run(tmp_path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("1/2  GMM/0@x86-64  10 programs")
    assert lines[-1] == str(tmp_path)
    random, drafted = (Dataset.load(tmp_path / f"{name}.npz") for name in ("random", "drafted"))
    assert [task.id for task in random.tasks] == [task.id for task in drafted.tasks]
    assert [task.id for task in random.tasks] == ["GMM/0@x86-64", "GMM/0@native"]
    assert int(random.tasks[0].target.attrs["num-cores"]) == 1
    assert str(random.tasks[0].target.attrs["mcpu"]) == "x86-64"
    assert random.tasks[1].target.attrs["mcpu"] == Device.load("auto").target["mcpu"]
    fingerprint = Device.load("auto").fingerprint
    for dataset in (random, drafted):
        assert len(dataset) == 10
        for task in dataset.tasks:
            records = dataset.of(task.id)
            assert len(records.devices) == 1
            assert fingerprint in records.devices[0]
            # Rows lead back to the programs that were measured.
            rows = records.population(Space.of(make_task(task.mod, task.target)))
            assert records.latency_s == pytest.approx([dummy_latency(c) / 2 for c in rows])
    both = Dataset.concat([random.of("GMM/0@native"), drafted.of("GMM/0@native")])
    assert len(both.population(Space.of(make_task(both.tasks[0].mod, both.tasks[0].target))).hashes()) == 10
    text = (tmp_path / "README.md").read_text()
    assert fingerprint in text
    assert "20 programs of 1 tasks, 0 of them failed" in text


def test_a_collection_goes_on_after_its_last_block(tmp_path, capsys, monkeypatch):
    made = []
    real = collect.make

    def cut(cfg, block, bench, machine):
        if len(made) == 1:
            raise KeyboardInterrupt
        made.append(block.name)
        return real(cfg, block, bench, machine)

    monkeypatch.setattr(collect, "make", cut)
    assert run(tmp_path) == 130
    kept = {path.name: path.read_bytes() for path in (tmp_path / ".blocks").iterdir()}
    monkeypatch.setattr(collect, "make", real)
    capsys.readouterr()
    assert run(tmp_path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "1/2  GMM/0@x86-64  kept"
    assert lines[1].startswith("2/2  GMM/0@native  10 programs")
    assert all((tmp_path / ".blocks" / name).read_bytes() == held for name, held in kept.items())
    assert len(Dataset.load(tmp_path / "random.npz").tasks) == 2


def test_damaged_blocks_are_named(tmp_path, capsys):
    assert run(tmp_path) == 0
    block = tmp_path / ".blocks" / "GMM%2F0@native.json"
    for text in ("{}", "[]", ""):
        block.write_text(text)
        assert run(tmp_path) == 2
        assert f"the block {block} is damaged" in capsys.readouterr().err
    block.unlink()
    assert run(tmp_path) == 0
    (tmp_path / ".blocks" / "GMM%2F0@native.random.npz").write_bytes(b"PK")
    assert run(tmp_path) == 2
    assert f"the block {block} is damaged" in capsys.readouterr().err


def test_what_is_refused_claims_no_folder(tmp_path, capsys):
    assert run(tmp_path, "draft=psa") == 2
    assert "GPU" in capsys.readouterr().err
    assert run(tmp_path, "minutes=1e-9") == 0


def test_time_ends_between_blocks(tmp_path, capsys):
    assert run(tmp_path, "minutes=1e-9") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        "The 1e-09 minutes are over.",
        f"2 of 2 blocks are missing; the same command with blocks={tmp_path / '.blocks'} makes them.",
    ]
    assert not (tmp_path / "random.npz").exists()


def test_other_machines_and_settings_are_refused(tmp_path, capsys):
    assert run(tmp_path, "minutes=1e-9") == 0
    assert run(tmp_path, "programs=12") == 2
    assert "was begun with programs=10, here programs=12. Choose another folder" in capsys.readouterr().err
    path = tmp_path / ".blocks" / "collection.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "machine": "a toaster"}))
    assert run(tmp_path) == 2
    err = capsys.readouterr().err
    assert "begun on another machine" in err
    assert "it was a toaster; here it is" in err
    path.write_text("[]")
    assert run(tmp_path) == 2
    assert "is of no collection" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("targets=cuda", "targets=cuda is not accepted: give x86-64 or native"),
        ("tasks=[]", "tasks=[] is empty"),
        ("tasks=ABC/0", 'workload "ABC/0" is unknown'),
        ("programs=1", "programs=1 is not accepted"),
        ("minutes=-1", "minutes=-1 is not accepted"),
        ("draft=best", "Unknown draft 'best'"),
        ("overrides=['measure=compile']", "times nothing"),
        ("overrides=['target=llvm']", "overrides hold target, which the study sets itself"),
        ("overrides=['draft=symbol']", "overrides hold draft, which the study sets itself"),
        ("overrides=['device=x86-64']", "overrides hold device, which the study sets itself"),
    ],
)
def test_bad_settings_are_refused(word, message, tmp_path, capsys):
    assert run(tmp_path, word) == 2
    assert message in capsys.readouterr().err


def test_default_tasks_are_not_those_of_compare():
    tasks = settings("collect", []).tasks
    assert len(tasks) >= 24
    assert not set(tasks) & set(settings("compare", []).workload)
    assert len({task.split("/")[0] for task in tasks}) >= 12
    assert set(settings("collect", []).targets) == set(TARGETS)

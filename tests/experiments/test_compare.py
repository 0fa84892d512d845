"""The command, on a dummy device, and once for real."""

import csv
import json

import pytest

from experiments import compare
from experiments.block import Block
from pruner.records.journal import NAME, Journal

DEVICE = "tests.experiments.dummy_device"
DUMMY = f"overrides=['device=x86-64','measure=custom','measure._target_={DEVICE}.Dummy']"


@pytest.fixture
def go(tmp_path, capsys):
    """Runs the command; gives its exit code, the lines it printed and the document."""

    def run(*words):
        code = compare.main([f"work_dir={tmp_path / 'out'}", *words])
        shown = capsys.readouterr()
        path = tmp_path / "out" / "compare.json"
        return (
            code,
            (shown.out + shown.err).splitlines(),
            json.loads(path.read_text()) if path.exists() else None,
        )

    return run


def test_a_study_on_a_dummy_device(go, tmp_path):
    arms = tmp_path / "arms"
    arms.mkdir()
    (arms / "drawn.yaml").write_text("overrides: [search=random]\n")
    (arms / "broken.yaml").write_text(f"overrides: [measure._target_={DEVICE}.Broken]\n")
    words = [
        "workload=GMM/0",
        "seed=0",
        "trials=15",
        f"arms=[pruner,{arms / 'drawn.yaml'}]",
        "extra_workload=GMM/0",
    ]
    code, lines, document = go(*words, f"extra=[{arms / 'broken.yaml'}]", DUMMY)
    assert code == 0
    folder = tmp_path / "out"
    assert lines[-1] == str(folder)
    assert {path.name for path in folder.iterdir()} == {
        "compare.json", "compare.csv", "compare.md", "compare.png", "GMM-0-seed0.json", "runs"
    }  # fmt: skip

    # What the arms themselves measured, doubled, is what the rows show.
    rows = {row["arm"]: row for row in document["results"]}
    assert list(rows) == ["pruner", "drawn", "broken"]
    for arm in ("pruner", "drawn"):
        trials = Journal.read(folder / "runs" / "GMM-0-seed0" / arm / NAME).trials
        assert len(trials) == rows[arm]["trials"] == 15
        assert rows[arm]["latency_s"] == pytest.approx(2 * min(trial.latency_s for trial in trials))
        curve = rows[arm]["curve"]
        assert curve[0][:2] == [1, trials[0].elapsed_s]
        assert curve[0][2] == pytest.approx(2 * trials[0].latency_s)
        assert curve[-1][:2] == [15, rows[arm]["seconds"]["total"]]
        assert curve == sorted(curve, key=lambda point: -point[2])
        # The clock is that of the whole process, imports included.
        stages = dict(rows[arm]["seconds"])
        total = stages.pop("total")
        assert sum(stages.values()) == pytest.approx(total)
        assert trials[-1].elapsed_s < total
    assert "the board is gone" in rows["broken"]["error"]
    assert any("broken FAILED" in line for line in lines)

    found = document["against"]["drawn"]
    assert found["latency"]["mean"] == pytest.approx(rows["drawn"]["latency_s"] / rows["pruner"]["latency_s"])
    assert found["latency"]["low"] is None
    assert document["machine"]
    assert document["command"].startswith("python -m experiments.compare work_dir=")
    assert document["summary"]["seconds_ratio_vs_stock"]["mean"] is None
    with (folder / "compare.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [row["arm"] for row in table] == ["pruner", "drawn", "broken"]
    assert float(table[1]["latency_s"]) == pytest.approx(rows["drawn"]["latency_s"])
    assert "| GMM/0 | 0 | broken | - | failed |" in (folder / "compare.md").read_text()
    assert (folder / "compare.png").read_bytes().startswith(b"\x89PNG")

    # The same command again, without the broken arm, makes nothing.
    before = (folder / "GMM-0-seed0.json").read_bytes()
    code, lines, document = go(*words, "extra=[]", DUMMY)
    assert code == 0
    assert "GMM/0 seed 0  kept" in lines
    assert (folder / "GMM-0-seed0.json").read_bytes() == before
    assert [row["arm"] for row in document["results"]] == ["pruner", "drawn"]

    # Other trials do not go into the same blocks.
    code, lines, _ = go(*words, "trials=16", "extra=[]", DUMMY)
    assert code == 2
    assert "made with trials=15, here trials=16" in lines[-1]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("workload=[]", "workload=[] is empty"),
        ("seed=[]", "seed=[] is empty"),
        ("seed=[-1]", "seed=-1 is not accepted"),
        ("trials=0", "trials=0 is not accepted"),
        ("arms=[pruner,nobody]", "Unknown arm 'nobody'"),
        ("extra=[stock]", "stock is given twice"),
        ("workload=[GMM/0,GMM/99]", 'workload "GMM/99" is unknown'),
        ("overrides=['serch=random']", "Unknown setting 'serch'"),
        ("blocks=/dev/null/here", "blocks=/dev/null/here cannot be used"),
    ],
)
def test_bad_settings_are_told_before_anything_runs(go, tmp_path, word, message):
    code, lines, document = go(word)
    assert (code, document) == (2, None)
    assert message in lines[-1]
    assert not (tmp_path / "out" / "runs").exists()


@pytest.mark.slow
def test_every_arm_for_real(go, tmp_path):
    code, _, document = go("workload=GMM/0", "seed=0", "trials=4", "extra_workload=GMM/0")
    assert code == 0
    rows = {row["arm"]: row for row in document["results"]}
    assert list(rows) == ["pruner", "metaschedule_64", "stock", "metaschedule_10"]
    for arm, row in rows.items():
        assert row["error"] is None, arm
        assert row["trials"] == 4
        assert row["curve"][-1][:2] == [4, row["seconds"]["total"]]
        assert 0 < row["latency_s"] < 1e-3
        assert row["seconds"]["build"] > 0
        assert row["seconds"]["other"] > 0
    # TVM's own records hold what we read back of it.
    stock = tmp_path / "out" / "runs" / "GMM-0-seed0" / "stock"
    records = (stock / "tvm" / "database_tuning_record.json").read_text().splitlines()
    timed = sorted(sum(record[1][1]) / len(record[1][1]) for record in map(json.loads, records))
    assert sorted(t.latency_s for t in Journal.read(stock / NAME).trials) == pytest.approx(timed)
    # One and the same program is as fast for whichever arm; the ratios are of the same block.
    summary = document["summary"]
    assert all(summary[name]["mean"] > 0 for name in summary)
    assert summary["latency_ratio_vs_metaschedule"]["mean"] == pytest.approx(
        min(rows[f"metaschedule_{n}"]["latency_s"] for n in (10, 64)) / rows["pruner"]["latency_s"]
    )
    block = Block.load(tmp_path / "out" / "GMM-0-seed0.json")
    assert block.untuned_s > rows["pruner"]["latency_s"]
    assert (tmp_path / "out" / "GMM-0-seed0.json").stat().st_size < 200_000

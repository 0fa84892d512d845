"""The report of a sweep, made with a dummy device by `pruner tune -m`."""

import json
import shutil

import pandas as pd
import pytest

from experiments.report import main
from pruner.cli import main as pruner
from pruner.measure.clock import STAGES

DEVICE = "tests.experiments.dummy_device.Dummy"
SWEEP = [
    "device=x86-64",
    "workload=GMM/0",
    "measure=custom",
    f"measure._target_={DEVICE}",
    "trials=6",
    "batch=3",
]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    words = ["tune", "-m", *SWEEP, "draft.size=16,8", "seed=0,1", f"hydra.sweep.dir={folder}"]
    assert pruner([*words, "search=latent"]) == 0
    return folder


def test_a_row_a_job_as_their_own_summaries_say(sweep, capsys):
    assert main([str(sweep)]) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[-1] == str(sweep)
    found = json.loads((sweep / "report.json").read_text())
    assert found["differing"] == ["draft.size", "seed"]
    expected = [(16, 0), (16, 1), (8, 0), (8, 1)]
    assert [tuple(row["overrides"].values()) for row in found["results"]] == expected
    for row in found["results"]:
        summary = json.loads((sweep / row["job"] / "summary.json").read_text())
        curve = pd.read_csv(sweep / row["job"] / "curve.csv")
        assert row["best_s"] == summary["best_s"] == row["curve"][-1][2]
        assert row["seconds"] == summary["seconds"]
        assert row["trials"] == 6
        # At every new best, as the run's own curve has it.
        best = curve["best_s"].dropna().drop_duplicates()
        assert [point[2] for point in row["curve"][:-1]] == pytest.approx(best.tolist())
    table = pd.read_csv(sweep / "report.csv")
    assert table["draft.size"].tolist() == [16, 16, 8, 8]
    assert {f"{stage}_s" for stage in (*STAGES, "total")} <= set(table)
    assert "| job | draft.size | seed | best |" in shown
    assert (sweep / "report.png").stat().st_size > 0


def test_components_are_named_and_unfinished_jobs_are_told(sweep, tmp_path, capsys):
    shutil.copytree(sweep, tmp_path / "s")
    words = ["tune", *SWEEP, "search=random", f"work_dir={tmp_path / 's' / '10'}"]
    assert pruner(words) == 0
    (tmp_path / "s" / "3" / "summary.json").unlink()
    assert main([str(tmp_path / "s")]) == 0
    found = json.loads((tmp_path / "s" / "report.json").read_text())
    assert [row["job"] for row in found["results"]] == ["0", "1", "2", "10"]
    assert [row["overrides"]["search"] for row in found["results"]] == [*["LatentSearch"] * 3, "RandomSearch"]
    assert found["unfinished"] == ["3"]
    assert "Not finished, left out: 3." in capsys.readouterr().out


def test_a_folder_that_is_no_sweep_is_refused(sweep, tmp_path, capsys):
    def refused(folder):
        assert main([str(folder)]) == 2
        return capsys.readouterr().err

    assert "is no folder" in refused(tmp_path / "nothing")
    assert "holds no finished job" in refused(tmp_path)
    assert "is the folder of one run" in refused(sweep / "0")
    shutil.copytree(sweep / "0", tmp_path / "s" / "0")
    for text in ("[]", "{}", '{"best_s": null, "seconds": {"total": 1}}'):
        (tmp_path / "s" / "0" / "summary.json").write_text(text)
        assert "is no summary of a run" in refused(tmp_path / "s")

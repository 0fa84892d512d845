"""What an ablation's blocks come to, by hand."""

import json

import numpy as np
import pytest

from experiments import ablation_rows
from experiments.ablation_draw import shares
from experiments.ablation_summary import over_workloads, pairs, speed_ups, statistics
from tests.experiments.study_util import block


def test_rows_by_hand():
    """Two arms, best known 40 us (of the other arm), looked at after 2, 4 and 8 trials."""
    made = block("W", 0, {"full": [(1, 3.0, 80), (4, 9.0, 50), (8, 20.0, 41)], "other": [(3, 5.0, 40)]})
    first, second = ablation_rows.rows([made], ["full", "other"], (2, 4, 8))
    assert first["shares"] == pytest.approx({2: 0.5, 4: 0.8, 8: 40 / 41})
    assert first["score"] == pytest.approx((0.5 + 0.8 + 40 / 41) / 3)
    assert (first["trials_to_5pct"], first["seconds_to_5pct"], first["reached"]) == (8, 20.0, True)
    assert second["shares"] == {2: 0.0, 4: 1.0, 8: 1.0}
    assert second["trials_to_5pct"] == 3
    # A better program was recorded: nobody came near, and all trials count.
    made.best_s = 20e-6
    first, second = ablation_rows.rows([made], ["full", "other"], (8,))
    assert (first["score"], second["score"]) == pytest.approx((20 / 41, 0.5))
    assert (first["reached"], first["trials_to_5pct"], first["seconds_to_5pct"]) == (False, 10, 20.0)
    # One that ended early counts as long as the others took.
    assert (second["reached"], second["trials_to_5pct"], second["seconds_to_5pct"]) == (False, 10, 20.0)
    # Studies that ran beside it took its cores.
    made.beside = 2
    first, _ = ablation_rows.rows([made], ["full", "other"], (8,))
    assert (first["seconds_to_5pct"], first["seconds"], first["trials_to_5pct"]) == (None, {}, 10)


def test_a_block_without_any_program_is_told_and_leaves_the_table():
    made = block("W", 0, {"full": [(1, 3.0, 80)]})
    failed = block("V", 0, {"full": [(1, 3.0, 80)]})
    failed.arms["full"].error, failed.timed, failed.retimed = "exit code 1", [], {}
    found = ablation_rows.rows([made, failed], ["full"], (2,))
    assert [row["best_s"] for row in found] == [pytest.approx(80e-6), None]
    json.dumps(found, allow_nan=False)
    assert statistics(found, ["full"])["full"]["score"]["mean"] == 1.0


def test_the_best_known_is_of_all_seeds_on_one_machine():
    blocks = [
        block("W", 0, {"full": [(1, 1.0, 50)]}),
        block("W", 1, {"full": [(1, 1.0, 40)]}),
        block("W", 2, {"full": [(1, 1.0, 10)]}, machine="faster"),
    ]
    rows = ablation_rows.rows(blocks, ["full"], (1,))
    assert [row["score"] for row in rows] == pytest.approx([0.8, 1.0, 1.0])


def test_differences_are_taken_within_blocks():
    """`other` is always a tenth behind, though blocks differ by far more."""
    levels = (0.2, 0.5, 0.9)
    rows = [
        {
            "workload": "W",
            "seed": seed,
            "arm": arm,
            "score": level - less,
            "latency_s": (1.0 + less) / level,
            "trials_to_5pct": 5,
            "seconds_to_5pct": 7.0,
            "reached": True,
            "seconds": {"total": 10.0},
        }
        for seed, level in enumerate(levels)
        for arm, less in (("full", 0.0), ("other", 0.1), ("finetune", 0.05), ("no_adaptation", 0.08))
    ]
    found = statistics(rows, ["full", "other"])
    assert found["other"]["difference"] == pytest.approx({"mean": -0.1, "low": -0.1, "high": -0.1})
    assert found["other"]["latency_ratio"] == pytest.approx({"mean": 1.1, "low": 1.1, "high": 1.1})
    assert found["full"]["score"]["mean"] == pytest.approx(np.mean(levels))
    assert found["full"]["score"]["low"] < 0.4 < 0.7 < found["full"]["score"]["high"]
    found = pairs(rows)["finetune-no_adaptation"]["difference"]
    assert found == pytest.approx({"mean": 0.03, "low": 0.03, "high": 0.03})
    # An arm that failed in a block is left out of it alone.
    rows[1]["score"] = None
    assert statistics(rows, ["full", "other"])["other"]["blocks"] == 2


def test_many_seeds_of_few_workloads_tell_little_of_others():
    """A workload gains by 0.3 with every seed, the other loses by 0.1."""
    found = over_workloads([("A", 0.3 + 0.01 * seed) for seed in (-1, 0, 1)] + [("B", -0.1)] * 50)
    assert found == pytest.approx({"mean": 0.1, "low": -0.1, "high": 0.3})
    assert over_workloads([("A", 0.3)] * 9) == pytest.approx({"mean": 0.3, "low": None, "high": None})


def test_seconds_are_raced_against_tvms_search_and_what_the_paper_is_compared_with():
    seconds = {"full": 2.0, "offline": 4.0, "metaschedule_10": 6.0, "stock": 20.0, "offline_tlp": 12.0}
    one = block("a", 0, {arm: [(10, taken, 50)] for arm, taken in seconds.items()})
    found = speed_ups([one], list(seconds))
    means = {of: {arm: round(got["mean"], 6) for arm, got in arms.items()} for of, arms in found.items()}
    assert means == {
        "metaschedule": {"full": 3.0, "offline": 1.5},
        "stock": {"full": 10.0, "offline": 5.0},
        "offline_tlp": {"full": 6.0, "offline": 3.0},
    }
    assert speed_ups([one], ["full", "offline"]) == {}


def test_the_curve_of_shares():
    assert shares([[2, 1.0, 4.0], [4, 2.0, 2.0]], 1.0, 5).tolist() == [0.0, 0.25, 0.25, 0.5, 0.5]

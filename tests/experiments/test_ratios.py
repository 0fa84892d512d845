"""Ratios of made-up blocks, computed by hand."""

import pytest

from experiments.block import ArmResult
from experiments.ratios import Opponent, race, races
from experiments.summary import assemble
from experiments.tables import text
from tests.experiments.study_util import block

STOCK = Opponent("stock", ("stock",))
BOTH = Opponent("metaschedule", ("metaschedule_10", "metaschedule_64"))

# Points: trial, seconds, latency in us as timed again.
OURS = [(5, 4.0, 90.0), (10, 8.0, 50.4), (20, 12.0, 50.0)]
SLOW = [(64, 40.0, 80.0), (128, 80.0, 50.0), (200, 120.0, 50.0)]


def test_a_ratio_is_the_opponents_figure_over_ours():
    found = race(block("C2D/1", 0, {"pruner": OURS, "stock": SLOW}), "pruner", STOCK, "stock")
    # 50.4 is within 1 % of 50; the opponent itself was there first at 80 s, not at its end.
    assert (found.seconds, found.trials, found.latency, found.reached) == (80 / 8, 128 / 10, 1.0, True)


def test_an_arm_that_never_gets_there_counts_its_total_or_the_opponents_figure():
    better = [(64, 40.0, 80.0), (128, 80.0, 40.0)]
    found = race(block("C2D/1", 0, {"pruner": OURS, "stock": better}), "pruner", STOCK, "stock")
    # Ours ended after 12 s and 20 trials; the opponent's 80 s and 128 trials are larger: 1 at most.
    assert (found.seconds, found.trials, found.reached) == (1.0, 1.0, False)
    assert found.latency == pytest.approx(0.8)
    sooner = [(4, 3.0, 40.0), (4, 5.0, 40.0)]
    found = race(block("C2D/1", 0, {"pruner": OURS, "stock": sooner}), "pruner", STOCK, "stock")
    assert (found.seconds, found.trials, found.reached) == (3 / 12, 4 / 20, False)


def test_an_arm_that_ended_without_a_program_never_got_there():
    one = block("C2D/1", 0, {"pruner": OURS, "stock": SLOW})
    one.arms["pruner"].held.clear()
    found = race(one, "pruner", STOCK, "stock")
    assert (found.seconds, found.trials, found.latency, found.reached) == (1.0, 1.0, None, False)
    document = assemble([one], {"C2D/1": ["pruner", "stock"]})
    assert document["against"]["stock"]["never_reached"] == [["C2D/1", 0]]
    assert document["summary"]["seconds_ratio_vs_stock"]["mean"] == 1.0
    assert document["against"]["stock"]["latency"]["mean"] is None
    origin = {"machine": "here", "commit": None, "command": "python -m x", "trials": 200}
    assert "| C2D/1 | stock | 50 us | 120 s | 1.00 | 1.00 |  |" in text("compare", {**origin, **document})
    # One that failed is no measurement of anything.
    one.timed.remove("pruner")
    assert race(one, "pruner", STOCK, "stock") is None


def test_the_best_of_two_has_the_lower_latency_over_seeds_and_the_fewer_seconds_to_it():
    # metaschedule_10 ends lower (median of 40 and 60 against 55 and 56), though not in the second block.
    first = block(
        "C2D/1",
        0,
        {"pruner": OURS, "metaschedule_10": [(10, 30.0, 40.0)], "metaschedule_64": [(64, 9.0, 55.0)]},
    )
    second = block(
        "C2D/1",
        1,
        {"pruner": OURS, "metaschedule_10": [(10, 30.0, 60.0)], "metaschedule_64": [(64, 9.0, 56.0)]},
    )
    found = races([first, second], "pruner", BOTH)
    assert [one.leader for one in found.values()] == ["metaschedule_10"] * 2
    assert not found["C2D/1", 0].reached
    # The target is 60: metaschedule_64 was there after 9 s, the other after 10 trials; ours after 8 and 10.
    one = found["C2D/1", 1]
    assert (one.seconds, one.trials, one.latency) == (9 / 8, 10 / 10, pytest.approx(60 / 50))


def test_where_one_of_two_is_missing_the_other_is_the_opponent():
    found = races([block("GMM/2", 0, {"pruner": OURS, "metaschedule_64": SLOW})], "pruner", BOTH)
    assert found["GMM/2", 0].leader == "metaschedule_64"
    assert races([block("GMM/2", 0, {"pruner": OURS, "stock": SLOW})], "pruner", BOTH) == {}


def test_a_block_where_the_leader_failed_is_raced_against_the_other():
    slower = [(10, 10.0, 60.0)]
    whole = block("GMM/2", 0, {"pruner": OURS, "metaschedule_10": slower, "metaschedule_64": SLOW})
    half = block("GMM/2", 1, {"pruner": OURS, "metaschedule_10": slower})
    found = races([whole, half], "pruner", BOTH)
    assert [one.leader for one in found.values()] == ["metaschedule_64", "metaschedule_10"]
    # Ours is below 60 us at its second point, after 8 s.
    assert found["GMM/2", 1].seconds == 10 / 8


def made_up():
    halved = [(trial, seconds / 2, us) for trial, seconds, us in SLOW]
    blocks = [
        block("C2D/1", 0, {"pruner": OURS, "metaschedule_64": SLOW, "stock": SLOW}),
        block("C2D/1", 1, {"pruner": OURS, "metaschedule_64": halved, "stock": SLOW}),
        block("GMM/2", 0, {"pruner": OURS, "metaschedule_64": SLOW}, machine="elsewhere"),
    ]
    blocks[2].arms["stock"] = ArmResult(
        {"overrides": [], "program": "stock"}, "abc", error="exit code 1\nno luck"
    )
    names = ["pruner", "metaschedule_64", "stock"]
    return blocks, assemble(blocks, {"C2D/1": names, "GMM/2": names})


def test_the_summary_of_made_up_blocks():
    _, document = made_up()
    summary = document["summary"]
    assert summary["seconds_ratio_vs_stock"] == pytest.approx({"mean": 10.0, "low": 10.0, "high": 10.0})
    # 80/8, 40/8 and 80/8; of 27 draws one has the smallest three times, eight the largest.
    assert summary["seconds_ratio_vs_metaschedule"] == pytest.approx(
        {"mean": 500 ** (1 / 3), "low": 5.0, "high": 10.0}
    )
    assert summary["trials_ratio_vs_metaschedule"]["mean"] == pytest.approx(12.8)
    assert summary["latency_ratio_vs_metaschedule"]["mean"] == pytest.approx(1.0)
    assert document["against"]["stock"]["blocks"] == 2
    medians = document["workloads"]["C2D/1"]
    assert medians["arms"]["metaschedule_64"] == pytest.approx({"latency_s": 50e-6, "seconds": 90.0})
    assert medians["against"]["metaschedule"] == {
        "leader": "metaschedule_64",
        "seconds": pytest.approx(7.5),
        "trials": pytest.approx(12.8),
        "latency": 1.0,
    }
    assert set(document["workloads"]["GMM/2"]["arms"]) == {"pruner", "metaschedule_64"}


def test_rows_say_when_each_arm_came_near_each_opponent_and_which_failed():
    _, document = made_up()
    rows = {(row["workload"], row["seed"], row["arm"]): row for row in document["results"]}
    assert len(rows) == 9
    ours = rows["C2D/1", 0, "pruner"]
    assert ours["reached"]["stock"] == ours["reached"]["metaschedule"] == {"trials": 10, "seconds": 8.0}
    assert ours["curve"] == [[trial, seconds, us * 1e-6] for trial, seconds, us in OURS]
    assert ours["seconds"]["total"] == 12.0
    assert ours["latency_s"] == 50.0 * 1e-6
    failed = rows["GMM/2", 0, "stock"]
    assert (failed["latency_s"], failed["curve"], failed["error"]) == (None, [], "exit code 1\nno luck")
    assert "stock" not in rows["GMM/2", 0, "pruner"]["reached"]
    assert document["blocks"][2]["failed"] == {"stock": "exit code 1\nno luck"}


def test_without_an_opponent_its_summary_is_empty():
    document = assemble(
        [block("C2D/1", 0, {"pruner": OURS, "random": SLOW})], {"C2D/1": ["pruner", "random"]}
    )
    assert document["summary"]["seconds_ratio_vs_stock"] == {"mean": None, "low": None, "high": None}
    assert document["against"]["random"]["seconds"]["mean"] == pytest.approx(10.0)


def test_the_table_marks_what_was_never_reached_and_names_other_machines():
    blocks, _ = made_up()
    blocks[0] = block("C2D/1", 0, {"pruner": [(20, 12.0, 70.0)], "metaschedule_64": SLOW, "stock": SLOW})
    names = ["pruner", "metaschedule_64", "stock"]
    document = assemble(blocks, {"C2D/1": names, "GMM/2": names})
    assert document["against"]["stock"]["never_reached"] == [["C2D/1", 0]]
    origin = {"machine": "here", "commit": None, "command": "python -m x", "trials": 200}
    shown = text("compare", {**origin, **document})
    assert "| C2D/1 | 0 | stock | 50 us | 120 s | 1 build | * |" in shown
    assert "| C2D/1 | 1 | stock | 50 us | 120 s | 1 build | 8 s, 10 trials |" in shown
    assert "| GMM/2 | 0 | stock | - | failed |" in shown
    assert "elsewhere" in shown
    assert "| stock | 2 |" in shown
    # Medians of 1.0 (never there) and 40 s / 8 s, 1.0 and 128 / 10 trials, 50 / 70 us and 1.0.
    assert "| C2D/1 | metaschedule: metaschedule_64 |  |  | 3.00 | 6.90 | 0.86 |" in shown

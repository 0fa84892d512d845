from experiments.curves import Incumbent, Point, curve, digest, incumbents, reached
from tests.experiments.fake_arm import trace
from tests.experiments.study_util import run

TRIALS = [
    (2.0, None, "f"),
    (2.0, 50, "a"),
    (2.0, 60, "b"),
    (4.0, 30, "c"),
    (4.0, 40, "d"),
    (6.0, 20, "e"),
    (6.0, 20, "g"),
]


def held(found):
    names = {digest(trace(program)): program for program in "abcdefg"}
    return [(one.trial, one.seconds, names[one.program]) for one in found]


def test_incumbents_are_the_fastest_so_far_and_what_the_run_ended_on():
    contents = run(TRIALS).contents
    assert held(incumbents(contents, 9.0)) == [(2, 2.0, "a"), (4, 4.0, "c"), (6, 6.0, "e"), (7, 9.0, "e")]


def test_a_run_may_end_on_another_program_than_its_fastest_trial():
    contents = run(TRIALS, best=5).contents
    assert held(incumbents(contents, 9.0))[-2:] == [(6, 6.0, "e"), (7, 9.0, "d")]


def test_a_refused_program_leaves_its_place_to_what_would_have_been_held():
    contents = run(TRIALS).contents
    refused = {digest(trace("c")), digest(trace("e"))}
    assert held(incumbents(contents, 9.0, refused)) == [
        (2, 2.0, "a"),
        (5, 4.0, "d"),
        (7, 6.0, "g"),
        (7, 9.0, "g"),
    ]
    everything = {digest(trace(program)) for program in "abcdefg"}
    assert incumbents(contents, 9.0, everything) == []


def test_a_curve_shows_the_retimed_value_of_what_was_held_even_where_it_rises():
    found = [Incumbent(1, 1.0, "a"), Incumbent(3, 2.0, "b"), Incumbent(4, 2.0, "c"), Incumbent(9, 5.0, "b")]
    points = curve(found, {"a": 5.0, "b": 3.0, "c": 4.0, "unused": 1.0})
    assert points == [Point(1, 1.0, 5.0), Point(3, 2.0, 3.0), Point(4, 2.0, 4.0), Point(9, 5.0, 3.0)]
    assert curve(found, {"b": 3.0}) == [Point(3, 2.0, 3.0), Point(9, 5.0, 3.0)]


def test_reached_is_the_first_point_within_one_percent():
    points = [Point(1, 1.0, 5.0), Point(3, 2.0, 3.02), Point(4, 4.0, 4.0), Point(9, 5.0, 3.0)]
    assert reached(points, 3.0) == points[1]
    assert reached(points, 2.98) == points[3]
    assert reached(points, 2.97) is None
    assert reached(points, 9.0) == points[0]
    assert reached([], 9.0) is None


def test_an_incumbent_keeps_what_the_run_measured_itself():
    contents = run(TRIALS, best=5).contents
    own = {trial.trial: trial.latency_s for trial in contents.trials}
    found = incumbents(contents, 9.0)
    assert [one.own_s for one in found[:-1]] == [own[one.trial] for one in found[:-1]]
    assert found[-1].own_s == own[5]  # what it ended on, though its last trial was another

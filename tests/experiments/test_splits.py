"""What trains and what is scored."""

from itertools import pairwise, product

import numpy as np
import pytest

from experiments.splits import SPLITS, Programs, balanced, folds, share, validation
from pruner.errors import ConfigError

# Tasks 1 and 4 are kin.
SIZES = [40, 31, 7, 25, 12, 1, 18, 3]
FAMILIES = [[0], [1, 4], [2], [3], [5], [6], [7]]


@pytest.fixture
def programs():
    task = np.repeat(np.arange(len(SIZES)), SIZES)
    order = np.random.default_rng(0).permutation(len(task)) * 3
    return Programs(task, order, FAMILIES)


@pytest.mark.parametrize(("split", "seed"), [*product(SPLITS, (0, 1))])
def test_no_program_is_on_both_sides_and_each_is_scored_at_most_once(split, seed, programs):
    found = folds(split, programs, seed)
    for fold in found:
        assert not set(fold.train) & set(fold.scored)
        assert sorted([*fold.train, *fold.scored]) == list(range(sum(SIZES)))
    scored = np.concatenate([fold.scored for fold in found])
    assert len(set(scored)) == len(scored)
    again = folds(split, programs, seed)
    assert all((a.train == b.train).all() for a, b in zip(found, again, strict=True))


def test_a_split_over_tasks_holds_out_whole_families_and_all_of_them_once(programs):
    found = folds("task", programs, 0)
    assert len(found) == 5
    for fold in found:
        trained, scored = (set(programs.task[side]) for side in (fold.train, fold.scored))
        assert not trained & scored
        for family in FAMILIES:
            assert set(family) <= trained or set(family) <= scored
    assert sorted(np.concatenate([fold.scored for fold in found])) == list(range(sum(SIZES)))
    # Families of 43, 40, 25, 18, 7, 3 and 1: five folds cannot be nearer to each other.
    assert sorted(len(fold.scored) for fold in found) == [11, 18, 25, 40, 43]


def test_fewer_families_than_folds_are_a_fold_each(programs):
    few = Programs(programs.task, programs.order, [[0, 1, 2, 3], [4, 5], [6, 7]])
    assert [set(few.task[fold.scored]) for fold in folds("task", few, 0)] == [{0, 1, 2, 3}, {6, 7}, {4, 5}]


def test_one_family_cannot_be_split_over_tasks(programs):
    with pytest.raises(ConfigError, match=r"Give more data, or split=within"):
        folds("task", Programs(programs.task, programs.order, [list(range(len(SIZES)))]), 0)
    with pytest.raises(ConfigError, match=r"split=half is not accepted: give one of task, within, time"):
        folds("half", programs, 0)


def test_the_first_half_by_order_trains(programs):
    [fold] = folds("time", programs, 0)
    for task, size in enumerate(SIZES):
        first, later = (
            programs.order[side[programs.task[side] == task]] for side in (fold.train, fold.scored)
        )
        assert (len(first), len(later)) == (size // 2, size - size // 2)
        assert not len(first) or first.max() < later.min()
    assert (fold.train == folds("time", programs, 1)[0].train).all()


def test_the_random_half_differs_by_seed(programs):
    [fold], [other] = (folds("within", programs, seed) for seed in (0, 1))
    for task, size in enumerate(SIZES):
        assert (programs.task[fold.train] == task).sum() == size // 2
    assert set(fold.train) != set(other.train)


def test_smaller_shares_are_parts_of_larger_ones(programs):
    [fold] = folds("within", programs, 0)
    shares = [share(fold.train, programs.task, fraction, 3) for fraction in (0.01, 0.1, 0.5, 1.0)]
    for small, large in pairwise(shares):
        assert set(small) < set(large)
    assert (shares[-1] == fold.train).all()
    for task, size in enumerate(SIZES):
        assert (programs.task[shares[2]] == task).sum() == -(-(size // 2) // 2)
    assert set(share(fold.train, programs.task, 0.5, 4)) != set(shares[2])


@pytest.mark.parametrize(("split", "seed"), [*product(SPLITS, range(3))])
def test_validation_is_a_part_of_what_trains(split, seed, programs):
    for fold in folds(split, programs, seed):
        inside = validation(split, programs, fold.train, seed)
        assert sorted([*inside.train, *inside.scored]) == list(fold.train)
        assert not set(inside.train) & set(inside.scored)
        assert len(inside.scored)
        if split == "task":
            held, kept = set(programs.task[inside.scored]), set(programs.task[inside.train])
            assert kept
            assert not held & kept
        if split == "time":
            for task in range(len(SIZES)):
                first, later = (
                    programs.order[side[programs.task[side] == task]]
                    for side in (inside.train, inside.scored)
                )
                assert len(later) == (len(first) + len(later)) // 5
                assert not len(later) or first.max() < later.min()


def test_validation_within_the_only_family_that_trains(programs):
    two = Programs(programs.task, programs.order, [[0, 1, 2, 3], [4, 5, 6, 7]])
    for fold in folds("task", two, 0):
        inside = validation("task", two, fold.train, 0)
        assert 0 < len(inside.scored) < len(inside.train)


def test_bins_are_filled_from_the_largest():
    assert balanced([5, 9, 4, 3, 3], 2) == [[1, 3], [0, 2, 4]]
    assert balanced([2], 5) == [[0]]

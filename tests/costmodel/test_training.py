"""How a training goes through its candidates, when it ends, and that a cut-off one goes on."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from pruner.costmodel.losses import loss_of
from pruner.costmodel.neural import PaCMVerifier
from pruner.costmodel.prior import prior_scores
from pruner.costmodel.rows import Rows
from pruner.costmodel.training import Examples, Schedule, _loss, split, steps
from pruner.errors import ConfigError
from tests.costmodel.neural_util import features, training_set


def test_an_epoch_shows_every_candidate_once_in_lists_of_one_task():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, 700)
    kept = np.flatnonzero(rng.random(700) < 0.9)
    schedule = Schedule(step=128, longest=40)
    seen = []
    for candidates, lists in steps(group, kept, schedule, rng):
        assert len(candidates) <= 128
        assert (np.diff(lists) >= 0).all()
        assert lists[0] == 0
        for number in np.unique(lists):
            own = candidates[lists == number]
            assert len(np.unique(group[own])) == 1
            assert 2 <= len(own) <= 40
        seen.append(candidates)
    assert (np.sort(np.concatenate(seen)) == kept).all()


def test_mixed_lists_are_whole_steps_of_all_tasks():
    group = np.arange(600) % 3
    found = list(steps(group, np.arange(600), Schedule(step=100, mixed=True), np.random.default_rng(0)))
    assert len(found) > 5
    for candidates, lists in found:
        assert (lists == 0).all()
        assert len(np.unique(group[candidates])) == 3


def test_a_task_of_one_candidate_is_left_out():
    group = np.array([0, 0, 0, 1, 2, 2])
    ((candidates, lists),) = steps(group, np.arange(6), Schedule(), np.random.default_rng(0))
    assert 3 not in candidates
    assert sorted(np.bincount(lists)) == [2, 3]


def test_validation_takes_its_share_of_every_task_that_can_spare_two():
    group = np.repeat([0, 1, 2], [100, 40, 10])
    kept, held = split(group, 0.1, np.random.default_rng(0))
    assert np.bincount(group[held], minlength=3).tolist() == [10, 4, 0]
    assert (np.sort(np.concatenate([kept, held])) == np.arange(150)).all()


def test_visits_bound_the_epochs():
    schedule = Schedule(epochs=50, visits=1000)
    assert [schedule.epochs_of(n) for n in (10, 100, 400, 5000)] == [50, 10, 2, 1]
    assert Schedule(epochs=50).epochs_of(5000) == 50


def told(verifier):
    epochs = []
    verifier.progress = lambda *told: epochs.append(told)
    return epochs


def test_it_ends_without_progress_and_keeps_the_best_weights():
    """Labels that nothing explains: validation gets worse while training gets better."""
    noise = training_set(100)
    noise = replace(noise, labels=np.random.default_rng(1).random(100))
    verifier = PaCMVerifier(epochs=200, visits=None, prior=0.0, anneal=False)
    epochs = told(verifier)
    verifier.fit(noise)
    losses = [validated for *_, validated in epochs]
    assert len(epochs) < 200
    assert verifier.trained.validated
    assert verifier.trained.loss == min(losses)
    assert int(np.argmin(losses)) == len(losses) - 1 - 16  # the patience


def test_the_rate_falls_along_half_a_cosine():
    schedule = Schedule(rate=0.5, anneal=True)
    assert [schedule.rate_of(done) for done in (0.0, 0.5, 1.0)] == pytest.approx([0.5, 0.25, 0.0])
    assert schedule.rate_of(1 / 3) == pytest.approx(0.5 * 0.75)
    assert Schedule(rate=0.5).rate_of(0.9) == 0.5


def test_what_an_annealed_epoch_changes_falls_as_its_rate_does():
    """Adam moves a weight by about the rate in each step, so the last of twenty epochs moves them by about a
    three hundredth of what the first one does."""
    verifier = PaCMVerifier(epochs=20, visits=None)
    network = None
    seen = []

    def look(*_):
        seen.append([p.detach().clone() for p in network.parameters()])

    make = verifier.make

    def made(widths):
        nonlocal network
        network = make(widths)
        look()
        return network

    verifier.make = made
    verifier.progress = look
    verifier.fit(training_set(100))
    moved = [
        float(sum((a - b).abs().sum() for a, b in zip(*pair, strict=True)))
        for pair in itertools.pairwise(seen)
    ]
    assert len(moved) == 20
    assert moved[-1] < 0.03 * moved[0]


def test_annealed_it_learns_from_all_records_for_all_epochs():
    """Where labels are noise, what is kept is the last epoch's, which has learnt the most by heart."""
    noise = training_set(100)
    noise = replace(noise, labels=np.random.default_rng(1).random(100))
    verifier = PaCMVerifier(epochs=60, visits=None, prior=0.0)
    epochs = told(verifier)
    verifier.fit(noise)
    assert [validated for *_, validated in epochs] == [None] * 60
    assert verifier.trained.loss == epochs[-1][2]
    assert spearmanr(verifier.predict(noise.features), noise.labels).statistic > 0.8


def test_no_epoch_but_the_first_begins_after_its_time():
    verifier = PaCMVerifier(fit_seconds=1e-9)
    verifier.fit(training_set())
    assert verifier.trained.epochs == 1
    assert np.isfinite(verifier.trained.loss)
    assert np.isfinite(verifier.predict(features(5)[0])).all()


class Cut(Exception):
    pass


@pytest.mark.parametrize(("after", "anneal"), [(1, True), (3, True), (3, False)])
def test_a_training_that_was_cut_off_ends_as_one_that_was_not(tmp_path, after, anneal):
    path = tmp_path / "training"

    def make():
        return PaCMVerifier(epochs=6, anneal=anneal, resume=str(path))

    whole = PaCMVerifier(epochs=6, anneal=anneal)
    whole.fit(training_set())
    cut = make()

    def stop(epoch, *_):
        if epoch > after:
            raise Cut

    cut.progress = stop
    with pytest.raises(Cut):
        cut.fit(training_set())
    assert not cut.fitted
    assert path.is_file()
    again = make()
    epochs = told(again)
    again.fit(training_set())
    assert epochs[0][0] == after + 1
    assert not path.exists()
    unseen = features(20, 1)[0]
    assert (again.predict(unseen) == whole.predict(unseen)).all()


def test_the_state_of_another_training_is_not_taken_up(tmp_path):
    path = tmp_path / "training"
    first = PaCMVerifier(epochs=6, resume=str(path))

    def stop(*_):
        raise Cut

    first.progress = lambda epoch, *_: stop() if epoch > 1 else None
    with pytest.raises(Cut):
        first.fit(training_set())
    other = PaCMVerifier(epochs=6, resume=str(path))
    epochs = told(other)
    other.fit(training_set(seed=5))
    assert epochs[0][0] == 1


def test_a_file_of_something_else_is_left_alone(tmp_path):
    path = tmp_path / "precious"
    path.write_text("precious")
    with pytest.raises(ConfigError, match="is no training's state"):
        PaCMVerifier(resume=str(path))
    assert path.read_text() == "precious"
    for nowhere in (tmp_path, tmp_path / "missing" / "state"):
        with pytest.raises(ConfigError, match=r"verifier\.resume="):
            PaCMVerifier(resume=str(nowhere))


def test_the_threads_of_torch_stay_as_they_are():
    before = torch.get_num_threads()
    PaCMVerifier(epochs=1).fit(training_set())
    assert torch.get_num_threads() == before


def test_shrinking_keeps_ten_records_close_to_the_prior_and_lets_many_overrule_it():
    """The prior of the made-up records knows nothing, so that all that is right is learnt."""
    unseen, latency = features(80, 1)
    spread, ranked = {}, {}
    for n in (10, 200):
        for shrink in (0.0, 0.1):
            verifier = PaCMVerifier(shrink=shrink)
            verifier.fit(training_set(n))
            scores = verifier.predict(unseen)
            spread[n, shrink] = np.std(scores - prior_scores(unseen, 4.0))
            ranked[n, shrink] = spearmanr(scores, -latency).statistic
    assert spread[10, 0.1] < 0.5 * spread[10, 0.0]
    assert ranked[200, 0.1] > 0.8


def test_lists_are_drawn_together_each_about_its_own_mean():
    """A network whose scores differ between tasks alone has nothing to shrink."""

    class Constant(torch.nn.Module):
        def forward(self, rows):
            return rows["x"].values[:, 0]

    values = torch.tensor([[5.0], [5.0], [-3.0], [-3.0], [7.0]])
    for last, expected in ((7.0, 0.0), (-3.0, 0.0), (4.0, None)):
        values[4] = last
        examples = Examples({"x": Rows(values, torch.arange(6))}, torch.zeros(5), torch.zeros(5), np.zeros(5))
        lists = np.array([0, 0, 1, 1, 2 if last == 7.0 else 1])
        found = _loss(Constant(), examples, loss_of("lambda_rank"), 2.0, np.arange(5), lists).item()
        own = [-3.0, -3.0, last]
        assert found == pytest.approx(2.0 * 3 * np.var(own) / 5 if expected is None else expected, abs=1e-5)

"""Timing against a simulated machine whose true latencies are known."""

from __future__ import annotations

import time

import numpy as np
import pytest

from pruner.measure.timing import TimingRule, relative_error, sample_for, summary, time_adaptively


class Machine:
    """A program of known latency; every repeat is longer by a random share."""

    def __init__(self, latency: float, noise: float = 0.0) -> None:
        self.latency = latency
        self.noise = noise
        self.spent = 0.0
        self.rng = np.random.default_rng(0)

    def call(self) -> None:
        self.spent += self.latency
        time.sleep(self.latency)

    def sample(self, number: int, repeat: int) -> list[float]:
        values = self.latency * (1 + self.noise * self.rng.random(repeat))
        self.spent += number * float(values.sum())
        return [float(value) for value in values]


def test_a_loser_is_timed_for_less_than_a_contender():
    rule = TimingRule()
    loser, contender = Machine(0.003, noise=0.2), Machine(0.003, noise=0.2)
    time_adaptively(loser.call, loser.sample, 0.001, rule)
    time_adaptively(contender.call, contender.sample, 0.003, rule)
    assert loser.spent < 0.02
    assert contender.spent > 5 * loser.spent


def test_a_steady_contender_ends_before_the_cap_and_a_noisy_one_at_it():
    rule = TimingRule()
    steady, noisy = Machine(0.002), Machine(0.002, noise=1.0)
    time_adaptively(steady.call, steady.sample, None, rule)
    time_adaptively(noisy.call, noisy.sample, None, rule)
    assert steady.spent < 0.1
    assert rule.longest_s <= noisy.spent < 2 * rule.longest_s


def test_a_hopeless_program_is_called_once():
    slow = Machine(0.05)
    rule = TimingRule(longest_s=0.02)
    (latency,) = time_adaptively(slow.call, slow.sample, 0.001, rule)
    assert 0.05 <= latency < 0.1
    assert slow.spent == 0.05


def test_one_disturbed_repeat_does_not_make_a_loser():
    disturbed = Machine(0.001)
    plain = disturbed.sample
    disturbed.sample = lambda number, repeat: [  # type: ignore[method-assign]
        value * (30 if i % 2 else 1) for i, value in enumerate(plain(number, repeat))
    ]
    samples = time_adaptively(disturbed.call, disturbed.sample, 0.001, TimingRule())
    assert len(samples) >= 5
    assert np.median(samples) == pytest.approx(0.001)


def test_turns_fill_their_seconds():
    machine = Machine(0.001)
    start = time.perf_counter()

    def sample(number: int, repeat: int) -> list[float]:
        time.sleep(0.001 * number * repeat)
        return [0.001] * repeat

    samples = sample_for(machine.call, sample, 0.1, TimingRule())
    assert time.perf_counter() - start >= 0.1
    assert summary(samples) == (0.001, 0.0)


def test_median_and_its_error_against_a_simulation():
    rng = np.random.default_rng(1)
    runs = rng.normal(1.0, 0.05, (2000, 25))
    truth = np.median(runs, axis=1).std()
    assert np.mean([relative_error(list(run)) for run in runs]) == pytest.approx(truth, rel=0.15)
    median, spread = summary([1.0, 2.0, 6.0])
    assert median == 2.0
    assert spread == pytest.approx(np.std([1.0, 2.0, 6.0]))
    assert summary([1.0]) == (1.0, None)

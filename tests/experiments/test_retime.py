"""Programs timed again: what several sittings come to."""

from contextlib import contextmanager
from dataclasses import dataclass

from experiments.block import Retimed
from experiments.place import Program
from experiments.retime import SITTINGS, Bench
from pruner.measure.measurement import Measurement


def measured(latency_s, failure=None):
    return Measurement(None, latency_s, 0.0, 0.0, 0.0, failure)


@dataclass(frozen=True)
class Scripted(Bench):
    """Every sitting takes the next of what it was given."""

    sittings: list

    @contextmanager
    def measuring(self):
        yield self.sittings.pop(0)

    def _candidate(self, trace):
        return trace


@dataclass
class Sitting:
    """What programs, by their traces, and the untuned one take."""

    found: dict
    untuned: Measurement

    def confirm(self, candidates):
        return [self.found[one] for one in candidates]

    def baseline(self):
        return self.untuned


def test_the_median_of_sittings_counts_and_one_failure_is_enough():
    times = {"steady": [10e-6, 11e-6, 12e-6], "lucky once": [9e-6, 30e-6, 31e-6], "wrong once": [9e-6] * 3}
    sittings = [
        Sitting({name: measured(own[n]) for name, own in times.items()}, measured(untuned))
        for n, untuned in enumerate([3e-3, 1e-3, 2e-3])
    ]
    sittings[1].found["wrong once"] = measured(None, "wrong")
    assert len(sittings) == SITTINGS
    programs = {f"{number}": Program(trace, None) for number, trace in enumerate(times)}
    timings = Scripted(None, None, None, sittings).retime(programs)
    assert timings.programs == {"0": Retimed(11e-6), "1": Retimed(30e-6), "2": Retimed(None, "wrong")}
    assert timings.untuned_s == 2e-3
    assert not sittings

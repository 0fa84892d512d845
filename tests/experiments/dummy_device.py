"""A device for whole studies without compiling: a program's latency follows from the program alone."""

from dataclasses import replace

import tvm_ffi

from pruner.testing.dummy import DummyMeasurer


def latency(candidate):
    """Seconds, 1 to 997 us."""
    return 1e-6 * (1 + int(tvm_ffi.structural_hash(candidate.materialise().mod)) % 997)


class Dummy(DummyMeasurer):
    """While it searches it takes a program for twice as fast as it is."""

    def __init__(self):
        super().__init__(latency=lambda candidate: latency(candidate) / 2, baseline_s=1e-2)

    def confirm(self, candidates):
        return [replace(m, latency_s=2 * m.latency_s) for m in super().confirm(candidates)]


class Broken(Dummy):
    """Fails in the middle of a run."""

    def measure(self, candidates):
        if self.measured:
            raise OSError("the board is gone")
        return super().measure(candidates)

"""A small program, a made-up device and draft for tests of whole runs."""

from tvm import te

from pruner.analyzer.device import Device
from pruner.analyzer.draft import DraftModel


def matmul(n=32):
    a = te.placeholder((n, n), "float32", name="A")
    b = te.placeholder((n, n), "float32", name="B")
    k = te.reduce_axis((0, n), name="k")
    return te.create_prim_func(
        [a, b, te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")]
    )


def latency(candidate):
    """Any number that depends on the program alone."""
    return 1e-6 * (1 + int.from_bytes(candidate.key[-64:], "little") % 997)


class Scores(DraftModel):
    """A draft model whose scores come from a function."""

    def __init__(self, make):
        super().__init__(device=Device.load("x86-64"), explored=100, size=50)
        self.make = make

    def score(self, population):
        return self.make(len(population))

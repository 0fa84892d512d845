"""The calibration's kernels. Run as a program: one JSON job in, one JSON line of rates out."""

from __future__ import annotations

import itertools
import json
import sys
import textwrap
import time
from typing import Any

import numpy as np
import tvm
from tvm.script import from_source
from tvm.target import Target
from tvm.tirx import PrimFunc

Shapes = list[tuple[int, ...]]

# A parallel loop that takes longer was interrupted.
LIKELY_LAUNCH_S = 5e-5
LEAST_ROUNDS, MOST_ROUNDS, ROUNDS_S = 4, 12, 0.6


def multiply_add(cores: int, lanes: int, repeats: int) -> PrimFunc:
    """A register tile of 6 rows by 2 vectors per core, as in a matrix product: `12 * 128 * repeats` vector
    multiply-adds a core."""
    return _kernel(
        f"a: T.Buffer((128, 6)), b: T.Buffer((128, {2 * lanes})), c: T.Buffer(({cores}, 6, {2 * lanes}))",
        f"""
        for core in T.parallel({cores}):
            for _ in range({repeats}):
                for k in range(128):
                    for i in T.unroll(6):
                        for j in T.vectorized({2 * lanes}):
                            c[core, i, j] = c[core, i, j] + a[k, i] * b[k, j]
        """,
    )


def read_sum(cores: int, lanes: int, blocks: int, repeats: int) -> PrimFunc:
    """Every core reads its own `blocks` blocks of eight vectors, `repeats` times."""
    return _kernel(
        f"x: T.Buffer(({cores}, {blocks}, 8, {lanes})), out: T.Buffer(({cores}, 8, {lanes}))",
        f"""
        for core in T.parallel({cores}):
            for _ in range({repeats}):
                for i in range({blocks}):
                    for v in T.unroll(8):
                        for j in T.vectorized({lanes}):
                            out[core, v, j] = out[core, v, j] + x[core, i, v, j]
        """,
    )


def launch(cores: int) -> PrimFunc:
    """A parallel loop with next to nothing in it."""
    return _kernel(
        f"out: T.Buffer(({cores}, 16))",
        f"""
        for core in T.parallel({cores}):
            out[core, 0] = T.float32(1)
        """,
    )


def _kernel(parameters: str, body: str) -> PrimFunc:
    text = f'@T.prim_func(s_tir=True)\ndef main({parameters}):\n    T.func_attr({{"tirx.noalias": True}})\n'
    return from_source(text + textwrap.indent(textwrap.dedent(body).strip(), "    "))


class Kernel:
    """A built kernel; `best` is the shortest call seen, in seconds, after each round."""

    def __init__(
        self, func: PrimFunc, target: Target, shapes: list[tuple[int, ...]], number: int = 1
    ) -> None:
        built = tvm.compile(tvm.IRModule({"main": func}), target=target)
        self._arrays = [tvm.runtime.tensor(np.zeros(shape, dtype="float32")) for shape in shapes]
        self._timer = built.mod.time_evaluator("main", tvm.cpu(), number=number, repeat=10)
        self.best: list[float] = []

    def run(self) -> None:
        shortest = float(min(self._timer(*self._arrays).results))
        self.best.append(min([shortest, *self.best[-1:]]))

    @property
    def settled(self) -> bool:
        """Whether the second half of the rounds found nothing faster to speak of."""
        return self.best[len(self.best) // 2] <= 1.1 * self.best[-1]


def measure(job: dict[str, Any]) -> dict[str, float]:
    """The rates of the machine (see `calibrate.Rates`), and whether they are `settled`."""
    target, cores, lanes = Target(job["target"]), job["cores"], job["width"] // 4
    sizes = {int(level): size for level, size in job["sizes"].items()}
    repeats, line = 400, 8 * lanes * 4
    tile: Shapes = [(128, 6), (128, 2 * lanes), (1, 6, 2 * lanes)]
    kernels = {
        "peak": Kernel(multiply_add(1, lanes, repeats), target, tile),
        "launch": Kernel(launch(cores), target, [(cores, 16)], number=10),
    }
    each = {"l1": sizes.get(1, 32 << 10) // 2, "l2": sizes.get(2, 512 << 10) // 2}
    each["l3"] = max(sizes.get(3, 0) // (2 * cores), 2 * each["l2"])
    each["memory"] = min(max(4 * max(sizes.values(), default=0) // cores, 16 << 20), 64 << 20)
    read = {}
    for name, size in each.items():
        blocks, again = size // line, max(1, (1 << 22) // size)
        read[name] = cores * blocks * line * again
        # What a core has to itself is measured on one, which a busy machine disturbs less.
        readers = 1 if name in ("l1", "l2") else cores
        shape: Shapes = [(readers, blocks, 8, lanes), (readers, 8, lanes)]
        kernels[name] = Kernel(read_sum(readers, lanes, blocks, again), target, shape)
    # Other programs disturb for a few milliseconds at a time: many short rounds find the quiet moments.
    start = time.perf_counter()
    for rounds in range(MOST_ROUNDS):
        if rounds >= LEAST_ROUNDS and time.perf_counter() - start > ROUNDS_S:
            break
        for kernel in kernels.values():
            kernel.run()
    best = {name: kernel.best[-1] for name, kernel in kernels.items()}
    for name in ("l3", "memory"):
        best[name] -= min(best["launch"], best[name] / 4)
    vectors = 12 * 128 * repeats * cores / best["peak"]
    # A vector multiply-add per cycle and pipe: the number of pipes that gives a likely clock.
    pipes = next((p for p in (2, 4, 1) if 1.4e9 < vectors / cores / p < 6e9), 2)
    rates = {name: size / best[name] for name, size in read.items()}
    for inner, outer in itertools.pairwise(read):
        rates[outer] = min(rates[outer], rates[inner])
    settled = all(kernel.settled for kernel in kernels.values()) and best["launch"] < LIKELY_LAUNCH_S
    return {
        **rates,
        "peak": vectors * lanes * 2,
        "pipes": pipes,
        "launch": best["launch"],
        "settled": settled,
    }


def main(job: str) -> None:
    """Measures what the JSON object asks for and writes the rates to stdout, as the last line."""
    sys.stdout.write(json.dumps(measure(json.loads(job))) + "\n")

"""Spaces and programs for the tests of spaces."""

from functools import cache

import numpy as np
from tvm import te
from tvm.target import Target
from tvm.tirx import PrimFunc

from pruner.search.population import UNUSED, Population
from pruner.search.sketch import CategoryGene, TileGene
from pruner.search.space import Space
from pruner.workload import load_task

TARGET = Target({"kind": "llvm", "num-cores": 2})


@cache
def space_of(workload: str, target: Target = TARGET) -> Space:
    return Space.of(load_task(workload, target))


def matmul(n: int, m: int, k: int, dtype: str = "float32") -> PrimFunc:
    a = te.placeholder((n, k), name="a", dtype=dtype)
    b = te.placeholder((k, m), name="b", dtype=dtype)
    r = te.reduce_axis((0, k), name="r")
    return te.create_prim_func(
        [a, b, te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="c")]
    )


def check_rows(population: Population) -> None:
    """Every row of the population is a possible row of its sketch."""
    space = population.space
    for index, sketch in enumerate(space.sketches):
        rows = population.decisions[population.sketch_ids == index]
        assert (rows[:, sketch.width :] == UNUSED).all()
        for gene in sketch.genes:
            if isinstance(gene, TileGene):
                factors = rows[:, gene.start : gene.start + gene.parts]
                assert (factors >= 1).all()
                assert (factors.prod(axis=1) == gene.extent).all()
                assert (factors[:, -1] <= gene.max_innermost).all()
            elif isinstance(gene, CategoryGene):
                assert np.isin(rows[:, gene.start], range(len(gene.values))).all()
            else:
                assert (rows[:, gene.start] >= -2).all()

"""Array operations on rows, against brute force."""

from collections import Counter
from itertools import product
from math import prod

import numpy as np
import pytest
from scipy import stats

from pruner.search.operators import Operators, prime_powers, tile_table
from pruner.search.sketch import CategoryGene, LocationGene, Sketch, TileGene

PROBABILITIES = (0.1, 0.2, 0.3, 0.4)


def _sketch(*tiles: tuple[int, int, int]) -> Sketch:
    """Tiles of (extent, parts, max_innermost), a category and a location; arrays need no instructions."""
    genes: list[TileGene | CategoryGene | LocationGene] = []
    start = 0
    for extent, parts, max_innermost in tiles:
        genes.append(TileGene(None, start, parts, extent, max_innermost))
        start += parts
    genes.append(CategoryGene(None, start, (0, 16, 64, 512), PROBABILITIES))
    genes.append(LocationGene(None, start + 1))
    return Sketch(None, tuple(genes))


def _factorisations(extent: int, parts: int, max_innermost: int) -> set[tuple[int, ...]]:
    divisors = [d for d in range(1, extent + 1) if extent % d == 0]
    limit = max_innermost if max_innermost > 0 else extent
    return {f for f in product(divisors, repeat=parts) if prod(f) == extent and f[-1] <= limit}


@pytest.mark.parametrize("extent", [1, 2, 12, 36, 64, 97, 120])
@pytest.mark.parametrize(("parts", "max_innermost"), [(2, 8), (2, -1), (3, 64), (4, 2)])
def test_tile_tables_hold_every_factorisation_once(extent: int, parts: int, max_innermost: int) -> None:
    table = [tuple(row) for row in tile_table(extent, parts, max_innermost).tolist()]
    assert len(table) == len(set(table))
    assert set(table) == _factorisations(extent, parts, max_innermost)


@pytest.mark.parametrize("extent", [1, 2, 97, 360, 2**31 - 1, 720720, 46337**2])
def test_prime_powers_multiply_to_the_extent(extent: int) -> None:
    found = prime_powers(extent)
    assert prod(p**e for p, e in found) == extent
    for p, _ in found:
        assert all(p % d for d in range(2, min(p, 50000)))


def test_samples_are_uniform_over_the_table_and_follow_the_probabilities() -> None:
    weights = np.array([3.0, 1.0, 2.0])
    operators = Operators(_sketch((24, 3, 4)), [weights])
    n = 40_000
    rows = operators.sample(n, np.random.default_rng(0))
    tiles = Counter(tuple(row) for row in rows[:, :3].tolist())
    expected = _factorisations(24, 3, 4)
    assert set(tiles) == expected
    assert stats.chisquare(list(tiles.values())).pvalue > 1e-3
    categories = np.bincount(rows[:, 3], minlength=4)
    assert stats.chisquare(categories, n * np.array(PROBABILITIES)).pvalue > 1e-3
    locations = Counter(rows[:, 4].tolist())
    drawn = [locations[location] for location in (-2, -1, 0)]
    assert stats.chisquare(drawn, n * weights / weights.sum()).pvalue > 1e-3


@pytest.mark.parametrize("max_innermost", [-1, 1, 4, 64])
def test_mutation_changes_one_gene_and_keeps_products_and_limits(max_innermost: int) -> None:
    sketch = _sketch(
        (360, 4, max_innermost), (97, 2, max_innermost), (1, 4, max_innermost), (64, 2, max_innermost)
    )
    operators = Operators(sketch, [np.ones(8)])
    rng = np.random.default_rng(1)
    parents = operators.sample(5_000, rng)
    children = operators.mutate(parents, rng)
    changed = np.zeros(len(parents), dtype=int)
    for gene in sketch.genes:
        columns = slice(gene.start, gene.start + (gene.parts if isinstance(gene, TileGene) else 1))
        differs = parents[:, columns] != children[:, columns]
        changed += differs.any(axis=1)
        if isinstance(gene, TileGene):
            assert (children[:, columns].prod(axis=1) == gene.extent).all()
            assert (children[:, columns] >= 1).all()
            if max_innermost > 0:
                assert (children[:, columns][:, -1] <= max_innermost).all()
            assert set(differs.sum(axis=1)) <= {0, 2}
        elif isinstance(gene, CategoryGene):
            assert set(children[:, gene.start]) == {0, 1, 2, 3}
        else:
            assert set(children[:, gene.start]) == set(range(-2, 6))
    assert (changed == 1).all()


def test_mutation_reaches_exactly_the_moves_of_a_prime_power() -> None:
    gene = TileGene(None, 0, 3, 72, 8)
    operators = Operators(Sketch(None, (gene,)), [])
    parent = (6, 3, 4)
    reachable = set()
    for source, target in product(range(3), repeat=2):
        for power in (2, 4, 8, 3, 9):
            child = list(parent)
            if source != target and child[source] % power == 0:
                child[source] //= power
                child[target] *= power
                if child[-1] <= 8:
                    reachable.add(tuple(child))
    children = operators.mutate(np.tile(parent, (20_000, 1)), np.random.default_rng(2))
    drawn = Counter(tuple(child) for child in children.tolist())
    assert set(drawn) == reachable
    assert stats.chisquare(list(drawn.values())).pvalue > 1e-3


def test_a_tile_outside_the_limit_can_only_move_out_of_the_innermost_level() -> None:
    operators = Operators(Sketch(None, (TileGene(None, 0, 2, 127 * 2, 64),)), [])
    children = operators.mutate(np.tile([1, 254], (2_000, 1)), np.random.default_rng(3))
    assert (children.prod(axis=1) == 254).all()
    assert (children[:, 0] > 1).all()


def test_a_sketch_without_a_choice_stays_as_it_is() -> None:
    sketch = Sketch(None, (TileGene(None, 0, 2, 1, 64), CategoryGene(None, 2, (0,), (1.0,))))
    operators = Operators(sketch, [])
    rows = operators.sample(5, np.random.default_rng(0))
    assert operators.size == 1
    assert (operators.mutate(rows, np.random.default_rng(0)) == rows).all()
    assert rows.tolist() == [[1, 1, 0]] * 5


def test_enumeration_is_the_product_of_all_genes() -> None:
    operators = Operators(_sketch((12, 3, 4), (7, 2, 64)), [np.ones(4)])
    rows = [tuple(row) for row in operators.enumerate().tolist()]
    expected = {
        (*first, *second, category, location)
        for first in _factorisations(12, 3, 4)
        for second in _factorisations(7, 2, 64)
        for category in range(4)
        for location in range(-2, 2)
    }
    assert len(rows) == operators.size == len(expected)
    assert set(rows) == expected

"""A made-up task whose latencies a network can learn from its rows."""

import numpy as np

from pruner.costmodel.verifier import TrainingSet
from pruner.features.batch import FeatureBatch
from pruner.features.make import EXTRACTORS
from pruner.features.statement import StatementFeatures
from pruner.features.statement_fast import StatementFastFeatures
from pruner.features.symbols import SymbolFeatures

WIDTHS = {
    "statement_fast": len(StatementFastFeatures.columns),
    "dataflow": 23,
    "primitives": 28,
    "statement": len(StatementFeatures.columns),
}
FIXED = {"dataflow": 10, "primitives": 6}


def features(n, seed=0):
    """Features of n candidates by name, and their latencies: the larger the first columns, the slower."""
    rng = np.random.default_rng(seed)
    work = rng.random(n).astype(np.float32)
    found = {}
    for name, width in WIDTHS.items():
        counts = np.full(n, FIXED[name]) if name in FIXED else rng.integers(1, 4, n)
        values = rng.random((counts.sum(), width), dtype=np.float32)
        values[:, 16:] = 0
        values[:, :4] = np.repeat(work / counts, counts)[:, None]
        found[name] = FeatureBatch(
            values, np.concatenate([[0], np.cumsum(counts)]), name, EXTRACTORS[name].version
        )
    symbols = np.zeros((n, len(SymbolFeatures.columns)), dtype=np.float32)
    symbols[:, SymbolFeatures.columns.index("seconds")] = rng.random(n)
    found["symbols"] = FeatureBatch(symbols, np.arange(n + 1), "symbols", SymbolFeatures.version)
    return found, 1e-3 * (0.1 + work)


def training_set(n=60, seed=0, failed=0, tasks=1):
    """The last `failed` have failed."""
    found, latency = features(n, seed)
    labels = latency.min() / latency
    if failed:
        labels[-failed:] = 0
    group = np.arange(n) % tasks
    return TrainingSet(found, labels.astype(np.float64), group, np.arange(n))


def subset(whole, positions):
    positions = np.asarray(positions, dtype=np.int64)
    return TrainingSet(
        {name: batch.take(positions) for name, batch in whole.features.items()},
        whole.labels[positions],
        whole.group[positions],
        whole.order[positions],
    )

"""Boosted trees that learn to rank: the verifier that is useful from the first ten records on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray

from pruner.costmodel.verifier import TrainingSet, Verifier, check_model
from pruner.errors import ConfigError
from pruner.features.batch import FeatureBatch


class XGBVerifier(Verifier):
    """XGBoost with a pairwise ranking loss: which of two candidates of one task is faster.

    A candidate with several feature rows (one per statement) is seen as their sum and the heaviest of
    them, the one with the largest sum of its columns: counts and sizes on a log scale, so the statement
    where the work is. On timed CPU programs that ranks better than sums with maxima.

    Args:
        features: the one feature it ranks by, `symbols` or `statement`.
        seed: for the trees' random choices.
        trees, depth, learning_rate: of the boosted trees; small, since a task has tens of records.
    """

    def __init__(
        self,
        *,
        features: str = "symbols",
        seed: int = 0,
        trees: int = 100,
        depth: int = 4,
        learning_rate: float = 0.1,
    ) -> None:
        self.features = (features,)
        self._seed = seed
        self._trees = trees
        self._depth = depth
        self._learning_rate = learning_rate
        self._booster: xgboost.Booster | None = None
        self._version = 0
        self._width = 0
        # What the trees see: constant columns cannot split anything and only cost time.
        self._columns = np.zeros(0, dtype=np.int64)

    @property
    def fitted(self) -> bool:  # type: ignore[override]  # it has been fitted when it has trees
        return self._booster is not None

    def fit(self, training_set: TrainingSet) -> None:
        """Learns from scratch. Records without two candidates of one task to tell apart teach nothing
        and leave it unfitted."""
        self._booster = None
        if not _has_pairs(training_set):
            return
        batch = training_set.features[self.features[0]]
        rows = _candidate_rows(batch)
        columns = _informative(rows)
        if not len(columns):
            return
        by_task = np.argsort(training_set.group, kind="stable")
        data = xgboost.DMatrix(
            rows[by_task][:, columns],
            label=training_set.labels[by_task],
            qid=np.unique(training_set.group[by_task], return_inverse=True)[1],
            nthread=1,
        )
        self._booster = xgboost.train(self._parameters(), data, num_boost_round=self._trees)
        self._version, self._width = batch.version, batch.values.shape[1]
        self._columns = columns

    def predict(self, features: Mapping[str, FeatureBatch]) -> NDArray[np.float64]:
        """Scores; 0 for all until it has been fitted."""
        batch = features[self.features[0]]
        if self._booster is None or not len(batch):
            return np.zeros(len(batch))
        self._check(batch.name, batch.version, batch.values.shape[1])
        rows = np.ascontiguousarray(_candidate_rows(batch)[:, self._columns])
        return np.asarray(self._booster.inplace_predict(rows), dtype=np.float64)

    def state_dict(self) -> dict[str, Any]:
        """The trees are XGBoost's own JSON, as bytes in a uint8 array; empty until it has been fitted."""
        raw = self._booster.save_raw("json") if self._booster is not None else b""
        return {
            "model": "xgb",
            "feature": self.features[0],
            "version": self._version,
            "width": self._width,
            "columns": self._columns,
            "trees": np.frombuffer(bytes(raw), dtype=np.uint8),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        check_model(state, "xgb")
        if state["feature"] != self.features[0]:
            raise ConfigError(
                f"the checkpoint was trained on the feature {state['feature']}, this verifier sees "
                f"{self.features[0]}: set verifier.features={state['feature']}"
            )
        raw = bytes(np.asarray(state["trees"], dtype=np.uint8))
        booster = None
        if raw:
            booster = xgboost.Booster({"nthread": 1})
            booster.load_model(bytearray(raw))
        self._booster = booster
        self._version, self._width = int(state["version"]), int(state["width"])
        self._columns = np.asarray(state["columns"], dtype=np.int64)

    def _parameters(self) -> dict[str, Any]:
        return {
            "objective": "rank:pairwise",
            # Every pair of a task counts alike, as far as XGBoost lets it.
            "lambdarank_pair_method": "topk",
            "lambdarank_num_pair_per_sample": 256,
            "max_depth": self._depth,
            "eta": self._learning_rate,
            # A pair's second derivative is small: the default of 1 would split little at ten records.
            "min_child_weight": 0.3,
            # Many columns tell nearly the same; a share of them ranks as well, in half the time.
            "colsample_bynode": 0.3,
            "tree_method": "hist",
            "max_bin": 64,
            # At a few hundred records threads cost more than they gain, and the sums stay in order.
            "nthread": 1,
            "seed": self._seed,
            "verbosity": 0,
        }

    def _check(self, name: str, version: int, width: int) -> None:
        expected = (self.features[0], self._version, self._width)
        if (name, version, width) != expected:
            raise ConfigError(
                f"the verifier was fitted on {_named(*expected)}, not on {_named(name, version, width)}: "
                "fit it again or choose the checkpoint of this release"
            )


def _named(name: str, version: int, width: int) -> str:
    return f"feature {name} version {version} of {width} columns"


def _has_pairs(training_set: TrainingSet) -> bool:
    """Whether some task has two records with different labels."""
    labels, group = training_set.labels, training_set.group
    return any(np.ptp(labels[group == task]) > 0 for task in np.unique(group))


def _candidate_rows(batch: FeatureBatch) -> NDArray[np.float32]:
    """`n x 2 width`: the sum of each candidate's rows, then its heaviest row; 0 for one without rows."""
    n, width = len(batch), batch.values.shape[1]
    rows = np.zeros((n, 2 * width), dtype=np.float32)
    counts = np.diff(batch.offsets)
    present = counts > 0
    if present.any():
        starts = batch.offsets[:-1][present]
        owner = np.repeat(np.arange(n), counts)
        heaviest_first = np.lexsort((-batch.values.sum(axis=1), owner))
        rows[present, :width] = np.add.reduceat(batch.values, starts)
        rows[present, width:] = batch.values[heaviest_first[starts]]
    return rows


def _informative(rows: NDArray[np.float32]) -> NDArray[np.int64]:
    """Columns that differ between the candidates, without those of the heaviest row that only repeat the
    sum's."""
    sums, heaviest = np.split(rows, 2, axis=1)
    useful = (rows != rows[0]).any(axis=0)
    useful[sums.shape[1] :] &= (heaviest != sums).any(axis=0)
    return np.flatnonzero(useful)

"""Boosted trees that learn to rank: the verifier that is useful from the first ten records on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray

from pruner.costmodel.prior import check_prior, prior_scores
from pruner.costmodel.verifier import TrainingSet, Verifier, check_given, check_layout, check_model, layout
from pruner.errors import ConfigError
from pruner.features.batch import FeatureBatch
from pruner.features.symbols import SymbolFeatures
from pruner.settings import positive, whole

OBJECTIVES = ("rank:pairwise", "rank:ndcg")


class XGBVerifier(Verifier):
    """XGBoost with a ranking loss: which of two candidates of one task is faster.

    The trees correct the draft's formula instead of starting from nothing: a candidate's score is
    `-prior * ln(predicted seconds)` plus the trees' sum. On timed CPU programs a model without that prior
    ranks worse than the formula even after a hundred records of a task; with it, it ranks about as well
    from the first ten and better from some sixty on.

    A candidate with several feature rows (one per statement) is seen as their sum and the heaviest of
    them, the one with the largest sum of its columns: counts and sizes on a log scale, so the statement
    where the work is. On the same programs that ranks better than sums with maxima.

    Args:
        features: the feature its trees see, `symbols`, `statement_fast` or `statement`.
        prior: weight of the draft's predicted seconds; at 4, a candidate predicted to take twice as long
            starts as the slower one with odds of 16 to 1. 0 = trees alone.
        objective: `rank:pairwise`, or `rank:ndcg`, which weighs pairs near the top more.
        seed: for the trees' random choices.
        trees, depth, learning_rate: of the boosted trees; small, since a task has tens of records.
    """

    def __init__(
        self,
        *,
        features: str = "symbols",
        prior: float = 4.0,
        objective: str = "rank:pairwise",
        seed: int = 0,
        trees: int = 100,
        depth: int = 4,
        learning_rate: float = 0.05,
    ) -> None:
        whole(1, trees=trees, depth=depth)
        positive(learning_rate=learning_rate)
        check_prior(prior)
        if objective not in OBJECTIVES:
            raise ConfigError(
                f"verifier.objective={objective} is not accepted: give {' or '.join(OBJECTIVES)}."
            )
        # The predicted seconds are one of the symbols.
        self.features = (features, SymbolFeatures.name) if prior and features != "symbols" else (features,)
        self._prior = prior
        self._objective = objective
        self._seed = seed
        self._trees = trees
        self._depth = depth
        self._learning_rate = learning_rate
        self._booster: xgboost.Booster | None = None
        # Name, version and width of the batches it was fitted on.
        self._seen: list[list[Any]] = []
        # What the trees see: constant columns cannot split anything and only cost time.
        self._columns = np.zeros(0, dtype=np.int64)

    @property
    def fitted(self) -> bool:  # type: ignore[override]  # it has been fitted when it has trees
        return self._booster is not None

    def fit(self, training_set: TrainingSet) -> None:
        """Learns from scratch. Records without two candidates of one task to tell apart teach nothing
        and leave it unfitted."""
        self._booster, self._seen, self._columns = None, [], np.zeros(0, dtype=np.int64)
        if not training_set.tells_apart:
            return
        rows = _candidate_rows(training_set.features[self.features[0]])
        columns = _informative(rows)
        if not len(columns):
            return
        data = self._data(training_set, rows[:, columns])
        self._booster = xgboost.train(self._parameters(), data, num_boost_round=self._trees)
        self._seen = layout(training_set.features, self.features)
        self._columns = columns

    def refine(self, training_set: TrainingSet, *, epochs: int | None = None) -> None:
        """Continued boosting: `epochs` further trees, by default a fifth of `trees`, on the columns that its
        trees already see. One that is not fitted is fitted."""
        if self._booster is None:
            self.fit(training_set)
            return
        check_layout(self._seen, training_set.features)
        if not training_set.tells_apart:
            return
        rows = _candidate_rows(training_set.features[self.features[0]])
        self._booster = xgboost.train(
            self._parameters(),
            self._data(training_set, rows[:, self._columns]),
            num_boost_round=epochs or max(1, self._trees // 5),
            xgb_model=self._booster,
        )

    def predict(self, features: Mapping[str, FeatureBatch]) -> NDArray[np.float64]:
        """Scores; 0 for all until it has been fitted."""
        check_given(features, self.features)
        batch = features[self.features[0]]
        if self._booster is None or not len(batch):
            return np.zeros(len(batch))
        check_layout(self._seen, features)
        rows = np.ascontiguousarray(_candidate_rows(batch)[:, self._columns])
        scores = self._booster.inplace_predict(rows, base_margin=self._expected(features))
        return np.asarray(scores, dtype=np.float64)

    def state_dict(self) -> dict[str, Any]:
        """The trees are XGBoost's own JSON, as bytes in a uint8 array; empty until it has been fitted."""
        raw = self._booster.save_raw("json") if self._booster is not None else b""
        return {
            "model": "xgb",
            "features": list(self.features),
            "prior": self._prior,
            "seen": self._seen,
            "columns": self._columns,
            "trees": np.frombuffer(bytes(raw), dtype=np.uint8),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        check_model(state, "xgb")
        theirs, ours = (list(state["features"]), state["prior"]), (list(self.features), self._prior)
        if theirs != ours:
            raise ConfigError(
                f"the checkpoint has features {', '.join(theirs[0])} and prior {theirs[1]}, this verifier "
                f"{', '.join(ours[0])} and {ours[1]}: set verifier.features={theirs[0][0]} and "
                f"verifier.prior={theirs[1]}"
            )
        seen: list[list[Any]] = [[str(n), int(version), int(width)] for n, version, width in state["seen"]]
        columns = np.asarray(state["columns"], dtype=np.int64)
        # Of the sum and of the heaviest row.
        there = 2 * seen[0][2] if seen else 0
        if columns.ndim != 1 or (columns < 0).any() or (columns >= there).any():
            raise ConfigError(
                f"the checkpoint's trees see column {columns.max(initial=0)} and others of {there}: choose "
                "another checkpoint"
            )
        raw = bytes(np.asarray(state["trees"], dtype=np.uint8))
        booster = None
        if raw:
            booster = xgboost.Booster({"nthread": 1})
            try:
                booster.load_model(bytearray(raw))
            except (xgboost.core.XGBoostError, ValueError) as error:
                reason = str(error).strip().partition("\n")[0]
                raise ConfigError(
                    f"the checkpoint's trees cannot be read ({reason}): choose another checkpoint"
                ) from error
            if booster.num_features() != len(columns):
                raise ConfigError(
                    f"the checkpoint's trees see {booster.num_features()} columns and it names "
                    f"{len(columns)}: choose another checkpoint"
                )
        self._booster = booster
        self._seen = seen
        self._columns = columns

    def _data(self, training_set: TrainingSet, rows: NDArray[np.float32]) -> xgboost.DMatrix:
        """The records task by task. rows: `n x columns` that the trees see."""
        by_task = np.argsort(training_set.group, kind="stable")
        return xgboost.DMatrix(
            rows[by_task],
            label=training_set.labels[by_task],
            qid=np.unique(training_set.group[by_task], return_inverse=True)[1],
            base_margin=self._expected(training_set.features)[by_task],
            nthread=1,
        )

    def _expected(self, features: Mapping[str, FeatureBatch]) -> NDArray[np.float32]:
        """float32[n]: the score before any tree."""
        if not self._prior:
            return np.zeros(len(features[self.features[0]]), dtype=np.float32)
        return prior_scores(features, self._prior)

    def _parameters(self) -> dict[str, Any]:
        return {
            "objective": self._objective,
            # Labels are shares of the best, not the grades that an exponential gain is made for.
            "ndcg_exp_gain": False,
            # Every pair of a task counts alike, as far as XGBoost lets it.
            "lambdarank_pair_method": "topk",
            "lambdarank_num_pair_per_sample": 256,
            "max_depth": self._depth,
            "eta": self._learning_rate,
            # A pair's second derivative is small: the default of 1 would split little at ten records.
            "min_child_weight": 0.3,
            # Many columns tell nearly the same; a share of them ranks as well, in half the time.
            "colsample_bynode": 0.3,
            # Strong: at ten records a tree's leaf is only a few pairs.
            "reg_lambda": 5,
            "tree_method": "hist",
            "max_bin": 64,
            # At a few hundred records threads cost more than they gain, and the sums stay in order.
            "nthread": 1,
            "seed": self._seed % 2**31,
            "verbosity": 0,
        }


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

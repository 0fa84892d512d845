"""A verifier that is another one, left as it is, plus a small network that learns what that one misses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pruner.costmodel.verifier import TrainingSet, Verifier, check_layout, check_model, layout
from pruner.errors import ConfigError
from pruner.features.batch import FeatureBatch

try:
    import torch
    from torch import Tensor, nn

    from pruner.costmodel.layers import encoder
    from pruner.costmodel.losses import mse
    from pruner.costmodel.networks import Network
    from pruner.costmodel.normaliser import Normaliser
    from pruner.costmodel.pytorch import run_with, seeded
    from pruner.costmodel.rows import Rows
    from pruner.costmodel.training import Examples, Schedule, train
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ConfigError(
        "adapt=gap needs PyTorch, which is not installed: pip install 'pruner-tvm[neural]', or choose "
        "adapt=finetune."
    ) from None

HIDDEN = 128
_BRANCH = "candidate"
_CPU = torch.device("cpu")


class GapNetwork(Network):
    """An MLP over one row a candidate. Its last layer starts at 0: without records there is no gap."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.hidden = encoder(width, HIDDEN, HIDDEN)
        self.decoder = nn.Linear(HIDDEN, 1)
        nn.init.zeros_(self.decoder.weight)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, rows: Mapping[str, Rows]) -> Tensor:
        scores: Tensor = self.decoder(self.hidden(rows[_BRANCH].values)).squeeze(1)
        return scores


class GapVerifier(Verifier):
    """`slope * base + gap` (TenSet's residual model, `plus_mix_task` of its few-shot learning).

    TenSet's base predicts throughputs, which the gap is added to. A base here ranks: its scores have a scale
    of their own and one offset a task. So they are first brought to the labels' scale by the slope, not
    negative, that fits the labels best within tasks (least squares); the gap learns what then remains, within
    tasks too. Until it has been fitted it scores as the base does.

    Args:
        base: the pre-trained verifier, which nothing here changes but `load_state_dict`.
        epochs: of a fit. rate: of Adam, which falls to nothing. seed: of the first weights and the order.
    """

    def __init__(self, *, base: Verifier, epochs: int = 50, rate: float = 7e-4, seed: int = 0) -> None:
        self.base = base
        self.features = base.features
        self._schedule = Schedule(epochs=epochs, rate=rate, anneal=True)
        self._seed = seed
        self.slope = 1.0
        self._network: GapNetwork | None = None
        self._normaliser: Normaliser | None = None
        # Name, version and width of what the gap was fitted on.
        self._seen: list[list[Any]] = []

    @property
    def fitted(self) -> bool:  # type: ignore[override]  # it ranks as soon as its base does
        return bool(self.base.fitted)

    def fit(self, training_set: TrainingSet) -> None:
        """Fits slope and gap anew. Records without two candidates of one task to tell apart teach nothing and
        leave the base alone. Raises ConfigError when the base has not been fitted."""
        if not self.base.fitted:
            raise ConfigError("the base of the gap model is unfitted: give it a checkpoint, or fit it.")
        self._forget()
        if not training_set.tells_apart:
            return
        labels = _within(training_set.labels, training_set.group)
        scores = _within(self.base.predict(training_set.features), training_set.group)
        square = float(scores @ scores)
        slope = max(0.0, float(scores @ labels) / square) if square else 0.0
        batch = self._summed(training_set.features)
        normaliser = Normaliser.fitted("standard", batch)
        examples = Examples(
            {_BRANCH: Rows.of(normaliser(batch), _CPU)},
            torch.from_numpy((labels - slope * scores).astype(np.float32)),
            torch.zeros(len(labels)),
            training_set.group,
        )
        network = self._new(batch.values.shape[1])
        with run_with(1):
            train(network, examples, mse, self._schedule, np.random.default_rng(self._seed))
        self._seen = layout(training_set.features, self.features)
        self._network, self._normaliser, self.slope = network, normaliser, slope

    def predict(self, features: Mapping[str, FeatureBatch]) -> NDArray[np.float64]:
        scores = self.base.predict(features)
        return scores if self._network is None else self.slope * scores + self.gap(features)

    def gap(self, features: Mapping[str, FeatureBatch]) -> NDArray[np.float64]:
        """What is added to the base's scores, float64[n]; 0 until it has been fitted."""
        if self._network is None or self._normaliser is None:
            return np.zeros(len(features[self.features[0]]))
        check_layout(self._seen, features)
        with torch.inference_mode(), run_with(1):
            rows = Rows.of(self._normaliser(self._summed(features)), _CPU)
            found: NDArray[np.float64] = self._network({_BRANCH: rows}).double().numpy()
        return found

    def state_dict(self) -> dict[str, Any]:
        own = {} if self._network is None else self._network.state_dict()
        return {
            "model": "gap",
            "base": self.base.state_dict(),
            "seen": self._seen,
            "slope": self.slope,
            "normaliser": None if self._normaliser is None else dict(vars(self._normaliser)),
            "gap": {name: tensor.numpy() for name, tensor in own.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        check_model(state, "gap")
        self.base.load_state_dict(state["base"])
        self._forget()
        if state["normaliser"] is None:
            return
        self._seen = [[str(name), int(version), int(width)] for name, version, width in state["seen"]]
        width = sum(columns for *_, columns in self._seen)
        network = self._new(width)
        network.load_state_dict({name: torch.from_numpy(np.array(a)) for name, a in state["gap"].items()})
        self._normaliser = Normaliser.loaded("the gap", state["normaliser"], width)
        self._network, self.slope = network.eval(), float(state["slope"])

    def _forget(self) -> None:
        """As before the first fit."""
        self.slope, self._network, self._normaliser, self._seen = 1.0, None, None, []

    def _new(self, width: int) -> GapNetwork:
        with seeded(self._seed):
            return GapNetwork(width)

    def _summed(self, features: Mapping[str, FeatureBatch]) -> FeatureBatch:
        """One row a candidate: the sums of its rows of every feature, side by side."""
        sums = [_sums(features[name]) for name in self.features]
        return FeatureBatch(np.concatenate(sums, axis=1), np.arange(len(sums[0]) + 1), _BRANCH, 1)


def _sums(batch: FeatureBatch) -> NDArray[np.float32]:
    """`n x width`: the sum of each candidate's rows; 0 for one without rows."""
    sums = np.zeros((len(batch), batch.values.shape[1]), dtype=np.float32)
    owner = np.repeat(np.arange(len(batch)), np.diff(batch.offsets))
    np.add.at(sums, owner, batch.values)
    return sums


def _within(values: NDArray[np.float64], group: NDArray[np.int64]) -> NDArray[np.float64]:
    """Values less the mean of their task's."""
    task = np.unique(group, return_inverse=True)[1]
    means = np.bincount(task, weights=values) / np.bincount(task)
    return np.asarray(values - means[task])

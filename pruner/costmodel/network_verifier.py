"""What all verifiers that are networks share: a subclass names its features and makes its network."""

from __future__ import annotations

import copy
import hashlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pruner.costmodel.prior import check_prior, prior_scores
from pruner.costmodel.verifier import TrainingSet, Verifier, check_given, check_layout, check_model, layout
from pruner.errors import ConfigError
from pruner.features.batch import FeatureBatch
from pruner.features.symbols import SymbolFeatures
from pruner.settings import positive, whole

try:
    import torch

    from pruner.costmodel.losses import loss_of
    from pruner.costmodel.networks import Network
    from pruner.costmodel.normaliser import Normaliser, check_form
    from pruner.costmodel.pytorch import check_threads, device_of, run_with, seeded
    from pruner.costmodel.resume import Resume, check_resume
    from pruner.costmodel.rows import Rows
    from pruner.costmodel.training import Examples, Progress, Schedule, Trained, train
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ConfigError(
        "this verifier needs PyTorch, which is not installed: pip install 'pruner-tvm[neural]', or choose "
        "verifier=xgb."
    ) from None

# Candidates that are scored at a time: what bounds the memory.
_BATCH = 1024


class NeuralVerifier(Verifier):
    """A network that learns to rank, by default as TenSet, TLP and Pruner do: LambdaRank and Adam.

    Args:
        loss: lambda_rank, rank_net, list_net or mse.
        mixed: a list is a step, whatever the tasks in it, as in the papers' code; else every list is of one
            task.
        epochs, visits, rate, anneal: of a fit; see training.Schedule. The papers train for 50 epochs at one
            rate; `visits` bounds what a fit while tuning takes.
        fit_seconds: no epoch but the first begins after so many.
        prior: weight of the draft's predicted seconds that the network corrects; 0 = the network alone.
        shrink: how much a correction must be worth, see training.Schedule; of no account without a prior.
        normaliser: `standard` or `maximum`, see normaliser.Normaliser.
        device: cpu or cuda, where it is trained and asked. threads: of PyTorch meanwhile; on a few hundred
            records a second one gains little, and costs much where the core is busy.
        resume: a file that keeps a training's state, from which the same training goes on after a cut.
        seed: of the first weights and of the order in training.
    """

    model: ClassVar[str]
    # The branch that reads its rows as a sequence, of one length for all candidates.
    sequence: ClassVar[str | None] = None
    # Whether BatchNorm scores with the statistics of the candidates at hand and not with those it has seen in
    # training, so that a candidate's score depends on its company.
    batch_statistics: bool = False

    def __init__(
        self,
        *,
        loss: str = "lambda_rank",
        mixed: bool = False,
        epochs: int = 100,
        visits: int | None = 5_000,
        rate: float = 7e-4,
        anneal: bool = True,
        fit_seconds: float = 600.0,
        prior: float = 4.0,
        shrink: float = 0.1,
        normaliser: str = "standard",
        device: str = "cpu",
        threads: int = 1,
        resume: str | None = None,
        seed: int = 0,
    ) -> None:
        whole(1, **{"verifier.epochs": epochs})
        check_threads(threads)
        if visits is not None:
            whole(1, **{"verifier.visits": visits})
        positive(**{"verifier.rate": rate, "verifier.fit_seconds": fit_seconds})
        check_prior(prior)
        if not 0 <= shrink < float("inf"):
            raise ConfigError(f"verifier.shrink={shrink} is not accepted: give a number of at least 0.")
        check_form(normaliser)
        if prior and loss in ("mse", "list_net"):
            raise ConfigError(
                f"verifier.loss={loss} fits scores to labels, which a prior is no part of: give "
                "verifier.prior=0, or the loss lambda_rank or rank_net."
            )
        self._loss = loss_of(loss)
        self._schedule = Schedule(
            epochs=epochs,
            visits=visits,
            rate=rate,
            seconds=fit_seconds,
            mixed=mixed,
            anneal=anneal,
            shrink=shrink if prior else 0.0,
        )
        self._settings = {"loss": loss, "mixed": mixed, "prior": prior, "normaliser": normaliser}
        self._prior = prior
        self._form = normaliser
        self._device = device_of(device)
        self._threads = threads
        self._resume = None if resume is None else Path(resume)
        if self._resume is not None:
            check_resume(self._resume)
        self._seed = seed
        self._network: Network | None = None
        # None = columns are divided by their maxima in whatever it is asked about, until it is refined.
        self._normalisers: dict[str, Normaliser] | None = {}
        # Whether every training makes them anew, and until one they are those of the candidates at hand: of
        # weights that came without any.
        self._of_records = False
        # Of the sequence that it was fitted on.
        self._length: int | None = None
        # Name, version and width of what it was fitted on.
        self._seen: list[list[Any]] = []
        self.features = (*self.branches().values(), *((SymbolFeatures.name,) if prior else ()))
        self.trained: Trained | None = None
        self.progress: Progress | None = None

    @abstractmethod
    def branches(self) -> Mapping[str, str]:
        """The feature that each branch of the network reads."""

    @abstractmethod
    def make(self, widths: Mapping[str, int]) -> Network:
        """A network with new weights for features of so many columns, by branch."""

    @property
    def fitted(self) -> bool:  # type: ignore[override]  # it has been fitted when it has a network
        return self._network is not None

    def fit(self, training_set: TrainingSet) -> None:
        """Learns from new weights. Records without two candidates of one task to tell apart teach nothing and
        leave it unfitted."""
        self._network, self._seen, self._length = None, [], None
        self._normalisers, self._of_records, self.trained = {}, False, None
        if not training_set.tells_apart:
            return
        self._normalisers = self._suiting(training_set.features)
        self._length = self._longest(training_set.features)
        self._seen = layout(training_set.features, self.features)
        self._network = self._trained(
            self._new(self._seen), training_set, self._schedule, self._resumed(training_set)
        )

    def refine(self, training_set: TrainingSet, *, epochs: int | None = None) -> None:
        """Trains on from its weights, with what it was fitted with: loss, schedule, normalisers, prior. One
        that is not fitted is fitted. epochs: at most.

        BatchNorm's running statistics go on as well: on ten to sixty records of a task that the checkpoint
        had not seen that ranked the rest better than statistics that stay, by 0.2 to 0.35 points of pairwise
        accuracy.
        """
        if self._network is None:
            self.fit(training_set)
            return
        self._check(training_set.features)
        if not training_set.tells_apart:
            return
        if self._of_records:
            self._normalisers = self._suiting(training_set.features)
        schedule = self._schedule if epochs is None else replace(self._schedule, epochs=epochs)
        # A copy: training that fails leaves what there is.
        self._network = self._trained(copy.deepcopy(self._network), training_set, schedule, None)

    def predict(self, features: Mapping[str, FeatureBatch]) -> NDArray[np.float64]:
        """Scores; 0 for all until it has been fitted."""
        check_given(features, self.features)
        n = len(features[self.features[0]])
        if self._network is None or not n:
            return np.zeros(n)
        self._check(features)
        rows = self._rows(features)
        network, step = self._network, _BATCH
        if self.batch_statistics and n > 1:
            network, step = copy.deepcopy(network).train(), n  # a copy: it would learn from what it sees
        found = []
        with torch.inference_mode(), run_with(self._threads):
            for start in range(0, n, step):
                part = torch.arange(start, min(start + step, n), device=self._device)
                found.append(network({branch: own.take(part) for branch, own in rows.items()}))
            scores = torch.cat(found) + self._expected(features)
        return scores.double().cpu().numpy()

    def state_dict(self) -> dict[str, Any]:
        """Weights and normalisers as arrays; without them until it has been fitted."""
        weights = self._network.state_dict() if self._network is not None else {}
        own = self._normalisers
        return {
            "model": self.model,
            "features": list(self.features),
            "settings": dict(self._settings),
            "seen": self._seen,
            "length": self._length,
            "normalisers": None if own is None else {name: dict(vars(one)) for name, one in own.items()},
            "weights": {name: tensor.cpu().numpy() for name, tensor in weights.items()},
            # Which of the weights are none: what BatchNorm has seen.
            "buffers": [] if self._network is None else [name for name, _ in self._network.named_buffers()],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        check_model(state, self.model)
        theirs = list(state["features"]), state["settings"]["prior"]
        ours = list(self.features), self._prior
        if theirs != ours:
            raise ConfigError(
                f"the checkpoint sees {', '.join(theirs[0])} with prior {theirs[1]}, this verifier "
                f"{', '.join(ours[0])} with prior {ours[1]}: choose the settings that it was trained "
                "with (of those that ship, checkpoints/README.md lists them), or make it again"
            )
        if not state["weights"]:
            self._network, self._seen, self._length = None, [], None
            self._normalisers, self._of_records, self.trained = {}, False, None
            return
        seen: list[list[Any]] = [[str(n), int(version), int(width)] for n, version, width in state["seen"]]
        network = self._new(seen)
        expected = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
        given = {name: tuple(np.shape(array)) for name, array in state["weights"].items()}
        for name in sorted(expected.keys() | given):
            if expected.get(name) != given.get(name):
                raise ConfigError(
                    f"the checkpoint's weights are not those of {self.model}: {name} has the shape "
                    f"{given.get(name)}, needed is {expected.get(name)}. Choose another checkpoint."
                )
        normalisers = None
        if state["normalisers"] is not None:
            normalisers = {
                name: Normaliser.loaded(name, state["normalisers"].get(name, {}), width)
                for name, _, width in seen
                if name in self.branches().values()
            }
        elif self._form != "maximum":
            raise ConfigError(
                f"the checkpoint divides columns by the maxima of the candidates at hand, and this "
                f"verifier's normaliser is {self._form}: give verifier.normaliser=maximum"
            )
        network.load_state_dict({n: torch.from_numpy(np.array(a)) for n, a in state["weights"].items()})
        self._network, self._seen, self._length = network.eval(), seen, state["length"]
        self._normalisers, self._of_records = normalisers, normalisers is None

    def _new(self, seen: Sequence[Sequence[Any]]) -> Network:
        """A network from the seed for such features; torch's own generator is left as it is."""
        widths = {name: width for name, _, width in seen}
        by_branch = {branch: widths[name] for branch, name in self.branches().items()}
        with seeded(self._seed):
            return self.make(by_branch).to(self._device)

    def _trained(
        self, network: Network, training_set: TrainingSet, schedule: Schedule, resume: Resume | None
    ) -> Network:
        examples = Examples(
            self._rows(training_set.features),
            torch.from_numpy(training_set.labels.astype(np.float32)).to(self._device),
            self._expected(training_set.features),
            training_set.group,
        )
        rng = np.random.default_rng(self._seed)
        with run_with(self._threads):
            self.trained = train(
                network, examples, self._loss, schedule, rng, progress=self.progress, resume=resume
            )
        return network

    def _check(self, features: Mapping[str, FeatureBatch]) -> None:
        """Raises ConfigError unless the features are such as it was fitted on."""
        check_layout(self._seen, features)
        length = self._longest(features)
        if len(features[self.features[0]]) and length != self._length:
            raise ConfigError(
                f"the verifier was fitted on {self._length} rows of {self.branches()[str(self.sequence)]} a "
                f"candidate, not on {length}: fit it again, or choose a checkpoint for this kind of device."
            )

    def _suiting(self, features: Mapping[str, FeatureBatch]) -> dict[str, Normaliser]:
        """Normalisers for records like these."""
        return {name: Normaliser.fitted(self._form, features[name]) for name in self.branches().values()}

    def _longest(self, features: Mapping[str, FeatureBatch]) -> int | None:
        """Rows of the longest sequence; None where no branch reads one."""
        name = self.branches().get(self.sequence or "")
        return None if name is None else int(np.diff(features[name].offsets).max(initial=0))

    def _rows(self, features: Mapping[str, FeatureBatch]) -> dict[str, Rows]:
        normalisers = self._suiting(features) if self._normalisers is None else self._normalisers
        return {
            branch: Rows.of(normalisers[name](features[name]), self._device)
            for branch, name in self.branches().items()
        }

    def _expected(self, features: Mapping[str, FeatureBatch]) -> torch.Tensor:
        """float32[n]: the score that the network corrects."""
        if not self._prior:
            return torch.zeros(len(features[self.features[0]]), device=self._device)
        return torch.from_numpy(prior_scores(features, self._prior)).to(self._device)

    def _resumed(self, training_set: TrainingSet) -> Resume | None:
        if self._resume is None:
            return None
        digest = hashlib.blake2b(f"{self.model} {self._settings} {self._schedule} {self._seed}".encode())
        digest.update(f"{self._seen} {torch.__version__}".encode())
        for array in (training_set.labels, training_set.group):
            digest.update(array.tobytes())
        for name in self.features:
            batch = training_set.features[name]
            digest.update(batch.values.tobytes())
            digest.update(batch.offsets.tobytes())
        return Resume(self._resume, digest.hexdigest())

"""Training a network on measured candidates: splits, steps, early stopping."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pruner.costmodel.losses import Loss, in_lists
from pruner.costmodel.networks import Network
from pruner.costmodel.resume import Resume
from pruner.costmodel.rows import Rows
from pruner.errors import ConfigError

Ints = NDArray[np.int64]
# Told after every epoch: its number, of how many, the loss in training, the loss in validation or None.
Progress = Callable[[int, int, float, float | None], None]

# Of a small training set an epoch has about this many steps, of no fewer candidates than this.
_STEPS, _LEAST = 8, 32


@dataclass(frozen=True)
class Schedule:
    """How long and how fast.

    epochs: at most. visits: candidates shown in all epochs together, at most (one epoch at least); None = no
    limit. step: candidates of an optimiser's step, at most. longest: candidates of a list; a task with more
    is cut into random lists anew in every epoch. rate, decay: of Adam. clip: of the gradient's norm.
    anneal: the rate falls to nothing along half a cosine, all records are learnt from, and the last weights
    are kept; else the rate stays, training does not see the share `validation` of every task's records, it
    ends after `patience` epochs without a better loss (in validation where there is one), and the best
    weights are kept. seconds: no epoch but the first begins after so many. mixed: all of a step is one list,
    whatever the tasks, as in the papers' code. shrink: weight of the mean square of the network's scores,
    about their list's mean, in the loss: what keeps it close to the prior where records do not speak.
    """

    epochs: int = 50
    visits: int | None = None
    step: int = 512
    longest: int = 128
    rate: float = 7e-4
    decay: float = 1e-6
    clip: float = 0.5
    anneal: bool = False
    validation: float = 0.1
    patience: int = 16
    seconds: float = 600.0
    mixed: bool = False
    shrink: float = 0.0

    def epochs_of(self, n: int) -> int:
        """How many epochs n candidates are shown in."""
        return self.epochs if self.visits is None else min(self.epochs, max(1, self.visits // n))

    def rate_of(self, done: float) -> float:
        """The rate when this share of all steps, 0 to 1, is done."""
        return self.rate * (0.5 + 0.5 * math.cos(math.pi * done)) if self.anneal else self.rate

    def step_of(self, n: int) -> int:
        """Candidates of a step of n."""
        return min(self.step, max(_LEAST, n // _STEPS))


@dataclass(frozen=True, eq=False)
class Examples:
    """What a network learns from: the rows of n candidates by branch, labels and prior float32[n] (the scores
    that it corrects), group int64[n]."""

    rows: Mapping[str, Rows]
    labels: Tensor
    prior: Tensor
    group: Ints


@dataclass(frozen=True)
class Trained:
    """What came of it: epochs run, the loss of the weights that were kept and whether it is validation's,
    seconds."""

    epochs: int
    loss: float
    validated: bool
    seconds: float


def train(
    network: Network,
    examples: Examples,
    loss: Loss,
    schedule: Schedule,
    rng: np.random.Generator,
    *,
    progress: Progress | None = None,
    resume: Resume | None = None,
) -> Trained:
    """Trains the network where it is and leaves it with the weights to keep, in eval mode.

    Args:
        rng: splits and orders. torch's own generator is not used, so that a network that is made from a seed
            ends the same on the same CPU, unless time cuts it short.
        resume: where the state is kept meanwhile, and taken up from.

    Raises ConfigError when no epoch had a finite loss.
    """
    start = time.monotonic()
    kept, held = split(examples.group, 0.0 if schedule.anneal else schedule.validation, rng)
    optimiser = torch.optim.Adam(network.parameters(), lr=schedule.rate, weight_decay=schedule.decay)
    best, since, epoch = float("inf"), 0, 0
    weights = copy.deepcopy(network.state_dict())
    if resume is not None and (found := resume.load(network, optimiser, rng)) is not None:
        epoch, best, since, weights, spent = found
        start -= spent
    epochs = schedule.epochs_of(len(kept))
    # A network of no epoch at all would rank by its first weights.
    while epoch < epochs and (
        epoch == 0 or (since < schedule.patience and time.monotonic() - start < schedule.seconds)
    ):
        epoch += 1
        network.train()
        losses = []
        parts = list(steps(examples.group, kept, schedule, rng))
        for number, step in enumerate(parts):
            done, late = (epoch - 1 + number / len(parts)) / epochs, time.monotonic() - start
            if late > schedule.seconds / 2:
                # Time will cut it short, unless it is ahead; it is to end at a low rate then as well.
                done = max(done, min(1.0, late / schedule.seconds))
            for group in optimiser.param_groups:
                group["lr"] = schedule.rate_of(done)
            optimiser.zero_grad()
            found_loss = _loss(network, examples, loss, schedule.shrink, *step)
            found_loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            torch.nn.utils.clip_grad_norm_(network.parameters(), schedule.clip)
            optimiser.step()
            losses.append(found_loss.item())
        network.eval()
        seen = float(np.mean(losses)) if losses else float("inf")
        validated = None
        if len(held):
            fixed = np.random.default_rng(0)  # the same lists in every epoch
            with torch.no_grad():
                parts = list(steps(examples.group, held, schedule, fixed))
                found_losses = [_loss(network, examples, loss, schedule.shrink, *step) for step in parts]
            validated = float(np.mean([one.item() for one in found_losses]))
        if progress is not None:
            progress(epoch, epochs, seen, validated)
        current = seen if validated is None else validated
        since += 1
        if current < best or (schedule.anneal and math.isfinite(current)):
            best, since, weights = current, 0, copy.deepcopy(network.state_dict())
        if resume is not None:
            resume.save(network, optimiser, rng, (epoch, best, since, weights, time.monotonic() - start))
    if epoch and best == float("inf"):
        raise ConfigError(
            f"the loss was not finite in any of {epoch} epochs, so that nothing was learnt: lower "
            "verifier.rate, or choose another verifier.loss."
        )
    network.load_state_dict(weights)
    network.eval()
    if resume is not None:
        resume.done()
    return Trained(epoch, best, bool(len(held)), time.monotonic() - start)


def steps(
    group: Ints, kept: Ints, schedule: Schedule, rng: np.random.Generator
) -> Iterator[tuple[Ints, Ints]]:
    """The steps of an epoch over the candidates `kept`: which candidates, and the list of each, from 0. A
    list of one candidate says nothing and is left out."""
    shuffled = rng.permutation(kept)
    step = schedule.step_of(len(kept))
    if schedule.mixed:
        lists = _cut(shuffled, step)
    else:
        by_task = shuffled[np.argsort(group[shuffled], kind="stable")]
        ends = np.flatnonzero(np.diff(group[by_task])) + 1
        lists = [part for own in np.split(by_task, ends) for part in _cut(own, min(schedule.longest, step))]
        lists = [lists[i] for i in rng.permutation(len(lists))]
    waiting: list[Ints] = []
    for one in lists:
        if len(one) < 2:
            continue
        if waiting and sum(map(len, waiting)) + len(one) > step:
            yield _joined(waiting)
            waiting = []
        waiting.append(one)
    if waiting:
        yield _joined(waiting)


def split(group: Ints, share: float, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Candidates to train on and to validate with: of every task the share, where that is two at least."""
    held: list[Ints] = []
    for task in np.unique(group):
        own = rng.permutation(np.flatnonzero(group == task))
        n = int(share * len(own))
        if n >= 2:
            held.append(own[:n])
    out = np.sort(np.concatenate(held)) if held else np.empty(0, dtype=np.int64)
    return np.setdiff1d(np.arange(len(group)), out), out


def _loss(
    network: Network, examples: Examples, loss: Loss, shrink: float, candidates: Ints, lists: Ints
) -> Tensor:
    device = examples.labels.device
    chosen = torch.from_numpy(candidates).to(device)
    places = torch.from_numpy(lists).to(device)
    scores = network({branch: rows.take(chosen) for branch, rows in examples.rows.items()})
    padded, mask = in_lists(scores + examples.prior[chosen], places)
    found = loss(padded, in_lists(examples.labels[chosen], places)[0], mask)
    if not shrink:
        return found
    own, _ = in_lists(scores, places)
    means = own.sum(dim=1) / mask.sum(dim=1)
    pulled: Tensor = found + shrink * (scores - means[places]).square().mean()
    return pulled


def _cut(candidates: Ints, longest: int) -> list[Ints]:
    """As many parts as needed, of nearly one length."""
    return np.array_split(candidates, max(1, -(-len(candidates) // longest)))


def _joined(lists: list[Ints]) -> tuple[Ints, Ints]:
    return np.concatenate(lists), np.repeat(np.arange(len(lists)), [len(one) for one in lists])

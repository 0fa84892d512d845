"""A training that goes on where it was cut off: all of its state in one file, written after every epoch."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from pruner.errors import ConfigError
from pruner.files import draft_of

# Epochs run, the best loss, epochs since it, its weights, seconds spent.
Place = tuple[int, float, int, dict[str, Tensor], float]


def check_resume(path: Path) -> None:
    """Raises ConfigError unless a training's state can be kept there: a file of one, or none in a folder that
    is there."""
    if path.exists():
        try:
            with safe_open(path, framework="pt") as file:
                found = "training" in (file.metadata() or {})
        except (OSError, SafetensorError):
            found = False
        if not found:
            raise ConfigError(
                f"verifier.resume={path} is there and is no training's state: give a file of one, or one "
                "that is not there yet."
            )
    elif not os.access(path.parent, os.W_OK):
        raise ConfigError(
            f"verifier.resume={path}: {path.parent} is no folder that can be written to. Give another."
        )


@dataclass(frozen=True)
class Resume:
    """path: the file; its folder is there. key: what the training is of (data, settings); the state of
    another is not taken up."""

    path: Path
    key: str

    def load(
        self, network: nn.Module, optimiser: torch.optim.Optimizer, rng: np.random.Generator
    ) -> Place | None:
        """Brings the three to where they were; None, and nothing is changed, when there is no state of this
        training to take up."""
        try:
            with safe_open(self.path, framework="pt") as file:
                said = json.loads((file.metadata() or {})["training"])
                if said["key"] != self.key:
                    return None
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 # no mapping
            state = optimiser.state_dict()
            state["state"] = {
                i: {part: tensors[f"adam/{i}/{part}"] for part in ("step", "exp_avg", "exp_avg_sq")}
                for i in range(len(list(network.parameters())))
            }
            last, best = (_under(kind, tensors) for kind in ("last", "best"))
            place = (said["epoch"], said["best"], said["since"], best, said["seconds"])
        except (OSError, SafetensorError, KeyError, ValueError, TypeError):
            return None
        network.load_state_dict(last)
        optimiser.load_state_dict(state)
        rng.bit_generator.state = said["rng"]
        return place

    def save(
        self, network: nn.Module, optimiser: torch.optim.Optimizer, rng: np.random.Generator, place: Place
    ) -> None:
        """Writes the state; the file appears whole or not at all. Raises ConfigError when it cannot be
        written."""
        epoch, best, since, weights, seconds = place
        tensors = {f"last/{name}": tensor for name, tensor in network.state_dict().items()}
        tensors |= {f"best/{name}": tensor for name, tensor in weights.items()}
        for i, parts in optimiser.state_dict()["state"].items():
            tensors |= {f"adam/{i}/{part}": tensor for part, tensor in parts.items()}
        said: dict[str, Any] = {"key": self.key, "epoch": epoch, "best": best, "since": since}
        said |= {"seconds": seconds, "rng": rng.bit_generator.state}
        content = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        try:
            with draft_of(self.path) as draft:
                draft.write_bytes(save(content, {"training": json.dumps(said)}))
        except OSError as error:
            raise ConfigError(
                f"verifier.resume={self.path} cannot be written ({error.strerror or error}): give a "
                "file in a folder that is there, or leave it out."
            ) from error

    def done(self) -> None:
        """The training has ended: there is nothing to take up."""
        self.path.unlink(missing_ok=True)


def _under(kind: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.partition("/")[2]: tensor for name, tensor in tensors.items() if name.startswith(f"{kind}/")}

"""The weights that the Pruner authors released, as a PaCM of the code's form."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

from pruner.costmodel.networks import PaCM
from pruner.errors import ConfigError

# What the release calls a layer, and what it is here.
_LAYERS = {
    "segment_encoder": "statement",
    "gemm_encoder": "dataflow",
    "attention": "attention.attention",
    "fuse": "fuse",
    "norm": "norm",
    "l0": "residuals.0.layer",
    "l1": "residuals.1.layer",
    "decoder": "decoder",
}
# Columns of its inputs: `statement_tagged` and `dataflow_code`.
WIDTHS = {"statement": 174, "dataflow": 23}


def load_released(path: str | os.PathLike[str]) -> PaCM:
    """The network with the released weights (a state dict, `.pth`), in eval mode. Nothing in the file is
    executed. The release normalises columns by their maxima over the records at hand.

    Raises ConfigError for a file that is no state dict, and for weights of another network.
    """
    try:
        found: Any = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, UnpicklingError, EOFError, ValueError, KeyError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ConfigError(f"{path} holds no weights ({reason}): give a released .pth file.") from error
    if not isinstance(found, Mapping) or not all(isinstance(tensor, Tensor) for tensor in found.values()):
        raise ConfigError(f"{path} holds no weights: give a released .pth file.")
    weights = {_renamed(str(name)): tensor for name, tensor in found.items()}
    network = PaCM(WIDTHS)
    expected = network.state_dict()
    for name in sorted(expected.keys() | weights):
        shapes = [tuple(of[name].shape) if name in of else None for of in (weights, expected)]
        if shapes[0] != shapes[1]:
            raise ConfigError(
                f"{path} is of another network: {name} has the shape {shapes[0]}, PaCM's is {shapes[1]}."
            )
    network.load_state_dict(weights)
    return network.eval()


def _renamed(name: str) -> str:
    layer, _, rest = name.partition(".")
    return f"{_LAYERS.get(layer, layer)}.{rest}"

"""The weights that the Pruner authors released, as a PaCM of the code's form."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pickle import UnpicklingError
from typing import Any

from pruner.errors import ConfigError
from pruner.features.dataflow import DataflowCodeFeatures
from pruner.features.statement_tagged import TaggedStatementFeatures

try:
    import torch
    from torch import Tensor

    from pruner.costmodel.networks import PaCM
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ConfigError(
        "released weights (.pth) need PyTorch, which is not installed: pip install 'pruner-tvm[neural]'."
    ) from None

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


def released_state(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The released weights as `state_dict` of a PaCMVerifier with form=code, prior=0 and normaliser=maximum.
    It has no normalisers: the verifier divides columns by their maxima over what it is asked about, until it
    is refined. Raises ConfigError as `load_released` does."""
    network = load_released(path)
    features = TaggedStatementFeatures, DataflowCodeFeatures
    return {
        "model": "pacm",
        "features": [one.name for one in features],
        "settings": {"prior": 0.0, "normaliser": "maximum"},
        "seen": [[one.name, one.version, len(one.columns)] for one in features],
        "length": DataflowCodeFeatures.rows,
        "normalisers": None,
        "weights": {name: tensor.numpy() for name, tensor in network.state_dict().items()},
    }


def _renamed(name: str) -> str:
    layer, _, rest = name.partition(".")
    return f"{_LAYERS.get(layer, layer)}.{rest}"

"""How PyTorch is run: on which device, with how many threads, from which seed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from pruner.cores import usable_cpus
from pruner.errors import ConfigError
from pruner.settings import whole


@contextmanager
def run_with(threads: int) -> Iterator[None]:
    """PyTorch uses so many threads in the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """PyTorch draws from this seed in the block; its own generator is left as it is."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed % 2**63)
        yield


def check_threads(number: int) -> None:
    """Raises ConfigError for more than there are cores: where the system refuses a thread, PyTorch ends the
    process."""
    cores = len(usable_cpus())
    whole(1, **{"verifier.threads": number})
    if number > cores:
        raise ConfigError(
            f"verifier.threads={number} is not accepted: give at most {cores}, the cores that this process "
            "may use."
        )


def device_of(name: str) -> torch.device:
    """Raises ConfigError for another than cpu and cuda, and for cuda where there is none."""
    if name not in ("cpu", "cuda"):
        raise ConfigError(f"verifier.device={name} is not accepted: give cpu or cuda.")
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            "verifier.device=cuda: PyTorch finds no CUDA device here. Give verifier.device=cpu."
        )
    return torch.device(name)

"""A log's target and hardware parameters as a target of today's TVM."""

from __future__ import annotations

from collections.abc import Sequence

from tvm.target import Target

from pruner.errors import ConfigError
from pruner.records.ansor.log import Refused
from pruner.records.old_target import todays_description
from pruner.target import kind_of, resolve_target

# Where auto_scheduler's HardwareParams keeps them.
_CORES = 0
_GPU = {"max_shared_memory_per_block": 3, "max_threads_per_block": 5, "thread_warp_size": 7}


def target_of(text: str, hardware: Sequence[int]) -> Target:
    """The target that a log's text names, completed from its hardware parameters. Raises Refused."""
    try:
        description = todays_description(text)
        kind = kind_of(description)
    except (ConfigError, ValueError) as error:
        raise Refused("target", str(error)[:200]) from None
    if kind not in ("cuda", "llvm"):
        raise Refused("target", f"{kind[:40]}; cuda and llvm are read")
    gpu = {name: hardware[position] for name, position in _GPU.items()}
    if kind == "cuda" and min(gpu.values()) < 1:
        raise Refused("hardware", f"a GPU with {', '.join(f'{name}={value}' for name, value in gpu.items())}")
    try:
        return resolve_target(description, max(hardware[_CORES], 1), gpu)[0]
    except ConfigError as error:
        raise Refused("target", str(error)[:200]) from None

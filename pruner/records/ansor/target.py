"""A log's target and hardware parameters as a target of today's TVM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.target import Target

from pruner.errors import ConfigError
from pruner.records.ansor.log import Refused
from pruner.target import kind_of, resolve_target

# Where auto_scheduler's HardwareParams keeps them.
_CORES, _SHARED, _THREADS, _WARP = 0, 3, 5, 7
# Options that old targets had and today's have not.
_GONE = ("libs", "model", "device", "link-params", "max_num_threads")


def target_of(text: str, hardware: Sequence[int]) -> Target:
    """The target that a log's text names, completed from its hardware parameters. Raises Refused."""
    options: list[str] = []
    for word in text.split():
        if not any(word.lstrip("-").startswith(f"{name}=") for name in (*_GONE, "keys")):
            options.append(word)
    described = " ".join(options)
    try:
        kind = kind_of(described)
        if kind not in ("cuda", "llvm"):
            raise Refused("target", f"{kind}; cuda and llvm are read")
        gpu: dict[str, Any] = {
            "max_threads_per_block": hardware[_THREADS],
            "max_shared_memory_per_block": hardware[_SHARED],
            "thread_warp_size": hardware[_WARP],
        }
        return resolve_target(described, max(hardware[_CORES], 1), gpu)[0]
    except ConfigError as error:
        raise Refused("target", str(error).splitlines()[0][:200]) from None
    except ValueError as error:  # words that no shell could read
        raise Refused("target", str(error)) from None

"""How this package starts Python processes of its own, and how it ends what a process started."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

import psutil

_CODE = (
    "import sys; sys.path[0] or sys.path.pop(0); from pruner._tvm import import_tvm; import_tvm(); "
    "from {module} import main; main(*sys.argv[1:])"
)


def command(module: str, *words: str) -> list[str]:
    """Calls the module's `main(*words)` in a new interpreter. The working directory is not on its path: a
    user's file called like a module would be imported."""
    return [sys.executable, "-c", _CODE.format(module=module), *words]


def environment(threads: int) -> dict[str, str]:
    """This process's environment for a child: TVM counts its threads when it is loaded, and packages are
    found where this process finds them."""
    path = [entry for entry in sys.path if entry]
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return {**os.environ, "TVM_NUM_THREADS": str(threads), "PYTHONPATH": os.pathsep.join([*path, root])}


def kill_family(pid: int) -> None:
    """Kills a process and all that it started (a compiler's own compilers)."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
        for one in family:
            with suppress(psutil.NoSuchProcess):
                one.kill()

"""Which threads of a GPU see the same copy of a buffer."""

from __future__ import annotations

# TVM's ranks of storage scopes and of thread tags (runtime/thread_storage_scope.h).
_STORAGE = {"global": 0, "shared": 1, "local": 3}
_THREAD = {"blockIdx": 0, "threadIdx": 1, "vthread": 1}


def is_thread(kind: str) -> bool:
    """Whether a loop of this kind is bound to blocks, threads or virtual threads."""
    return kind.partition(".")[0] in _THREAD


def shared_by(scope: str, kind: str) -> bool:
    """Whether all turns of a loop of this kind see one copy of a buffer in `scope`, wherever the buffer is
    allocated: shared memory is one for all threads of a block."""
    rank = _THREAD.get(kind.partition(".")[0])
    return rank is not None and _STORAGE.get(scope.partition(".")[0], 3) <= rank

"""A walk over TVM's statements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tvm.s_tir import SBlock

# Where statements hold others. What a reduction begins with, `init`, is none of its own.
_INSIDE = ("block", "body", "then_case", "else_case")


def statements(body: Any) -> Iterator[tuple[Any, SBlock | None]]:
    """Every statement in and under `body`, each before those that it holds and in the order of the program,
    with the innermost block around it (a block is its own)."""
    left: list[tuple[Any, SBlock | None]] = [(body, None)]
    while left:
        statement, block = left.pop()
        if isinstance(statement, SBlock):
            block = statement
        yield statement, block
        inside = [getattr(statement, name, None) for name in _INSIDE]
        parts = [part for part in (*inside, *getattr(statement, "seq", ())) if part is not None]
        left += [(part, block) for part in reversed(parts)]

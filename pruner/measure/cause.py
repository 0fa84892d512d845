"""Why something failed, in one line."""

from __future__ import annotations


def is_error(line: str) -> bool:
    """Whether a line of an error or a log names an error, as TVM and LLVM write them."""
    return any(mark in line for mark in ("rror:", "ERROR", "Check failed", " failed with "))


def root_cause(text: str, longest: int = 300) -> str:
    """The line of an error or a log that says why: the last one that names an error, with the next one
    where it ends in a colon; without any, the last line. Characters that cannot be printed are `?`."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [i for i, line in enumerate(lines) if is_error(line)]
    if telling:
        at = telling[-1]
        chosen = " ".join(lines[at : at + 2]) if lines[at].endswith(":") else lines[at]
    else:
        chosen = lines[-1] if lines else ""
    # What a broken compiler writes must not steer a terminal.
    chosen = "".join(letter if letter.isprintable() else "?" for letter in chosen)
    return chosen if len(chosen) <= longest else chosen[: longest - 1] + "…"

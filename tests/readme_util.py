"""The examples of the README as files."""

import re
from pathlib import Path

README = (Path(__file__).parent.parent / "README.md").read_text("utf-8")


def block(start):
    """The Python example that begins like this."""
    return next(text for text in re.findall(r"```python\n(.*?)```", README, re.S) if text.startswith(start))


def write_examples(folder, *names):
    """Puts the examples that begin with `# NAME` into files of that name."""
    for name in names:
        (folder / name).write_text(block(f"# {name}\n"))

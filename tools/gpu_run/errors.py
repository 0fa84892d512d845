"""What ends a run."""


class RunError(Exception):
    """The run cannot go on; the message says why and what to do. What was recorded is on the disk."""

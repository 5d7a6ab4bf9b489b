"""What the commands of the studies print: results on standard output, progress on standard error."""

from __future__ import annotations

import sys

__all__ = ["note", "say"]


def say(text: str) -> None:
    """Print a line of results."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """Print a line of progress or an error."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()

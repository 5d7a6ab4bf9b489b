"""What the commands of the studies print: results on standard output, progress on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable

from nopg.errors import NopgError

__all__ = ["exit_code", "note", "say"]


def say(text: str) -> None:
    """Print a line of results."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """Print a line of progress or an error."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def exit_code(command: Callable[[], object]) -> int:
    """Run a command and return 0, or 1 after an error of ours, which is printed in one line."""
    try:
        command()
    except NopgError as error:
        note(str(error))
        return 1
    return 0

"""A folder of checkpoints belongs to one training at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nopg.errors import ArgumentError

__all__ = ["LOCK", "locked"]

LOCK = ".lock"
"""The file that is locked; it stays in the folder and is empty."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder that exists, at most until the process ends; refuse one that has a lock."""
    held = _lock(folder)
    if held is None:
        raise ArgumentError(
            f"another training writes its checkpoints to {str(folder)!r} at this moment; wait for its "
            "end, or give another folder"
        )
    try:
        yield
    finally:
        os.close(held)


def _lock(folder: Path) -> int | None:
    """Return the open file of a lock, None if somebody else has it."""
    if os.name == "nt":  # Windows has no such locks
        return os.open(folder / LOCK, os.O_RDWR | os.O_CREAT)
    import fcntl

    try:
        held = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    except OSError as error:
        raise ArgumentError(
            f"{str(folder)!r} cannot be locked ({error.strerror}); give another folder"
        ) from None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(held)
        return None
    except OSError as error:
        os.close(held)
        raise ArgumentError(
            f"{str(folder)!r} cannot be locked ({error.strerror}); give another folder"
        ) from None
    return held

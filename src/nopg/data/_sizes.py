"""Declared sizes, checked before anything is read: a file of a kilobyte may claim a terabyte."""

from __future__ import annotations

import os
from pathlib import Path

from nopg.errors import DataError

__all__ = ["check_declared", "check_stored", "existing_file", "memory_limit"]

# gzip reaches about 1000 : 1 on zeros; what claims more than that was never written.
_BEST_COMPRESSION = 2000
_ALWAYS_FINE = 1 << 20


def memory_limit() -> int:
    """Return the bytes of memory of this machine: no dataset can be larger."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not on this platform
        return 1 << 36


def check_declared(source: str, rows: int, columns: int) -> None:
    """Refuse a table whose declared rows, as float64, could not be held in memory.

    Example:
        >>> check_declared("log.parquet", 10**12, 4)
        Traceback (most recent call last):
        ...
        nopg.errors.DataError: log.parquet declares 1000000000000 rows of 4 columns, 29802.3 GiB as numbers...
    """
    needed = 8 * rows * columns
    if rows < 0 or needed > memory_limit():
        raise DataError(
            f"{source} declares {rows} rows of {columns} columns, {needed / 2**30:.1f} GiB as numbers, but "
            f"this machine has {memory_limit() / 2**30:.1f}; the file is damaged, or read fewer columns"
        )


def check_stored(source: str, declared: int, stored: int, *, compressed: bool) -> None:
    """Refuse an array that declares far more bytes than the file stores for it."""
    best = _BEST_COMPRESSION * stored if compressed else stored
    if declared > max(best, _ALWAYS_FINE if compressed else 0):
        raise DataError(
            f"{source} declares {declared} bytes but stores {stored}; the file is damaged or was never "
            "written to its end"
        )


def existing_file(path: str | os.PathLike[str]) -> Path:
    """Return the path if a file with content stands there."""
    file = Path(path)
    if not file.exists():
        raise DataError(f"there is no file {file}; check the path (the working directory is {Path.cwd()})")
    if not file.is_file():
        raise DataError(f"{file} is not a file; give the path of one")
    if file.stat().st_size == 0:
        raise DataError(f"{file} is empty; write the rows again")
    return file

"""Checks before anything is read: optional packages, paths, and declared sizes."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from nopg.errors import DataError, MissingExtraError

# gzip reaches about 1000 : 1 on zeros; a file that declares more was never written to its end.
_BEST_COMPRESSION = 2000
_ALWAYS_FINE = 1 << 20
# Most bytes in memory per byte of a file of runs of equal values; pyarrow writes equal rows at about 1800. A
# table of fewer bytes may have more.
_LONGEST_RUNS, _SMALL_TABLE = 1000, 1 << 28
_EXTRAS = {
    "pyarrow": "parquet",
    "d3rlpy": "baselines",
}


def extra(module: str) -> Any:
    """Return an optional package or one of its modules; a missing one is named with its extra."""
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(package, _EXTRAS.get(package, package)) from error


def check_declared(source: str, rows: int, columns: int) -> None:
    """Refuse a table whose declared rows, as float64, exceed the memory of the machine.

    Example:
        >>> check_declared("log.parquet", 10**12, 4)
        Traceback (most recent call last):
        ...
        nopg.errors.DataError: log.parquet declares 1000000000000 rows of 4 columns, 29802.3 GiB as numbers...
    """
    needed, limit = 8 * rows * columns, _machine_memory()
    if rows < 0 or needed > limit:
        raise DataError(
            f"{source} declares {rows} rows of {columns} columns, {needed / 2**30:.1f} GiB as numbers, but "
            f"this machine has {limit / 2**30:.1f}; the file is damaged, or read fewer columns"
        )


def check_runs(source: str, rows: int, columns: int, stored: int) -> None:
    """Refuse a table of runs of equal values that would be far larger in memory than its files.

    Example:
        >>> check_runs("log.parquet", 10**9, 4, stored=4_000)
        Traceback (most recent call last):
        ...
        nopg.errors.DataError: log.parquet declares 1000000000 rows of 4 columns in 4000 bytes; ...
    """
    if 8 * rows * columns > max(_LONGEST_RUNS * stored, _SMALL_TABLE):
        raise DataError(
            f"{source} declares {rows} rows of {columns} columns in {stored} bytes; it is damaged, or nearly "
            "all rows are copies: write it again with the rows in which something changes"
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
    """Return the path of a file that exists and is not empty."""
    file = Path(path)
    if not file.exists():
        raise DataError(f"there is no file {file}; check the path (the working directory is {Path.cwd()})")
    if not file.is_file():
        raise DataError(f"{file} is not a file; give the path of one")
    if file.stat().st_size == 0:
        raise DataError(f"{file} is empty; write the rows again")
    return file


def _machine_memory() -> int:
    """Return the bytes of memory of this machine."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not on this platform
        return 1 << 36

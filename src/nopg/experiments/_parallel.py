"""Independent jobs side by side, by joblib: processes here, a cluster where joblib has a backend for it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from nopg.errors import MissingExtraError

__all__ = ["installed", "run_side_by_side"]

Job = TypeVar("Job")
Answer = TypeVar("Answer")


def run_side_by_side(
    function: Callable[[Job], Answer], jobs: Sequence[Job], *, workers: int
) -> Iterator[Answer]:
    """Yield the function's answers as they come.

    Args:
        function: Can be sent to another process, as its jobs and answers can.
        jobs: Independent of each other.
        workers: How many at a time; where `joblib.parallel_config` names a backend, that one runs them.
    """
    if not jobs:
        return
    if not installed("joblib"):
        raise MissingExtraError("joblib", "benchmark")
    import joblib

    pool = joblib.Parallel(n_jobs=workers, return_as="generator_unordered", batch_size=1)
    yield from pool(joblib.delayed(function)(job) for job in jobs)


def installed(package: str) -> bool:
    """Return whether a package can be imported, without importing it: some take seconds, and one prints."""
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # blocked by whoever started us
        return False

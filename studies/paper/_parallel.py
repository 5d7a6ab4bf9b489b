"""Independent jobs side by side, by joblib: processes here, a cluster where joblib has a backend for it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from nopg.errors import ArgumentError, MissingExtraError

__all__ = ["installed", "run_side_by_side", "streams"]

Job = TypeVar("Job")
Answer = TypeVar("Answer")


def run_side_by_side(
    function: Callable[[Job], Answer], jobs: Sequence[Job], *, workers: int, backend: str | None = None
) -> Iterator[Answer]:
    """Yield the function's answers as they come, or all at the end where the backend cannot do otherwise.

    Args:
        function: Can be sent to another process, as its jobs and answers can.
        jobs: Independent of each other.
        workers: How many at a time.
        backend: One of joblib's, such as 'ray' or 'dask'; processes on this machine if None.
    """
    if not jobs:
        return
    joblib = _joblib(backend)
    how: dict[str, Any] = {"n_jobs": workers, "backend": backend, "batch_size": 1}
    if streams(backend):
        how["return_as"] = "generator_unordered"
    yield from joblib.Parallel(**how)(joblib.delayed(function)(job) for job in jobs)


def streams(backend: str | None) -> bool:
    """Return whether a backend hands over answers as they come; Ray's does not."""
    joblib = _joblib(backend)
    with joblib.parallel_config(backend=backend or "loky"):
        return bool(getattr(joblib.parallel.get_active_backend()[0], "supports_return_generator", False))


def _joblib(backend: str | None) -> Any:
    """Return joblib, the backend made known to it."""
    if not installed("joblib"):
        raise MissingExtraError("joblib", "benchmark")
    import joblib

    if backend == "ray":
        if not installed("ray"):
            raise ArgumentError("the backend 'ray' needs Ray: pip install ray")
        from ray.util.joblib import register_ray

        register_ray()
    return joblib


def installed(package: str) -> bool:
    """Return whether a package can be imported, without importing it: some take seconds, and one prints."""
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # blocked by whoever started us
        return False

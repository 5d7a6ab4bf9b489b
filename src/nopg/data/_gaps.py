"""Jumps in time, which end an episode."""

from __future__ import annotations

import logging

import numpy as np
import numpy.typing as npt

from nopg.errors import ArgumentError, DataError

__all__ = ["jumps"]

_log = logging.getLogger(__name__)


def jumps(
    seconds: npt.NDArray[np.float64], same: npt.NDArray[np.bool_], factor: float, source: str
) -> npt.NDArray[np.bool_]:
    """Return where the time between row i and i+1 of an episode exceeds `factor` median steps, (n−1,).

    Args:
        seconds: Time of every row, in any unit, rows of an episode together, shape (n,).
        same: True where rows i and i+1 belong to the same episode, shape (n−1,).
        factor: How many median steps still count as one, above 1.
        source: Name of the recording, for errors.

    Example:
        >>> jumps(np.array([0.0, 1.0, 2.0, 60.0, 61.0]), np.full(4, True), 5.0, "log").tolist()
        [False, False, True, False]
    """
    if not factor > 1:
        raise ArgumentError(f"gap_factor is {factor}; give more than 1, e.g. 5, or math.inf for no gaps")
    steps = np.diff(seconds)
    if bool((backwards := same & (steps < 0)).any()):
        row = int(np.flatnonzero(backwards)[0]) + 1
        raise DataError(
            f"{source}: time runs backwards at row {row} (by {-steps[row - 1]:g}); sort the rows by time or, "
            "if they are several runs, say which with episode=…"
        )

    forward = steps[same & (steps > 0)]
    if len(forward) == 0:
        return np.zeros(len(steps), dtype=np.bool_)
    found = same & (steps > factor * np.median(forward))
    if bool(found.any()):
        _log.info("%s: %d gaps in time end an episode", source, int(found.sum()))
    return np.asarray(found)

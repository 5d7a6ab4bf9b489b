"""Episodes that flags of ends cut out of rows in sequence."""

from __future__ import annotations

import numpy as np

from nopg._typing import BoolArray, FloatArray, IntArray

# Share of the rows without an end that the next row must continue, and how exactly, in spreads of a column.
_IN_SEQUENCE = 0.9
_TOLERANCE = 1e-9


def flagged_episodes(
    states: FloatArray, next_states: FloatArray, ends: BoolArray, same_run: BoolArray | None = None
) -> IntArray | None:
    """Return the episode of each row, from 0, or None where nothing says that rows are in sequence.

    A new episode begins after every end. Rows are in sequence if for 9 in 10 rows that do not end the next
    state is the state of the next row.

    Args:
        states: Shape (n, d_s).
        next_states: Shape (n, d_s).
        ends: Rows that are terminated or truncated, shape (n,).
        same_run: Whether row i+1 may follow row i, shape (n−1,); True if absent.

    Example:
        >>> levels, after = np.array([[1.0], [2.0], [7.0]]), np.array([[2.0], [3.0], [8.0]])
        >>> flagged_episodes(levels, after, np.array([False, True, False])).tolist()
        [0, 0, 1]
        >>> flagged_episodes(levels, after, np.array([True, False, False])) is None
        True
    """
    goes_on = ~ends[:-1] if same_run is None else ~ends[:-1] & same_run
    if not bool(ends.any()) or not bool(goes_on.any()):
        return None
    follows = np.ones(len(goes_on), dtype=np.bool_)
    for state, after in zip(states.T, next_states.T, strict=True):  # a column at a time, to save memory
        finite = state[np.isfinite(state)]
        spread = float(np.ptp(finite)) if len(finite) else 0.0
        follows &= np.abs(after[:-1] - state[1:]) <= _TOLERANCE * spread
    if float(follows[goes_on].mean()) < _IN_SEQUENCE:
        return None
    return np.cumsum(np.insert(~goes_on, 0, False), dtype=np.int64)

"""Where the task starts in a log: at the beginnings of its episodes, not behind gaps."""

from __future__ import annotations

import numpy as np

from nopg.data.io._recording import Flags, Integers


def start_rows(rows: Integers, continues: Flags, linked: Flags, most_lost: float) -> Integers | None:
    """Return which of m transitions start the task; None if every unbroken segment does.

    An episode starts at the first transition after its beginning, unless more than `most_lost` rows are
    missing before it. If no episode has such a start, all segments count.

    Args:
        rows: Row of the log of each transition, ascending, shape (m,).
        continues: True where row i+1 of the log belongs to the episode of row i, shape (n−1,).
        linked: True where, moreover, a transition leads from row i to row i+1, shape (n−1,).
        most_lost: Number of rows.

    Example:
        Rows 0 to 7 of one episode with a gap after row 3, then another episode:

        >>> continues = np.array([True] * 7 + [False, True, True])
        >>> linked = continues & (np.arange(10) != 3)
        >>> start_rows(np.array([0, 1, 2, 4, 5, 6, 8, 9]), continues, linked, 5.0).tolist()
        [0, 6]
    """
    beginnings = np.flatnonzero(np.insert(~continues, 0, True))
    episode = np.searchsorted(beginnings, rows, side="right") - 1
    _, first = np.unique(episode, return_index=True)
    near = rows[first] - beginnings[episode[first]] <= most_lost
    segments = np.insert(np.cumsum(~linked), 0, 0)[rows]
    if bool(near.all()) and len(first) == len(np.unique(segments)):
        return None
    return first[near] if bool(near.any()) else None

"""Transitions of rows whose next states are the states of the next rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nopg.data.io._recording import Flags, Integers


@dataclass(frozen=True, slots=True)
class Shifted:
    """The transitions of n rows whose next states are the states of next rows.

    Attributes:
        kept: True for the m rows that are transitions, shape (n,).
        linked: True for those whose next state is the state of the next row, shape (n,); the others ended in
            a terminal state that was not recorded.
        terminated: True at terminal transitions, shape (m,).
        truncated: True where the recording ended, shape (m,).
        segments: Number of the unbroken segment of the recording of each transition, from 0, shape (m,).
    """

    kept: Flags
    linked: Flags
    terminated: Flags
    truncated: Flags
    segments: Integers


def shift(
    connected: Flags, terminated: Flags, truncated: Flags, *, idle: Flags, whole_episodes: bool
) -> Shifted:
    """Find the transitions of n rows of a recording.

    A row is a transition if the next row continues its recording: that row's state is its next state. A
    terminated row is one even if no row follows, because nothing depends on its next state. Any other last
    row holds only the state in which the recording ended, and the row before it is truncated.

    `connected` (n−1,) is True where row i+1 was recorded right after row i. An `idle` row has no action: it
    can only be the final state of an episode. With `whole_episodes`, `connected` respects the logged
    episodes; then a single row after an end is its final state.

    Example:
        Three steps, the last one terminal; and three rows without an end, which are two steps:

        >>> ends = np.array([False, False, True, False, False, False])
        >>> found = shift(np.full(5, True), ends, np.zeros(6, bool), idle=np.zeros(6, bool),
        ...               whole_episodes=False)
        >>> np.flatnonzero(found.kept).tolist(), np.flatnonzero(found.linked).tolist()
        ([0, 1, 2, 3, 4], [0, 1, 3, 4])
        >>> found.truncated.tolist(), found.segments.tolist()
        ([False, False, False, False, True], [0, 0, 0, 1, 1])
    """
    follows = np.append(connected, False)  # row i+1 continues row i
    preceded = np.insert(connected, 0, False)

    def at_the_step(flags: Flags) -> Flags:
        # An end on a row without an action belongs to the step before it.
        return np.asarray((flags & ~idle) | np.append((flags & idle & preceded)[1:], False))

    terminated, truncated = at_the_step(terminated), at_the_step(truncated)
    truncated = truncated & ~terminated

    # The row after an end is its final state if it is nothing else; otherwise an episode starts there.
    ends = terminated | truncated
    alone = idle | (~follows & ~ends & whole_episodes)
    final = preceded & np.insert(ends[:-1], 0, False) & alone
    linked = follows & ~final & (~ends | np.append(final[1:], False))

    kept = linked | (terminated & ~final)
    last = ~np.append(kept[1:], False) | ~linked
    segments = np.cumsum(np.insert(~linked[:-1], 0, False)[kept], dtype=np.int64)
    segments -= segments[:1]
    return Shifted(kept, linked, terminated[kept], (last & ~terminated)[kept], segments)

"""Next states from the next row of the same episode, where nobody recorded them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Shifted", "shift"]

_Flags = npt.NDArray[np.bool_]
_Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Shifted:
    """The transitions hidden in a sequence of rows.

    Attributes:
        kept: True for the m rows that are transitions, shape (n,).
        linked: True for those whose next state is the state of the next row, shape (n,); the others ended in
            a terminal state that was not recorded.
        terminated: True at true ends, shape (m,).
        truncated: True at mere ends of recording, shape (m,).
        segments: Number of the unbroken stretch of recording of each transition, from 0, shape (m,).
    """

    kept: _Flags
    linked: _Flags
    terminated: _Flags
    truncated: _Flags
    segments: _Rows

    @property
    def rows(self) -> _Rows:
        """The row of each transition, shape (m,)."""
        return np.flatnonzero(self.kept)

    @property
    def next_rows(self) -> _Rows:
        """The row that holds each next state; a row's own where a terminal state was not recorded. (m,)."""
        return self.rows + self.linked[self.kept]


def shift(
    connected: _Flags, terminated: _Flags, truncated: _Flags, *, idle: _Flags, whole_episodes: bool
) -> Shifted:
    """Find the transitions of n rows of a recording.

    A row is a transition if the next row continues its recording: that row's state is its next state. A
    terminated row is one even if no row follows, because nothing depends on its next state. Any other last
    row holds only the state in which the recording ended, and the row before it is truncated.

    Args:
        connected: True where row i+1 was recorded right after row i, shape (n−1,).
        terminated: True where the step of the row ended the task, shape (n,).
        truncated: True where the recording ended with the step of the row, shape (n,).
        idle: True where a row has no action: it can only be the state in which an episode ended. Shape (n,).
        whole_episodes: `connected` knows the episodes. Then a single row after an end is its final state.

    Example:
        Three steps, the last one terminal; and three rows that merely stop, which are two steps:

        >>> ends = np.array([False, False, True, False, False, False])
        >>> found = shift(np.full(5, True), ends, np.zeros(6, bool), idle=np.zeros(6, bool),
        ...               whole_episodes=False)
        >>> found.rows.tolist(), found.next_rows.tolist()
        ([0, 1, 2, 3, 4], [1, 2, 2, 4, 5])
        >>> found.truncated.tolist(), found.segments.tolist()
        ([False, False, False, False, True], [0, 0, 0, 1, 1])
    """
    follows = np.append(connected, False)  # row i+1 continues row i
    preceded = np.insert(connected, 0, False)

    # An end noted on a row without an action belongs to the step that led there.
    terminated, truncated = (_moved_back(flags, idle, preceded) for flags in (terminated, truncated))
    truncated = truncated & ~terminated

    # The row after an end is the state it ended in, if it is nothing else; otherwise an episode starts there.
    ends = terminated | truncated
    alone = idle | (~follows & ~ends & whole_episodes)
    final = preceded & np.insert(ends[:-1], 0, False) & alone
    linked = follows & ~final & (~ends | np.append(final[1:], False))

    kept = linked | (terminated & ~final)
    last = ~np.append(kept[1:], False) | ~linked
    segments = np.cumsum(np.insert(~linked[:-1], 0, False)[kept], dtype=np.int64)
    segments -= segments[:1]
    return Shifted(
        kept=kept,
        linked=linked,
        terminated=terminated[kept],
        truncated=(last & ~terminated)[kept],
        segments=segments,
    )


def _moved_back(flags: _Flags, idle: _Flags, preceded: _Flags) -> _Flags:
    carried = flags & idle & preceded
    return np.asarray((flags & ~idle) | np.append(carried[1:], False))

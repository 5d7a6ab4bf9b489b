"""Logged rows by role, which of them are transitions, and where the task starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nopg._typing import BoolArray, IntArray
from nopg.data._checks import Source, check_rows
from nopg.data._repairs import Repairs


@dataclass(frozen=True, slots=True)
class Recording:
    """n logged rows, in order of time inside every episode.

    Attributes:
        source: The recording in errors.
        names: Names of the state columns, and of the action columns.
        rows: Arrays by role with an entry per row: states (n, d_s), actions (n, d_a) and rewards (n,), NaN
            where nothing was recorded; next_states, unless the next row of the episode holds them; flags
            terminated and truncated, and those of starts (begins); whole numbers of episodes; times in
            seconds for dates, else in the unit of their column; weights. `number` is the row of the log,
            where rows were moved.
        file_starts: Rows at which another file starts.
        new_episodes_from: The first number of an episode whose number is not in the log.
        formula: The reward as a formula of states and actions, or None.
        time_name: Name of the column of the times.
        has_dates: Whether the times were dates.
        reward_name: Name of the column of the rewards.
        repairs: What was repaired so far.
    """

    source: Source
    names: tuple[tuple[str, ...], tuple[str, ...]]
    rows: Mapping[str, npt.NDArray[Any]]
    file_starts: tuple[int, ...] = ()
    new_episodes_from: int = 0
    formula: str | None = None
    time_name: str | None = None
    has_dates: bool = False
    reward_name: str = "reward"
    repairs: Repairs = field(default_factory=Repairs)

    def __post_init__(self) -> None:
        check_rows(self.rows, self.source)

    @property
    def ends(self) -> BoolArray:
        """Whether a row ends its episode, shape (n,)."""
        return np.asarray(self.rows["terminated"] | self.rows["truncated"])

    @property
    def same_run(self) -> BoolArray:
        """True where row i+1 is of the same episode and run as row i, shape (n−1,).

        Without episodes, a file starts a run where there are no times, or where its time starts anew.
        """
        if "episodes" in self.rows:
            return np.asarray(self.rows["episodes"][1:] == self.rows["episodes"][:-1])
        same, starts = (
            np.full(len(self.rows["states"]) - 1, True),
            np.asarray(self.file_starts, dtype=int) - 1,
        )
        # Two files may be two runs: a transition too few per file does less harm than a false one.
        same[starts[np.diff(self.rows["times"])[starts] < 0] if "times" in self.rows else starts] = False
        return same

    def taking(self, rows: IntArray) -> Recording:
        """Return the recording of these rows."""
        numbers = self.rows.get("number", np.arange(len(self.rows["states"])))
        parts = {name: part[rows] for name, part in self.rows.items()} | {"number": numbers[rows]}
        return replace(self, rows=parts)

    def by_episode(self) -> Recording:
        """Return the recording with every episode in one piece."""
        if "episodes" not in self.rows:
            return self
        _, first, group = np.unique(self.rows["episodes"], return_index=True, return_inverse=True)
        place = first[group.reshape(-1)]
        return self if (np.diff(place) >= 0).all() else self.taking(np.argsort(place, kind="stable"))

    def noted(self, repairs: Repairs) -> Recording:
        """Return the recording with further repairs."""
        return replace(self, repairs=self.repairs + repairs)


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

    kept: BoolArray
    linked: BoolArray
    terminated: BoolArray
    truncated: BoolArray
    segments: IntArray


def shift(
    connected: BoolArray,
    terminated: BoolArray,
    truncated: BoolArray,
    *,
    idle: BoolArray,
    whole_episodes: bool,
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

    def at_the_step(flags: BoolArray) -> BoolArray:
        # An end on a row without an action belongs to the step before it.
        return np.asarray((flags & ~idle) | np.append((flags & idle & preceded)[1:], False))

    terminated, truncated = at_the_step(terminated), at_the_step(truncated)
    ends = terminated | truncated
    # The row after an end is its final state if it is nothing else; otherwise an episode starts there.
    alone = idle | (~follows & ~ends & whole_episodes)
    final = preceded & np.insert(ends[:-1], 0, False) & alone
    linked = follows & ~final & (~ends | np.append(final[1:], False))

    kept = linked | (terminated & ~final)
    last = ~np.append(kept[1:], False) | ~linked
    segments = np.cumsum(np.insert(~linked[:-1], 0, False)[kept], dtype=np.int64)
    segments -= segments[:1]
    return Shifted(kept, linked, terminated[kept], (last & ~terminated)[kept], segments)


def start_rows(rows: IntArray, continues: BoolArray, linked: BoolArray, most_lost: float) -> IntArray | None:
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

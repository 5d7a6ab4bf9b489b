"""Logged rows by role, before their transitions are formed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nopg.data._repairs import Repairs
from nopg.data._validation import Source, check_rows

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]

_PER_ROW = (
    *("states", "actions", "rewards", "next_states"),
    *("terminated", "truncated", "episodes", "times", "weights", "begins"),
)


@dataclass(frozen=True, slots=True)
class Recording:
    """n logged rows, in order of time inside every episode.

    Attributes:
        source: Name of the recording in errors: a file, "the table".
        states: Shape (n, d_s), NaN where nothing was recorded; likewise the other numbers.
        actions: Shape (n, d_a).
        rewards: Shape (n,); 0 where the reward is a formula.
        names: Names of the state columns, and of the action columns.
        next_states: Shape (n, d_s), or None: then the next row of the episode holds them.
        terminated: Shape (n,), or None where no such flag was logged.
        truncated: Likewise.
        episodes: A whole number per row, shape (n,), or None.
        times: Time per row, seconds for dates, else in the unit of its column, shape (n,), or None.
        weights: Number of transitions that each row counts for, shape (n,), or None.
        begins: True in rows in which the task starts, shape (n,), or None.
        file_starts: Rows at which another file starts.
        new_episodes_from: The first number of an episode whose number is not in the log.
        formula: The reward as a formula of states and actions, or None.
        repairs: What was repaired so far.
        time_name: Name of the column of the times.
        has_dates: Whether the times were dates.
        reward_name: Name of the column of the rewards.
    """

    source: Source
    states: Floats
    actions: Floats
    rewards: Floats
    names: tuple[tuple[str, ...], tuple[str, ...]]
    next_states: Floats | None = None
    terminated: Flags | None = None
    truncated: Flags | None = None
    episodes: Integers | None = None
    times: Floats | None = None
    weights: Floats | None = None
    begins: Flags | None = None
    file_starts: tuple[int, ...] = ()
    new_episodes_from: int = 0
    formula: str | None = None
    repairs: Repairs = field(default_factory=Repairs)
    time_name: str | None = None
    has_dates: bool = False
    reward_name: str = "reward"

    def __post_init__(self) -> None:
        check_rows(self.per_row, self.source)

    @property
    def per_row(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays with an entry per row, by name."""
        return {name: part for name in _PER_ROW if (part := getattr(self, name)) is not None}

    @property
    def flags(self) -> tuple[Flags, Flags]:
        """Terminated and truncated, False where nothing was logged."""
        none = np.zeros(len(self.states), dtype=np.bool_)
        ends, cuts = self.terminated, self.truncated
        return none if ends is None else ends, none if cuts is None else cuts

    @property
    def same_episode(self) -> Flags:
        """True where row i+1 has the episode number of row i, shape (n−1,)."""
        if self.episodes is None:
            return np.full(len(self.states) - 1, True)
        return np.asarray(self.episodes[1:] == self.episodes[:-1])

    @property
    def same_run(self) -> Flags:
        """True where row i+1 is of the same episode and run as row i, shape (n−1,).

        Without episodes, a file starts a run where there are no times, or where its time starts anew.
        """
        same = self.same_episode
        if self.file_starts and self.episodes is None:
            starts = np.asarray(self.file_starts) - 1
            # Two files may be two runs: a transition too few per file does less harm than a false one.
            same[starts if self.times is None else starts[np.diff(self.times)[starts] < 0]] = False
        return same

    def group_by_episode(self) -> tuple[Integers | None, Recording]:
        """Return the recording with every episode in one piece, and the former rows if any moved."""
        if self.episodes is None:
            return None, self
        _, first, group = np.unique(self.episodes, return_index=True, return_inverse=True)
        position = first[group.reshape(-1)]
        if bool((np.diff(position) >= 0).all()):
            return None, self
        order = np.argsort(position, kind="stable")
        parts: dict[str, Any] = {name: part[order] for name, part in self.per_row.items()}
        return order, replace(self, **parts)

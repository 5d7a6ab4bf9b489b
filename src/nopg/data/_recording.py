"""Rows as they were logged, before anybody asked which transitions they hold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nopg.data._gaps import jumps
from nopg.errors import DataError

__all__ = ["Flags", "Floats", "Recording", "Rows"]

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]

_PER_ROW = (
    "states",
    "actions",
    "rewards",
    "next_states",
    "terminated",
    "truncated",
    "episodes",
    "seconds",
    "weights",
)


@dataclass(frozen=True, slots=True)
class Recording:
    """n logged rows, in order of time inside every episode.

    Attributes:
        source: What to call the recording in errors: a file, "the table".
        states: Shape (n, d_s), NaN where nothing was recorded; likewise the other numbers.
        actions: Shape (n, d_a).
        rewards: Shape (n,).
        names: Names of the state columns, and of the action columns.
        next_states: Shape (n, d_s), or None: then the next row of the episode holds them.
        terminated: Shape (n,), or None where no such flag was logged.
        truncated: Likewise.
        episodes: A whole number per row, shape (n,), or None.
        seconds: Time per row in any unit, shape (n,), or None.
        weights: How many transitions each row stands for, shape (n,), or None.
        breaks: Rows at which another file starts.
        invented_from: The first number of an episode that nobody numbered.
    """

    source: str
    states: Floats
    actions: Floats
    rewards: Floats
    names: tuple[tuple[str, ...], tuple[str, ...]]
    next_states: Floats | None = None
    terminated: Flags | None = None
    truncated: Flags | None = None
    episodes: Rows | None = None
    seconds: Floats | None = None
    weights: Floats | None = None
    breaks: tuple[int, ...] = ()
    invented_from: int = 0

    def __post_init__(self) -> None:
        rows = {name: len(part) for name in _PER_ROW if (part := getattr(self, name)) is not None}
        if len(set(rows.values())) > 1:
            counts = ", ".join(f"{name} {count}" for name, count in rows.items())
            raise DataError(f"{self.source}: unequal numbers of rows: {counts}; every row needs all of them")
        if len(self.states) == 0:
            raise DataError(f"{self.source}: there are no rows; give at least one transition")
        if self.next_states is not None and self.next_states.shape != self.states.shape:
            raise DataError(
                f"{self.source}: states have {self.states.shape[1]} columns, next_states "
                f"{self.next_states.shape[1]}; give the same columns"
            )

        if self.weights is not None and bool((wrong := self.weights <= 0).any()):
            row = int(np.flatnonzero(wrong)[0])
            raise DataError(
                f"{self.source}: row {row} has the weight {self.weights[row]:g}; weights must be positive. "
                "Leave out rows that stand for nothing"
            )

    @property
    def flags(self) -> tuple[Flags, Flags]:
        """Terminated and truncated, False where nothing was logged."""
        none = np.zeros(len(self.states), dtype=np.bool_)
        return (
            none if self.terminated is None else self.terminated,
            none if self.truncated is None else self.truncated,
        )

    @property
    def same_episode(self) -> Flags:
        """True where row i+1 carries the episode number of row i, shape (n−1,)."""
        if self.episodes is None:
            return np.full(len(self.states) - 1, True)
        return np.asarray(self.episodes[1:] == self.episodes[:-1])

    def connected(self, gap_factor: float) -> Flags:
        """Return where row i+1 was recorded right after row i, shape (n−1,)."""
        same = self.same_episode
        if self.seconds is not None:
            same = same & ~jumps(self.seconds, same, gap_factor, self.source)
        if self.episodes is None and self.seconds is None and self.breaks:
            # Two files may be two runs: a transition too few per file does less harm than a false one.
            same[np.asarray(self.breaks) - 1] = False
        return same

    def grouped(self) -> tuple[Rows | None, Recording]:
        """Return the recording with every episode in one piece, and where its rows were if they moved."""
        if self.episodes is None:
            return None, self
        _, first, group = np.unique(self.episodes, return_index=True, return_inverse=True)
        position = first[group.reshape(-1)]
        if bool((np.diff(position) >= 0).all()):
            return None, self

        order = np.argsort(position, kind="stable")
        parts: dict[str, Any] = {
            name: part[order] for name in _PER_ROW if (part := getattr(self, name)) is not None
        }
        return order, replace(self, **parts)

"""Rows of a log on a regular grid of time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from nopg.data._repairs import FILLED, Repairs
from nopg.data.io._clock import TOLERANCE, last_values
from nopg.data.io._recording import Flags, Floats, Integers, Recording
from nopg.errors import ArgumentError, DataError

Resample = Literal["hold", "mean", "nearest"]


@dataclass(frozen=True, slots=True)
class Links:
    """How n rows follow each other.

    Attributes:
        recorded: True where row i+1 is of the same episode and file as row i, shape (n−1,).
        connected: True where, moreover, nothing is missing between them, shape (n−1,).
    """

    recorded: Flags
    connected: Flags


def resample(
    recording: Recording,
    links: Links,
    *,
    method: Resample,
    interval: float,
    periods: tuple[float | None, ...],
) -> tuple[Recording, Links]:
    """Return the recording with a row every `interval` seconds from the first row of every segment.

    A segment is a run of connected rows up to an end. A row within a tenth of an interval of a time of the
    grid counts as at that time. For a time t of the grid

    - "hold" takes the last value of every column in (t − interval, t],
    - "mean" the means of states over (t − interval, t], and of actions and rewards over
      [t, t + interval): the state of a step is what was known when it began, its action what was then done,
    - "nearest" the row nearest to t, which may be up to half a step later.

    An end belongs to the interval that it lies in. Where an interval has no row, the row of the grid before
    it is repeated; where it has rows but no value of a column, that value is missing.

    Args:
        recording: Rows with times in seconds, one per time stamp.
        links: How the rows follow each other.
        method: How values are taken.
        interval: Seconds between two rows of the result.
        periods: Period of every state column, None where it is no angle.
    """
    if method not in get_args(Resample):
        raise ArgumentError(f"resample is {method!r}; give one of {', '.join(get_args(Resample))}")
    if recording.weights is not None:
        raise DataError(f"{recording.source}: weighted rows cannot be resampled; leave the weights out")
    grid = _Grid.of(recording, links, interval)
    ahead, behind = grid.cells(after=False), grid.cells(after=True)
    parts: dict[str, Any] = {
        name: behind.any(flags)
        for name in ("terminated", "truncated", "begins")
        if (flags := getattr(recording, name)) is not None
    }
    for name in ("states", "actions", "rewards"):
        values = getattr(recording, name)
        if method == "nearest":
            parts[name] = values[grid.nearest()]
        elif method == "hold":
            parts[name] = ahead.last(values)
        else:
            cells = ahead if name == "states" else behind
            parts[name] = cells.mean(values, periods if name == "states" else None)
    parts["times"] = grid.times(interval)
    if recording.episodes is not None:
        parts["episodes"] = recording.episodes[grid.first_rows][grid.segment]
    empty, rows = int((~ahead.filled).sum()), len(recording.states)
    note = f"resampled to {interval:g} s ({method}): {rows} rows became {len(grid.segment)}"
    repairs = recording.repairs + Repairs({FILLED: empty} if empty else {}, (note,))
    return replace(recording, **parts, file_starts=(), repairs=repairs), grid.links(links)


@dataclass(frozen=True, slots=True)
class _Grid:
    """Times of a grid, segment by segment.

    Attributes:
        starts: Time of the first row of each segment, shape (k,).
        first_rows: Row of the log at which each segment starts, shape (k,).
        offsets: Number of times of the grid before each segment, and of all, shape (k+1,).
        segment: Segment of each time of the grid, shape (m,).
        places: Place of every row of the log on the grid, shape (n,): its segment's offset and its time
            since the segment's start in intervals.
    """

    starts: Floats
    first_rows: Integers
    offsets: Integers
    segment: Integers
    places: Floats

    @classmethod
    def of(cls, recording: Recording, links: Links, interval: float) -> _Grid:
        times, ends = recording.times, np.logical_or(*recording.flags)
        assert times is not None
        fresh = np.insert(~links.connected | ends[:-1], 0, True)
        first, number = np.flatnonzero(fresh), np.cumsum(fresh) - 1
        last = np.append(first[1:], len(times)) - 1
        since = (times - times[first][number]) / interval
        sizes = np.floor(since[last] + TOLERANCE).astype(np.int64) + 1
        offsets = np.insert(np.cumsum(sizes), 0, 0)
        segment = np.repeat(np.arange(len(first)), sizes)
        return cls(times[first], first, offsets, segment, offsets[number] + since)

    def cells(self, *, after: bool) -> _Cells:
        """Return the rows of the interval after each time of the grid, or before it."""
        shifted = np.floor(self.places + TOLERANCE) if after else np.ceil(self.places - TOLERANCE)
        number = np.searchsorted(self.first_rows, np.arange(len(shifted)), side="right") - 1
        used = shifted < self.offsets[1:][number]  # rows after the last time are in no interval before one
        cell, rows = shifted[used].astype(np.int64), np.flatnonzero(used)
        first, last = (np.searchsorted(cell, np.arange(len(self.segment)), side=side) for side in _SIDES)
        filled = last > first
        source = np.maximum.accumulate(np.where(filled, np.arange(len(filled)), 0))
        return _Cells(rows[first[source]], rows[last[source] - 1], filled)

    def nearest(self) -> Integers:
        """Return the row nearest to each time of the grid, the earlier one of two."""
        at = np.arange(len(self.segment))
        later = np.searchsorted(self.places, at).clip(0, len(self.places) - 1)
        earlier = (later - 1).clip(0)
        return np.where(at - self.places[earlier] <= np.abs(self.places[later] - at), earlier, later)

    def times(self, interval: float) -> Floats:
        steps = np.arange(len(self.segment)) - self.offsets[:-1][self.segment]
        return np.asarray(self.starts[self.segment] + interval * steps)

    def links(self, links: Links) -> Links:
        """Return the links of the rows of the grid: those of the log at the borders of segments."""
        borders = self.offsets[1:-1] - 1
        found = []
        for flags in (links.recorded, links.connected):
            linked = np.full(len(self.segment) - 1, True)
            linked[borders] = flags[self.first_rows[1:] - 1]
            found.append(linked)
        return Links(*found)


_SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")


@dataclass(frozen=True, slots=True)
class _Cells:
    """The rows of m intervals; where an interval has none, those of the last one that has.

    Attributes:
        first: First row of each, shape (m,).
        until: Last row of each, shape (m,).
        filled: Whether the interval has rows of its own, shape (m,).
    """

    first: Integers
    until: Integers
    filled: Flags

    def last(self, values: Floats) -> Floats:
        """Return the last finite value of every column, NaN where there is none."""
        return last_values(values, self.until, self.first)

    def mean(self, values: Floats, periods: tuple[float | None, ...] | None) -> Floats:
        """Return the mean of the finite values of every column, angles around the first of them."""
        columns = values.reshape(len(values), -1)
        found = np.empty((len(self.first), columns.shape[1]))
        for k, column in enumerate(columns.T):
            known = np.isfinite(column)
            number = self._sum(known.astype(np.float64))
            period = periods[k] if periods is not None else None
            base = 0.0 if period is None else self._spread(self.last(column), len(column))
            apart = np.where(known, column - base, 0.0)
            if period is not None:
                apart -= period * np.round(apart / period)
            with np.errstate(invalid="ignore", divide="ignore"):
                mean = self._sum(apart) / number
            # One value is its own mean, to the bit.
            found[:, k] = self.last(column)
            many = number > 1
            found[many, k] = (mean if period is None else self.last(column) + mean)[many]
        return found.reshape(len(self.first), *values.shape[1:])

    def any(self, flags: Flags) -> Flags:
        """Return whether a flag is set in the rows of an interval of its own."""
        return np.asarray((self._sum(flags.astype(np.float64)) > 0) & self.filled)

    def _sum(self, values: Floats) -> Floats:
        """Return the sum from the first to the last row of each interval."""
        ends = np.stack([self.first, self.until + 1], axis=1).reshape(-1)
        return np.asarray(np.add.reduceat(np.append(values, 0.0), ends)[::2])

    def _spread(self, values: Floats, rows: int) -> Floats:
        """Return the value of its interval for every row."""
        first, own = np.unique(self.first, return_index=True)
        cell = np.searchsorted(first, np.arange(rows), side="right") - 1
        return np.asarray(np.nan_to_num(values)[own][cell.clip(0)])

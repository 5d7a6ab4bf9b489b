"""The time of a log: its sampling interval, gaps, irregular steps and repeated time stamps."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nopg.data._repairs import GAPS, IRREGULAR, REPEATED, Repairs
from nopg.data._validation import Source
from nopg.data.io._recording import Flags, Floats, Integers, Recording
from nopg.errors import ArgumentError, DataError

_log = logging.getLogger(__name__)

TOLERANCE = 0.1
"""A step that differs by more than this share from the interval is irregular."""
_FEW_IRREGULAR = 0.05
# A longer step is no transition of one interval: a sample was dropped, or the log has a gap.
LONGEST_STEP = 1.5
# Beyond this share of rows that contradict another row of the same time, the time stamps are too coarse.
_MOST_CONTRADICTIONS = 1 / 3
TIME_UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class Clock:
    """The steps in time of n rows.

    Attributes:
        interval: Sampling interval in seconds: as declared, else the median step; None without a time.
        median: Median step of the rows in seconds, None without a time.
        gaps: True where a gap lies between row i and row i+1: no transition goes across it, shape (n−1,).
        irregular: Number of steps that differ from the interval by more than a tenth.
        steps: Number of steps that are no gaps.
    """

    interval: float | None
    median: float | None
    gaps: Flags
    irregular: int = 0
    steps: int = 0

    @classmethod
    def of(cls, recording: Recording, declared: float | None, gap_factor: float | None = None) -> Clock:
        """Return the clock of a recording whose times are in seconds; time that runs backwards is refused.

        Args:
            recording: The rows.
            declared: Interval in seconds, if it is given.
            gap_factor: Intervals beyond which a step is a gap; one and a half by default.
        """
        if declared is not None and not (math.isfinite(declared) and declared > 0):
            raise ArgumentError(f"interval is {declared}; give seconds, e.g. 60")
        same = recording.same_run
        if recording.times is None:
            return cls(declared, None, np.zeros_like(same))
        gap_factor = LONGEST_STEP if gap_factor is None else gap_factor
        if not gap_factor > 1:
            raise ArgumentError(
                f"gap_factor is {gap_factor}; give more than 1, e.g. 5, or math.inf for no gaps"
            )
        steps = np.diff(recording.times)
        forward = steps[same & (steps > 0)]
        _check_forward(same, steps, recording.source)
        if not len(forward):
            return cls(declared, None, np.zeros_like(same))
        median = _shortest(float(np.median(forward)), float(np.abs(recording.times).max()))
        interval = median if declared is None else declared
        gaps = np.asarray(same & (steps > gap_factor * max(interval, median)))
        within = steps[same & ~gaps & (steps > 0)]
        odd = int((np.abs(within - interval) > TOLERANCE * interval).sum())
        return cls(interval, median, gaps, odd, len(within))

    @property
    def is_irregular(self) -> bool:
        """Whether more than a few steps differ from the interval."""
        return self.irregular > _FEW_IRREGULAR * self.steps

    def repairs(self, *, resampled: bool, source: str) -> Repairs:
        """Return what is to be said of the time of a log."""
        counts: dict[str, int] = {}
        if number := int(self.gaps.sum()):
            counts[GAPS] = number
            _log.info("%s: %d gaps in time end an episode", source, number)
        if resampled or not self.is_irregular or self.median is None or self.interval is None:
            return Repairs(counts)
        if abs(self.interval - self.median) > TOLERANCE * self.median:
            raise ArgumentError(
                f"interval is {self.interval:g} s, but the rows of {source} are {self.median:g} s apart; "
                "resample them by mean or hold, or leave the interval out"
            )
        share = self.irregular / self.steps
        note = (
            f"{100 * share:.3g} % of the steps in time differ from the interval of {self.interval:g} s by "
            f"more than {100 * TOLERANCE:g} %; rows are used as they are"
        )
        _log.info("%s: %s; resampling by hold puts them on a regular grid", source, note)
        return Repairs(counts | {IRREGULAR: self.irregular}, (note,))


def in_seconds(recording: Recording, units: Mapping[str, str]) -> tuple[Recording, dict[str, str]]:
    """Return the recording with times in seconds, and the units without that of the time.

    The unit of the time stands under the name of its column or under "time". Dates are in seconds already,
    and numbers without a unit count as seconds.
    """
    others, columns = dict(units), (*recording.names[0], *recording.names[1])
    given = [name for name in (recording.time_name, "time") if name is not None and name in others]
    if recording.times is None or not given:
        return recording, others
    unit = others[given[0]]
    others = {name: one for name, one in others.items() if name not in given or name in columns}
    if unit not in TIME_UNITS:
        raise DataError(f"the unit of the time is {unit!r}; give one of {', '.join(TIME_UNITS)}")
    if recording.has_dates:
        raise DataError(f"the time of {recording.source} holds dates; they need no unit such as {unit!r}")
    return replace(recording, times=recording.times * TIME_UNITS[unit]), others


def merge_repeated(recording: Recording, order: Integers | None) -> tuple[Recording, Integers | None]:
    """Return the recording with one row per time stamp, and the rows of the log that are left.

    Of rows with one time stamp in one episode the last value of every column counts that is not missing.
    """
    assert recording.times is not None
    ends = np.logical_or(*recording.flags)
    repeats = recording.same_run & (np.diff(recording.times) == 0) & ~ends[:-1]
    if not bool(repeats.any()):
        return recording, order
    first = np.insert(~repeats, 0, True)
    group, last = np.cumsum(first) - 1, np.flatnonzero(np.append(~repeats, True))
    starts = np.flatnonzero(first)
    parts: dict[str, Any] = {}
    contradicts = np.zeros(len(ends), dtype=np.bool_)
    for name, part in recording.per_row.items():
        if part.dtype == np.bool_:
            parts[name] = np.logical_or.reduceat(part, starts)
        elif name in ("episodes", "times"):
            parts[name] = part[last]
        else:
            parts[name] = last_values(part, last, starts)
            apart = np.isfinite(part) & (part != parts[name][group])
            contradicts |= apart if apart.ndim == 1 else apart.any(axis=1)
    _check_contradictions(contradicts, recording)
    number = int(repeats.sum())
    _log.info("%s: %d rows repeat a time stamp; the last values count", recording.source, number)
    repairs = recording.repairs + Repairs({REPEATED: number})
    rows = last if order is None else order[last]
    files = tuple(np.searchsorted(last, recording.file_starts).tolist())
    return replace(recording, **parts, file_starts=files, repairs=repairs), rows


def last_values(values: Floats, last: Integers, first: Integers) -> Floats:
    """Return, for groups of rows from `first` to `last`, the last finite value of every column, else NaN."""
    columns = values.reshape(len(values), -1)
    found = np.full((len(last), columns.shape[1]), np.nan)
    rows = np.arange(len(values))
    for k, column in enumerate(columns.T):
        known = np.maximum.accumulate(np.where(np.isfinite(column), rows, -1))[last]
        found[:, k] = np.where(known >= first, column[known], np.nan)
    return found.reshape(len(last), *values.shape[1:])


def _check_forward(same: Flags, steps: Floats, source: Source) -> None:
    if bool((backwards := same & (steps < 0)).any()):
        row = int(np.flatnonzero(backwards)[0]) + 1
        forward = steps[same & (steps > 0)]
        raise DataError(
            f"{source}: time runs backwards at {source.rows([row])} (by {-steps[row - 1]:g}); "
            + _advice(-steps[row - 1], forward)
        )


def _advice(back: float, forward: Floats) -> str:
    """Return what to do about a step back in time; an hour less a step is the end of summer time."""
    step = float(np.median(forward)) if len(forward) else 0.0
    if abs(back + step - 3600.0) <= step:
        return "is it local time at the end of daylight saving? Export it in UTC or with its offset (+02:00)"
    return "sort the rows by time or, if they are several runs, name the column of the run as the episode"


def _check_contradictions(contradicts: Flags, recording: Recording) -> None:
    share = float(contradicts.mean())
    if share > _MOST_CONTRADICTIONS:
        raise DataError(
            f"{recording.source}: {100 * share:.3g} % of the rows have the time stamp of another row but "
            "other values; log finer time stamps, or leave the time out and give the interval in seconds"
        )


def _shortest(value: float, largest: float) -> float:
    """Return the number of fewest digits that times as large as this cannot tell from the value."""
    within = 4.0 * float(np.spacing(largest))
    candidates = (float(f"{value:.{digits}g}") for digits in range(3, 17))
    return next((one for one in candidates if one > 0 and abs(one - value) <= within), value)

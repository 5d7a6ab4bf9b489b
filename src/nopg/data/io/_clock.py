"""Logged rows and their time: interval, gaps, irregular steps, repeated stamps, and regular grids."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from nopg._columns import GAP_FACTOR
from nopg._typing import BoolArray, FloatArray, IntArray
from nopg.data._checks import Source, check_rows
from nopg.data._repairs import FILLED, GAPS, IRREGULAR, REPEATED, Repairs
from nopg.data.io._roles import Resample, Settings
from nopg.errors import ArgumentError, DataError

TOLERANCE = 0.1
"""A step that differs by more than this share from the interval is irregular."""
_FEW_IRREGULAR = 0.05
# A longer step is no transition of one interval: a sample was dropped, or the log has a gap.
LONGEST_STEP = 1.5
# Beyond this share of rows that contradict another row of the same time, the time stamps are too coarse.
_MOST_CONTRADICTIONS = 1 / 3
TIME_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}


@dataclass(frozen=True, slots=True)
class Recording:
    """n logged rows, in order of time inside every episode.

    `rows` has arrays with an entry per row by the fields of `Transitions`, NaN where nothing was recorded;
    without next_states the next row of the episode holds them. `times` are in seconds; `number` is the row of
    the log, where rows were moved. A file starts at each of `file_starts`, and episodes without a number in
    the log are numbered from `new_episodes_from`. The reward is a column of a name, or a formula.
    """

    source: Source
    names: tuple[tuple[str, ...], tuple[str, ...]]
    rows: Mapping[str, npt.NDArray[Any]]
    file_starts: tuple[int, ...] = ()
    new_episodes_from: int = 0
    formula: str | None = None
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
        same = np.full(len(self.rows["states"]) - 1, True)
        starts = np.asarray(self.file_starts, dtype=int) - 1
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


def on_clock(
    log: Recording, settings: Settings, periods: tuple[float | None, ...]
) -> tuple[Recording, BoolArray, BoolArray, float | None]:
    """Return the recording episode by episode with one row per time, on a regular grid if that is declared.

    With it come whether row i+1 is of the same episode and file as row i, shape (n−1,), whether, moreover,
    nothing is missing between them, and the sampling interval in seconds, where it is known.
    """
    method, timed, in_sequence = settings.get("resample"), "times" in log.rows, "next_states" not in log.rows
    if method not in (None, *get_args(Resample)):
        raise ArgumentError(f"resample is {method!r}; give one of {', '.join(get_args(Resample))}")
    if method is not None and not in_sequence:
        raise ArgumentError("next states of their own cannot be resampled; take the next rows: 'shift'")
    if method is not None and not timed:
        raise ArgumentError(f"the rows cannot be resampled by {method!r} without a time column; name it")
    if method is not None and "weights" in log.rows:
        raise ArgumentError("weighted rows cannot be resampled; leave the weights out")
    if timed or in_sequence:
        log = log.by_episode()
    if timed and in_sequence:
        log = _merge_repeated(log)
    # A regular grid bridges gaps that are short enough to hold values over them.
    longest = settings.get("gap_factor", LONGEST_STEP if method is None else GAP_FACTOR)
    interval, gaps, repairs = _steps(log, settings.get("interval"), longest, resampled=method is not None)
    recorded, connected = log.same_run, log.same_run & ~gaps
    if method is not None and interval is not None:
        log, recorded, connected = _resample(
            log, recorded, connected, method=method, interval=interval, periods=periods
        )
    return log.noted(repairs), recorded, connected, interval


def _steps(
    log: Recording, declared: float | None, gap_factor: float, *, resampled: bool
) -> tuple[float | None, BoolArray, Repairs]:
    """Return the sampling interval in seconds, where the gaps are (n−1,), and what was found about the steps.

    The interval is as declared, else the median step, None without a time. A gap is a step of more than
    `gap_factor` intervals.
    """
    if declared is not None and not (math.isfinite(declared) and declared > 0):
        raise ArgumentError(f"interval is {declared}; give seconds, e.g. 60")
    same, none = log.same_run, np.zeros(len(log.ends) - 1, dtype=np.bool_)
    if "times" not in log.rows:
        return declared, none, Repairs()
    if not gap_factor > 1:
        raise ArgumentError(f"gap_factor is {gap_factor}; give more than 1, e.g. 5, or math.inf for no gaps")
    steps = np.diff(log.rows["times"])
    forward = steps[same & (steps > 0)]
    if (backwards := same & (steps < 0)).any():
        row = int(backwards.argmax()) + 1
        number, back = int(log.rows.get("number", np.arange(row + 1))[row]), -steps[row - 1]
        usual = float(np.median(forward)) if len(forward) else 0.0
        advice = "sort the rows by time or, if they are several runs, name the run's column as the episode"
        if abs(back + usual - 3600.0) <= usual:  # an hour less a step
            advice = "is it local time at the end of daylight saving? Export it in UTC or with its offset"
        where = f"{log.source}: time runs backwards at {log.source.rows([number])} (by {back:g})"
        raise DataError(f"{where}; {advice}")
    if not len(forward):
        return declared, none, Repairs()
    median = _shortest(float(np.median(forward)), float(np.abs(log.rows["times"]).max()))
    interval = median if declared is None else declared
    gaps = np.asarray(same & (steps > gap_factor * max(interval, median)))
    counts = {GAPS: number} if (number := int(gaps.sum())) else {}
    within = steps[same & ~gaps & (steps > 0)]
    irregular = int((np.abs(within - interval) > TOLERANCE * interval).sum())
    if not resampled and irregular > _FEW_IRREGULAR * len(within):
        if abs(interval - median) > TOLERANCE * median:
            what = f"interval is {interval:g} s, but the rows of {log.source} are {median:g} s apart"
            raise ArgumentError(f"{what}; resample them by mean or hold, or leave the interval out")
        counts[IRREGULAR] = irregular
    return interval, gaps, Repairs(counts)


def _shortest(value: float, largest: float) -> float:
    """Return the number of fewest digits that times as large as this cannot tell from the value."""
    within = 4.0 * float(np.spacing(largest))
    candidates = (float(f"{value:.{digits}g}") for digits in range(3, 17))
    return next((one for one in candidates if one > 0 and abs(one - value) <= within), value)


def _merge_repeated(log: Recording) -> Recording:
    """Return the recording with one row per time stamp, of the last values that are not missing."""
    repeats = log.same_run & (np.diff(log.rows["times"]) == 0) & ~log.ends[:-1]
    if not bool(repeats.any()):
        return log
    group, last = np.insert(np.cumsum(~repeats), 0, 0), np.flatnonzero(np.append(~repeats, True))
    merged, contradicts = log.taking(last), np.zeros(len(group), dtype=np.bool_)
    parts = dict(merged.rows)
    for name, part in log.rows.items():
        if part.dtype == np.bool_:
            parts[name] = np.bincount(group, part) > 0
        elif name in ("states", "actions", "rewards", "weights"):
            parts[name] = _in_cells(part, group, len(last))
            apart = np.isfinite(part) & (part != parts[name][group])
            contradicts |= apart.reshape(len(group), -1).any(axis=1)
    if (share := float(contradicts.mean())) > _MOST_CONTRADICTIONS:
        raise DataError(
            f"{log.source}: {100 * share:.3g} % of the rows have the time stamp of another row but other "
            "values; log finer time stamps, or leave the time out and give the interval in seconds"
        )
    files = tuple(np.searchsorted(last, log.file_starts).tolist())
    return replace(merged, rows=parts, file_starts=files).noted(Repairs({REPEATED: int(repeats.sum())}))


def _resample(
    log: Recording,
    recorded: BoolArray,
    connected: BoolArray,
    *,
    method: Resample,
    interval: float,
    periods: tuple[float | None, ...],
) -> tuple[Recording, BoolArray, BoolArray]:
    """Return the recording with a row every `interval` seconds from the first row of every segment.

    A segment is a run of connected rows up to an end. A row within a tenth of an interval of a time of the
    grid counts as at that time. For a time t of the grid "hold" takes the last value of every column in
    (t − interval, t]; "mean" the means of states over (t − interval, t], and of actions and rewards over
    [t, t + interval): the state of a step is what was known when it began, its action what was then done. An
    end belongs to the interval that it lies in. Where an interval has no row, the row of the grid before it
    is repeated; where it has rows but no value of a column, that value is missing.
    """
    times, rows = log.rows["times"], len(log.rows["times"])
    fresh = np.insert(~connected | log.ends[:-1], 0, True)
    first, segment = np.flatnonzero(fresh), np.cumsum(fresh) - 1
    since = (times - times[first][segment]) / interval
    sizes = np.floor(since[np.append(first[1:], rows) - 1] + TOLERANCE).astype(np.int64) + 1
    offsets = np.insert(np.cumsum(sizes), 0, 0)
    count, own = int(offsets[-1]), np.repeat(np.arange(len(first)), sizes)
    places = offsets[segment] + since
    behind = np.floor(places + TOLERANCE).astype(np.int64)
    ahead = np.ceil(places - TOLERANCE).astype(np.int64)
    ahead[ahead >= offsets[1:][segment]] = -1  # rows after the last time are in no interval before one
    since_first = interval * (np.arange(count) - offsets[:-1][own])
    grid: dict[str, npt.NDArray[Any]] = {"times": times[first][own] + since_first}
    for name, part in log.rows.items():
        if part.dtype == np.bool_:
            grid[name] = np.bincount(behind, part, count) > 0
        elif name == "episodes":
            grid[name] = part[first][own]
        elif name in ("states", "actions", "rewards"):
            mean, turns = method == "mean", periods if name == "states" else ()
            cells = behind if mean and name != "states" else ahead
            grid[name] = _in_cells(part, cells, count, mean=mean, periods=turns)
    links = np.full((2, count - 1), True)
    links[:, offsets[1:-1] - 1] = np.array([recorded, connected])[:, first[1:] - 1]
    empty = count - len(np.unique(ahead[ahead >= 0]))
    note = f"resampled to {interval:g} s ({method}): {rows} rows became {count}"
    source = Source(f"{log.source}, resampled")
    log = replace(log, source=source, rows=grid, file_starts=())
    return log.noted(Repairs({FILLED: empty} if empty else {}, (note,))), links[0], links[1]


def _in_cells(
    values: FloatArray,
    cell: IntArray,
    count: int,
    *,
    mean: bool = False,
    periods: tuple[float | None, ...] = (),
) -> FloatArray:
    """Return the last or the mean of the finite values of every column in each cell; −1 is no cell.

    An empty cell has the values of the one before it. Angles are averaged around the last of them.
    """
    import pandas as pd

    columns = np.where(np.isfinite(values), values, np.nan).reshape(len(values), -1)
    used = cell >= 0
    groups = pd.DataFrame(columns[used]).groupby(cell[used])
    found = groups.last()
    if mean:
        base = found.to_numpy()[np.searchsorted(found.index, cell[used])]
        apart = columns[used]
        for k, period in enumerate(periods):
            if period is not None:
                apart[:, k] -= base[:, k]
                apart[:, k] -= period * np.round(apart[:, k] / period)
        means = pd.DataFrame(apart).groupby(cell[used]).mean()
        means += found[[k for k, period in enumerate(periods) if period is not None]].reindex(
            columns=means.columns, fill_value=0.0
        )
        found = means.where(groups.count() > 1, found)  # one value is its own mean, to the bit
    filled = np.zeros(count, dtype=np.bool_)
    filled[found.index] = True
    return np.asarray(found.to_numpy()[np.cumsum(filled) - 1].reshape(count, *values.shape[1:]))

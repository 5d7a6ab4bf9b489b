"""`describe`: what a careful engineer would look at first, as a value, a table and a figure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nopg._typing import ArrayLike
from nopg.data import Transitions
from nopg.data._held_out import duplicate_groups
from nopg.errors import ArgumentError, DataError
from nopg.inspect._clock import Clock, as_seconds, clock_finding
from nopg.inspect._columns import (
    Column,
    angle_finding,
    bounds_finding,
    constant_finding,
    far_finding,
    measure_columns,
    outside_finding,
    reward_finding,
)
from nopg.inspect._coverage import Coverage, coverage_finding, starts_finding, steps_finding
from nopg.inspect._episodes import Episodes, ends_finding, order_finding
from nopg.inspect._figure import draw
from nopg.inspect._findings import Finding, Grade, count_of, look, numbered, ok, share_of, stop
from nopg.inspect._recording import Recording
from nopg.inspect._stuck import Run, find_runs, stuck_finding
from nopg.inspect._table import table
from nopg.kernels import Bandwidths

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Description", "describe", "quick_findings"]

_ROWS_PER_INPUT = 20
_FEW_COPIES, _MANY_COPIES = 0.01, 0.5
_FEW_DROPPED, _MANY_DROPPED = 0.01, 0.2


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Description:
    """What is in a dataset, and what to correct; `str` gives a table, `figure` a picture.

    Attributes:
        num_rows: n.
        num_copies: Rows that repeat an earlier one in (s, a, r, s′).
        num_dropped: Rows that were dropped before for NaN or infinities, where known.
        columns: States, actions, the reward.
        episodes: How many, how long, how they end.
        runs: State columns that hold one value surprisingly long.
        clock: The sampling, where time stamps were given.
        coverage: What the kernels see, or None where that cannot be said.
        no_coverage: Why not, else empty.
        findings: Numbered, the gravest first.
    """

    num_rows: int
    num_copies: int
    num_dropped: int | None
    columns: tuple[Column, ...]
    episodes: Episodes
    runs: tuple[Run, ...]
    clock: Clock | None
    coverage: Coverage | None
    no_coverage: str
    findings: tuple[Finding, ...]

    @property
    def grade(self) -> Grade:
        """The gravest grade of all findings."""
        return self.findings[0].grade

    def finding(self, topic: str) -> Finding | None:
        """Return the finding on a topic, None where the data give no occasion for one."""
        return next((finding for finding in self.findings if finding.topic == topic), None)

    def figure(self) -> Figure:
        """Return small multiples of the columns, the steps, the coverage and what else was measured."""
        return draw(self)

    def __str__(self) -> str:
        return table(self)

    def __repr__(self) -> str:
        counts = ", ".join(f"{self.count(grade)} {grade}" for grade in reversed(Grade))
        return f"Description({count_of(self.num_rows, 'row')}: {counts})"

    def count(self, grade: Grade) -> int:
        """Return how many findings have this grade."""
        return sum(finding.grade == grade for finding in self.findings)


def describe(
    data: Transitions,
    *,
    time: ArrayLike | None = None,
    bandwidths: Bandwidths | None = None,
    num_dropped: int | None = None,
) -> Description:
    """Look at a dataset as a careful engineer would before training on it.

    Ranges, copies, flags, runs and time are read from all rows. What the kernels see is measured on at most
    50 000 rows, the same ones every time. Most of the time goes into selecting bandwidths; those found are
    in `coverage.bandwidths`, and can be given to `optimize` with the paper's model.

    Args:
        data: The transitions.
        time: When each row was recorded, in seconds, shape (n,).
        bandwidths: Of the kernels; selected from the data by default.
        num_dropped: How many rows were dropped for NaN or infinities when the data were read.

    Example:
        >>> from nopg.envs import Pendulum
        >>> from nopg.envs import collect_grid
        >>> description = describe(collect_grid(Pendulum(), (15, 15, 2)))
        >>> description
        Description(450 rows: 0 stop, 1 look, ... ok)
        >>> print(description.findings[0])
        1 [look] duplicates: 30 rows (6.67 %) say again what another row says. Drop them unless...
    """
    return _described(data, time=time, bandwidths=bandwidths, num_dropped=num_dropped, whole=True)


def quick_findings(data: Transitions) -> tuple[Finding, ...]:
    """Return what `describe` finds, numbered, but for what the kernels of the paper's model see."""
    return _described(data, time=None, bandwidths=None, num_dropped=None, whole=False).findings


def _described(
    data: Transitions,
    *,
    time: ArrayLike | None,
    bandwidths: Bandwidths | None,
    num_dropped: int | None,
    whole: bool,
) -> Description:
    if num_dropped is not None and num_dropped < 0:
        raise ArgumentError(f"num_dropped is {num_dropped}; give how many rows were dropped, or None")
    if bandwidths is not None:
        _check_bandwidths(bandwidths, data)
    recording = Recording.of(data)
    columns, episodes = measure_columns(data), Episodes.of(data, recording)
    runs = find_runs(data, recording)
    clock = None if time is None else Clock.of(as_seconds(time, len(data)), recording)
    copies = len(data) - int(duplicate_groups(data).max()) - 1
    coverage, no_coverage = _coverage(data, bandwidths) if whole else (None, "not asked for")

    findings = [
        rows_finding(len(data), copies, num_inputs=data.features.shape[1] + data.actions.shape[1]),
        None if num_dropped is None else dropped_finding(num_dropped, len(data)),
        copies_finding(copies, len(data)),
        constant_finding(columns),
        far_finding(columns),
        angle_finding(columns),
        reward_finding(columns, episodes.num_terminated),
        ends_finding(episodes),
        order_finding(episodes),
        stuck_finding(runs, len(data)) if bool(recording.connected.any()) else None,
        None if clock is None else clock_finding(clock),
        bounds_finding(columns),
        outside_finding(columns),
        *(
            []
            if not whole
            else [look("coverage", f"not measured: {no_coverage}", "Correct that first, then describe again")]
            if coverage is None
            else [steps_finding(coverage), coverage_finding(coverage), starts_finding(coverage)]
        ),
    ]
    return Description(
        num_rows=len(data),
        num_copies=copies,
        num_dropped=num_dropped,
        columns=columns,
        episodes=episodes,
        runs=runs,
        clock=clock,
        coverage=coverage,
        no_coverage=no_coverage,
        findings=numbered(findings),
    )


def _coverage(data: Transitions, bandwidths: Bandwidths | None) -> tuple[Coverage | None, str]:
    try:
        return Coverage.of(data, bandwidths), ""
    except DataError as error:
        return None, str(error)


def _check_bandwidths(bandwidths: Bandwidths, data: Transitions) -> None:
    given = len(bandwidths.states), len(bandwidths.actions)
    wanted = data.features.shape[1], data.actions.shape[1]
    if given != wanted:
        raise ArgumentError(
            f"bandwidths are for {given[0]} state features and {given[1]} actions, "
            f"the data have {wanted[0]} and {wanted[1]}; an angle has two features"
        )


def rows_finding(num_rows: int, num_copies: int, *, num_inputs: int) -> Finding:
    """Judge the number of distinct rows against the number of inputs of the kernels."""
    distinct, wanted = num_rows - num_copies, _ROWS_PER_INPUT * num_inputs
    what = f"{count_of(distinct, 'distinct row')} for {count_of(num_inputs, 'kernel input')}"
    if distinct < 2:
        return stop("rows", what, "Give at least two different transitions")
    if distinct < wanted:
        return look("rows", what, f"Record more, some {wanted} at least, or leave out columns")
    return ok("rows", what)


def dropped_finding(num_dropped: int, num_rows: int) -> Finding:
    """Judge how many rows were dropped for NaN or infinities."""
    share = num_dropped / (num_dropped + num_rows)
    what = f"{count_of(num_dropped, 'row')} with NaN or infinities were dropped ({share_of(share)})"
    advice = "See whether they come from one sensor or one time; what is missing there cannot be learned"
    if share > _MANY_DROPPED:
        return stop("invalid rows", what, advice)
    return look("invalid rows", what, advice) if share > _FEW_DROPPED else ok("invalid rows", what)


def copies_finding(num_copies: int, num_rows: int) -> Finding:
    """Judge rows that say the same thing twice."""
    share = num_copies / num_rows
    if not num_copies:
        return ok("duplicates", "no row repeats another")
    what = f"{count_of(num_copies, 'row')} ({share_of(share)}) say again what another row says"
    advice = "Drop them unless they happened twice: each copy counts in every average"
    if share > _MANY_COPIES:
        return stop("duplicates", what, advice)
    return look("duplicates", what, advice) if share > _FEW_COPIES else ok("duplicates", what)

"""Sensors that hold exactly one value for suspiciously long while the plant moves on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from nopg.data import Transitions
from nopg.inspect._findings import Finding, count_of, listed, look, ok, share_of, stop
from nopg.inspect._recording import Recording

__all__ = ["Run", "find_runs", "stuck_finding"]

# Shorter runs are left alone, whatever the column.
_SHORTEST = 10
# Log of how many runs of that length one would expect if values repeated independently of each other.
_SURPRISING = math.log(1e-3)
_GRAVE_SHARE = 0.05
_POINTS = 400

Kind = Literal["stuck", "limit", "rest"]


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """The longest run of exactly equal values of one state column, where it is surprisingly long.

    Attributes:
        column: Name of the column.
        first: Row in which the run begins.
        last: Row in which it ends.
        length: Rows it holds.
        value: What the column reads all the while.
        kind: `stuck`: something else moves; `limit`: so it does, and the value is the column's least or
            greatest; `rest`: nothing else moves either.
        total: Rows in all such runs of the column.
        trace: Places along the recording and what the column reads there, round the run, shape (2, m).
        span: Places of the first and the last row of the run.
    """

    column: str
    first: int
    last: int
    length: int
    value: float
    kind: Kind
    total: int
    trace: npt.NDArray[np.float64]
    span: tuple[int, int]

    def __str__(self) -> str:
        text = f"{self.column} reads exactly {self.value:.6g} in rows {self.first} to {self.last}"
        return text + (f" ({self.total} rows in all such runs)" if self.total > self.length else "")


def find_runs(data: Transitions, recording: Recording) -> tuple[Run, ...]:
    """Return the surprising run of every state column that has one.

    With p the share of rows that repeat the value before them outside the run, L repetitions in a row are
    surprising where (number of rows)·p^L < 10⁻³: a set-point may rest for long, a pressure may not.
    """
    links = recording.connected.numpy()
    states = data.states[recording.order].numpy()
    moves = np.diff(states, axis=0) != 0  # (n−1, d_s)
    acted = (data.actions[recording.order].diff(dim=0) != 0).any(dim=1).numpy()

    runs = []
    for k, name in enumerate(data.schema.states):
        starts, lengths = _runs_of(links & ~moves[:, k])
        surprising = lengths >= _surprising_length(lengths, int(links.sum()))
        column = states[:, k]
        if not surprising.any() or bool((column == column[0]).all()):
            continue

        place, length = starts[lengths.argmax()], lengths.max()
        during = slice(place, place + length)
        others = np.delete(moves, k, axis=1)[during].any(axis=1) | acted[during]
        at_end = column[place] in (column.min(), column.max())
        kind: Kind = "rest" if others.mean() < 0.5 else "limit" if at_end else "stuck"
        runs.append(
            Run(
                column=name,
                first=int(recording.order[place]),
                last=int(recording.order[place + length]),
                length=int(length) + 1,
                value=float(column[place]),
                kind=kind,
                total=int((lengths[surprising] + 1).sum()),
                trace=_trace(column, place, length),
                span=(int(place), int(place + length)),
            )
        )
    return tuple(runs)


def stuck_finding(runs: tuple[Run, ...], num_rows: int) -> Finding:
    """Judge the runs of a recording of so many rows."""
    topic = "stuck sensor"
    stuck = [run for run in runs if run.kind == "stuck"]
    if stuck:
        worst = max(run.total for run in stuck) / num_rows
        what = (
            f"{'; '.join(str(run) for run in stuck)}, {share_of(worst)} of the data, while other columns move"
        )
        advice = "Drop these rows and end the episode before them: they teach that the value never changes"
        return stop(topic, what, advice) if worst >= _GRAVE_SHARE else look(topic, what, advice)
    if limits := [run for run in runs if run.kind == "limit"]:
        return look(
            topic,
            f"{'; '.join(str(run) for run in limits)}, the end of its range",
            "If a stop holds it there, fine; if the sensor is out of its range, drop these rows",
        )
    if runs:
        rows = max(runs, key=lambda run: run.length)
        return look(
            topic,
            f"nothing moves in rows {rows.first} to {rows.last} ({listed([run.column for run in runs])})",
            f"Cut the {count_of(rows.length, 'row')} if the plant was off or the recording stood still",
        )
    return ok(topic, "no state column repeats one value for long while others move")


def _runs_of(repeats: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return where each run of True begins and how long it is."""
    edges = np.diff(repeats.astype(np.int8), prepend=0, append=0)
    starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    return starts, ends - starts


def _surprising_length(lengths: npt.NDArray[np.int64], num_links: int) -> float:
    """Return how many repetitions in a row are surprising, given all runs of a column."""
    longest = int(lengths.max(initial=0))
    left = num_links - longest
    if left < _SHORTEST:
        return math.inf  # hardly anything left to compare the run with
    p = max((int(lengths.sum()) - longest) / left, 1.0 / left)
    if p >= 1.0:
        return math.inf
    return max(_SHORTEST - 1, (_SURPRISING - math.log(num_links)) / math.log(p))


def _trace(column: npt.NDArray[np.float64], place: int, length: int) -> npt.NDArray[np.float64]:
    margin = max(length, _SHORTEST)
    low, high = max(0, place - margin), min(len(column), place + length + margin + 1)
    places = np.unique(np.linspace(low, high - 1, _POINTS).round().astype(np.int64))
    return np.stack([places.astype(np.float64), column[places]])

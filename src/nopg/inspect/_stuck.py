"""Sensors that repeat one value for suspiciously long while the plant moves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nopg._typing import BoolArray, IntArray
from nopg.data import Transitions
from nopg.inspect._episodes import Episodes
from nopg.inspect._findings import Finding, graded, ok, warning
from nopg.inspect._wording import count_of, listed, share_of

# Shorter runs are left alone, whatever the column.
_SHORTEST = 10
# Log of how many runs of that length one would expect if values repeated independently of each other.
_SURPRISING = math.log(1e-3)
_GRAVE_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Run:
    """The longest run of exactly equal values of one state column, where it is surprisingly long.

    Attributes:
        column: Name of the column.
        first: Row in which the run begins.
        last: Row in which it ends.
        length: Rows it holds.
        value: The repeated value.
        kind: `stuck`: other columns move; `limit`: other columns move, and the value is the column's least or
            greatest; `rest`: nothing else moves.
        total: Rows in all such runs of the column.
    """

    column: str
    first: int
    last: int
    length: int
    value: float
    kind: Literal["stuck", "limit", "rest"]
    total: int

    def __str__(self) -> str:
        text = f"{self.column} reads exactly {self.value:.6g} in rows {self.first} to {self.last}"
        return text + (f" ({self.total} rows in all such runs)" if self.total > self.length else "")


def find_runs(data: Transitions, episodes: Episodes) -> tuple[Run, ...]:
    """Return the surprising run of every measured state column that has one and is not exogenous.

    With p the share of rows that repeat the value before them outside the run, L repetitions in a row are
    surprising where (number of rows)·p^L < 10⁻³: a set-point may stay for long, a pressure may not.
    """
    links = episodes.connected.numpy()
    states = data.states[episodes.order].numpy()
    moves = np.diff(states, axis=0) != 0  # (n−1, d_s)
    acted = (data.actions[episodes.order].diff(dim=0) != 0).any(dim=1).numpy()

    runs = []
    for k, name in enumerate(data.schema.measured):
        starts, lengths = _runs_of(links & ~moves[:, k])
        surprising = lengths >= _surprising_length(lengths, int(links.sum()))
        column = states[:, k]
        if name in data.schema.exogenous or not surprising.any() or bool((column == column[0]).all()):
            continue
        place, length = int(starts[lengths.argmax()]), int(lengths.max())
        during = slice(place, place + length)
        others = np.delete(moves, k, axis=1)[during].any(axis=1) | acted[during]
        at_end = column[place] in (column.min(), column.max())
        runs.append(
            Run(
                column=name,
                first=int(episodes.order[place]),
                last=int(episodes.order[place + length]),
                length=length + 1,
                value=float(column[place]),
                kind="rest" if others.mean() < 0.5 else "limit" if at_end else "stuck",
                total=int((lengths[surprising] + 1).sum()),
            )
        )
    return tuple(runs)


def stuck_finding(runs: tuple[Run, ...], num_rows: int) -> Finding:
    """Return the finding about the runs of a episodes."""
    topic = "stuck sensor"
    stuck, limits = ([run for run in runs if run.kind == kind] for kind in ("stuck", "limit"))
    if stuck:
        worst = max(run.total for run in stuck) / num_rows
        return graded(
            topic,
            f"{'; '.join(map(str, stuck))}, {share_of(worst)} of the data, while other columns move",
            "Drop these rows and end the episode before them: they teach that the value never changes",
            grave=worst >= _GRAVE_SHARE,
        )
    if limits:
        return warning(
            topic,
            f"{'; '.join(map(str, limits))}, the end of its range",
            "Keep them if a mechanical stop holds it there; drop them if the sensor is out of its range",
        )
    if runs:
        rows = max(runs, key=lambda run: run.length)
        return warning(
            topic,
            f"nothing moves in rows {rows.first} to {rows.last} ({listed([run.column for run in runs])})",
            f"Cut the {count_of(rows.length, 'row')} if the plant was off or the recording was frozen",
        )
    return ok(topic, "no state column repeats one value for long while others move")


def _runs_of(repeats: BoolArray) -> tuple[IntArray, IntArray]:
    """Return where each run of True begins and how long it is."""
    edges = np.diff(repeats.astype(np.int8), prepend=0, append=0)
    starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    return starts, ends - starts


def _surprising_length(lengths: IntArray, num_links: int) -> float:
    """Return how many repetitions in a row are surprising, given all runs of a column."""
    longest = int(lengths.max(initial=0))
    left = num_links - longest
    if left < _SHORTEST:
        return math.inf  # too few rows to compare the run with
    p = max((int(lengths.sum()) - longest) / left, 1.0 / left)
    if p >= 1.0:
        return math.inf
    return max(_SHORTEST - 1, (_SURPRISING - math.log(num_links)) / math.log(p))

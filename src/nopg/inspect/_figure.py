"""A description as small multiples: one histogram per column, then episodes and time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from nopg.errors import MissingExtraError
from nopg.inspect._columns import Column
from nopg.inspect._episodes import END_NAMES, Episodes
from nopg.inspect._findings import Finding, Grade
from nopg.inspect._stuck import Run
from nopg.inspect._wording import count_of, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Panel = Callable[[Axes], None]

_ACROSS = 4
_MOST_STATES, _MOST_BARS, _MOST_RUNS = 20, 10, 4
_COLORS = {"state": "#3b6ea5", "action": "#c8752d", "reward": "#5f7f4f"}
_ENDS = dict(zip(END_NAMES, ("#a5423b", "#3b6ea5", "#9a9a9a"), strict=True))
_WARNING = "#a5423b"
_GRADES = {Grade.OK: "#3f7d3f", Grade.WARNING: "#b5761b", Grade.ERROR: "#a5423b"}
_LABEL = 22


def draw(
    num_rows: int, columns: Sequence[Column], findings: Sequence[Finding], panels: Sequence[Panel]
) -> Figure:
    """Return the figure, without global state of matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "figures") from error

    down = math.ceil(len(panels) / _ACROSS)
    figure = Figure(figsize=(3.1 * _ACROSS, 2.5 * down + 0.7), layout="constrained")
    title, color = _title(num_rows, columns, findings), _GRADES[findings[0].grade]
    figure.suptitle(title, color=color, fontsize=11, x=0.01, ha="left")
    for k, panel in enumerate(panels):
        axes = figure.add_subplot(down, _ACROSS, k + 1)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
        panel(axes)
    return figure


def _title(num_rows: int, columns: Sequence[Column], findings: Sequence[Finding]) -> str:
    text, states = count_of(num_rows, "transition"), sum(column.role == "state" for column in columns)
    if states > _MOST_STATES:
        text += f" (the first {_MOST_STATES} of {states} state columns)"
    for grade in (Grade.ERROR, Grade.WARNING):
        if topics := [finding.topic for finding in findings if finding.grade == grade]:
            text += f"\n{grade}: {', '.join(topics)}"
    return text if "\n" in text else text + "\nnothing to correct"


def panels(
    columns: Sequence[Column],
    episodes: Episodes,
    runs: Sequence[Run],
) -> list[Panel]:
    """Return the panels of the figure; of the state columns the first 20."""
    states = [column for column in columns if column.role == "state"]
    shown = [*states[:_MOST_STATES], *(column for column in columns if column.role != "state")]
    found: list[Panel] = [partial(_histogram, column) for column in shown]
    found.append(partial(_actions_at_bounds, [column for column in columns if column.role == "action"]))
    if episodes.lengths:
        found.append(partial(_lengths, episodes))
    return [*found, *(partial(_run, run) for run in runs[:_MOST_RUNS])]


def _head(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set_title(title, fontsize=9, loc="left")
    axes.set_xlabel(x, fontsize=8)
    axes.set_ylabel(y, fontsize=8)


def _histogram(column: Column, axes: Axes) -> None:
    axes.stairs(column.counts, column.edges, fill=True, color=_COLORS[column.role])
    axes.set_ylim(bottom=0)
    axes.locator_params(axis="x", nbins=5)
    label = "angle, one turn" if column.period is not None else str(column.role)
    label += (f" in {column.unit}" if column.unit else "") + (", constant" if column.constant else "")
    _head(axes, shortened(column.name, _LABEL), label, "rows")


def _actions_at_bounds(columns: list[Column], axes: Axes) -> None:
    actions = sorted(columns, key=lambda column: -column.at_ends)[:_MOST_BARS]
    places = np.arange(len(actions))
    low = np.array([100 * column.at_low for column in actions])
    high = np.array([100 * (column.at_ends - column.at_low) for column in actions])
    axes.barh(places, low, color="#7a9cc4", label="at the lower")
    axes.barh(places, high, left=low, color="#d9a273", label="at the upper")
    axes.set_xlim(0, 100)
    _names(axes, [column.name for column in actions])
    axes.set_ylim(max(len(actions) + 1, 3) - 0.4, -0.6)
    axes.legend(fontsize=7, loc="lower right", frameon=False)
    _head(axes, "actions at their bounds", "% of rows", "")


def _names(axes: Axes, names: list[str]) -> None:
    axes.set_yticks(range(len(names)), [shortened(name, 18) for name in names])
    axes.set_ylim(max(len(names), 3) - 0.4, -0.6)


def _lengths(episodes: Episodes, axes: Axes) -> None:
    kinds = [kind for kind in END_NAMES if kind in episodes.ends]
    lengths = [
        [length for length, end in zip(episodes.lengths, episodes.ends, strict=True) if end == kind]
        for kind in kinds
    ]
    low, high = min(episodes.lengths), max(episodes.lengths)
    edges = np.linspace(low - 0.5, high + 0.5, min(30, high - low + 1) + 1)
    _, _, _ = axes.hist(
        lengths, bins=list(edges), stacked=True, color=[_ENDS[kind] for kind in kinds], label=kinds
    )
    if low == high:
        axes.set_xlim(low - 2.5, low + 2.5)
        axes.set_xticks([low])
    else:
        axes.locator_params(axis="x", integer=True, nbins=5)
    axes.ticklabel_format(axis="x", useOffset=False)
    axes.locator_params(axis="y", integer=True, nbins=5)
    axes.set_ylim(top=1.35 * axes.get_ylim()[1])
    axes.legend(fontsize=7, loc="upper right", ncols=2, frameon=False)
    _head(axes, f"ends of {count_of(len(episodes.lengths), 'episode')}", "rows in the episode", "episodes")


def _run(run: Run, axes: Axes) -> None:
    places, values = run.trace
    axes.axvspan(*run.span, color=_WARNING, alpha=0.15, linewidth=0)
    axes.plot(places, values, color=_COLORS["state"], linewidth=0.8)
    kinds = {"stuck": "stuck", "limit": "at the end of its range", "rest": "at rest"}
    _head(axes, f"{shortened(run.column, _LABEL)}: {kinds[run.kind]}", "place in the recording", "")

"""A description as small multiples: one histogram per column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from nopg.errors import MissingExtraError
from nopg.inspect._columns import Column
from nopg.inspect._findings import Finding, Grade
from nopg.inspect._wording import count_of, shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ACROSS, _BINS = 4, 40
_COLORS = {"state": "#3b6ea5", "action": "#c8752d", "reward": "#5f7f4f"}


def draw(num_rows: int, columns: Sequence[Column], findings: Sequence[Finding]) -> Figure:
    """Return the figure, without global state of matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "figures") from error

    across = min(_ACROSS, len(columns))
    down = math.ceil(len(columns) / across)
    figure = Figure(figsize=(3.1 * across, 2.3 * down + 0.8), layout="constrained")
    title = count_of(num_rows, "transition")
    for grade in (Grade.ERROR, Grade.WARNING):
        if topics := [finding.topic for finding in findings if finding.grade == grade]:
            title += f"\n{grade}: {', '.join(topics)}"
    figure.suptitle(title, fontsize=10, x=0.01, ha="left")
    for axes, column in zip(figure.subplots(down, across, squeeze=False).flat, columns, strict=False):
        x, half = column.x, (column.period or 0.0) / 2
        x = (x + half) % (2 * half) - half if half else x
        width = float(np.ptp(x)) > 1e-9 * float(np.abs(x).max())  # else too narrow to be divided
        axes.hist(x, bins=_BINS if width else [x.min() - 0.5, x.max() + 0.5], color=_COLORS[column.role])
        for bound in column.declared or ():
            axes.axvline(bound, color="0.4", linewidth=0.8, linestyle="--")
        axes.set_title(shortened(column.name, 24), fontsize=9, loc="left")
        label = "angle, one turn" if column.period is not None else column.role
        axes.set_xlabel(label + (f" in {column.unit}" if column.unit else ""), fontsize=8)
        axes.tick_params(labelsize=8)
        axes.locator_params(axis="x", nbins=5)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in figure.axes[len(columns) :]:
        axes.set_axis_off()
    figure.supylabel("rows", fontsize=8)
    return figure

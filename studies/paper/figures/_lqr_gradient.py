"""Paths and cosines of gradient estimators on the regulator (`figure:gradient`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from nopg.envs import LQR
from nopg.errors import ArgumentError
from nopg.report._style import new_figure
from studies.lqr_analysis import exact_return, optimal_gain
from studies.paper._experiment import mode_of
from studies.paper.figures._styles import STYLES
from studies.records import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_lqr_gradient"]

_Floats = npt.NDArray[np.float64]

_HORIZON = 30
# Gains beyond these are not shown: a path that leaves them is drawn up to the frame.
_LOW, _HIGH = (-9.0, -6.5), (2.5, 2.5)
_GRID = 41
# Contours of −J; from the optimum, −.85, to the behaviour, −10⁵.
_LEVELS = (0.86, 0.95, 1.2, 2.0, 5.0, 20.0, 100.0, 1e3, 1e4, 1e5, 1e6)


_PANELS: tuple[tuple[str, tuple[str, str]], ...] = (
    ("deterministic policies", ("nopg-d", "dpg")),
    ("Gaussian policies", ("nopg-s", "pwis")),
)
_MISSING = ("+", "x")


def draw_lqr_gradient(records: Sequence[Record]) -> Figure:
    """Return the figure: above, each estimator's own paths over the contours of J; below, its cosines.

    Args:
        records: Their `results` are those of `measure_lqr_gradient`; all of one mode.
    """
    modes = sorted({mode_of(record) for record in records})
    if len(modes) != 1:
        raise ArgumentError(f"the records are of the modes {modes}; give those of one")

    figure: Figure = new_figure(10.0, 9.0)
    axes = figure.subplots(2, 2, height_ratios=(1.35, 1.0))
    for column, (title, methods) in enumerate(_PANELS):
        mine = {name: [r.results for r in records if r.method == name] for name in methods}
        _paths(axes[0, column], mine)
        _cosines(axes[1, column], mine)
        axes[0, column].set_title(title, fontsize=11)
    return figure


def _paths(axes: Axes, results: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Draw every own path, from the behaviour's gains on, over the contours of the exact return."""
    k1, k2, costs = _landscape()
    contours = axes.contour(k1, k2, costs, levels=_LEVELS, colors="0.72", linewidths=0.7)
    axes.clabel(contours, fmt=_return_label, fontsize=7, colors="0.45")

    start = next((run["own_path"][0] for runs in results.values() for run in runs), None)
    if start is not None:
        axes.plot(*start, "D", color="white", markeredgecolor="black", markersize=9, label="start")
    for name, runs in results.items():
        style = STYLES[name]
        for number, run in enumerate(runs):
            path = np.array(run["own_path"], dtype=float)
            label = f"{style.label}: path and end" if number == 0 else None
            axes.plot(
                *path.T,
                linestyle=style.line,
                marker=style.marker,
                color=style.color,
                linewidth=1.3,
                markersize=5,
                markeredgecolor="black",
                markevery=[len(path) - 1],
                label=label,
            )
    optimum = optimal_gain(LQR()).diagonal().tolist()
    axes.plot(*optimum, "*", color="#F0E442", markeredgecolor="black", markersize=14, label="optimum")

    axes.set_xlim(_LOW[0], _HIGH[0])
    axes.set_ylim(_LOW[1], _HIGH[1])
    axes.set_xlabel("gain $k_1$")
    axes.set_ylabel("gain $k_2$")
    _legend_below(axes, -0.14)


def _return_label(cost: float) -> str:
    return f"−{cost:g}" if cost < 1e3 else f"$-10^{{{math.log10(cost):.0f}}}$"


def _landscape() -> tuple[_Floats, _Floats, _Floats]:
    """Return gains and −J over 30 steps on a grid, each (grid, grid)."""
    lqr = LQR()
    k1, k2 = np.meshgrid(*(np.linspace(low, high, _GRID) for low, high in zip(_LOW, _HIGH, strict=True)))
    pairs = zip(k1.ravel(), k2.ravel(), strict=True)
    costs = [-exact_return(lqr, [float(a), float(b)], horizon=_HORIZON) for a, b in pairs]
    return k1, k2, np.array(costs).reshape(k1.shape)


def _cosines(axes: Axes, results: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Draw the mean cosine at every common point, in a band from the lowest to the highest dataset."""
    axes.axhline(0.0, color="0.5", linewidth=0.8)
    for lane, (name, runs) in enumerate(results.items()):
        if not runs:
            continue
        style = STYLES[name]
        shares = np.array(runs[0]["shares"], dtype=float)
        # None becomes NaN, which is not drawn.
        table = np.array([[math.nan if c is None else c for c in run["cosines"]] for run in runs])
        known = ~np.isnan(table).all(axis=0)
        x, y = shares[known], table[:, known]
        lowest, mean, highest = np.nanmin(y, axis=0), np.nanmean(y, axis=0), np.nanmax(y, axis=0)
        axes.fill_between(x, lowest, highest, color=style.color, alpha=0.18, linewidth=0)
        axes.plot(
            x,
            mean,
            linestyle=style.line,
            marker=style.marker,
            color=style.color,
            markersize=4,
            label=f"{style.label}: mean, range",
        )
        missing = shares[np.isnan(table).any(axis=0)]
        if len(missing):
            label = f"{style.label}: datasets without a direction"
            at = np.full(len(missing), -1.1 - 0.1 * lane)
            axes.plot(missing, at, _MISSING[lane], color=style.color, markersize=5, label=label)

    axes.set_xlim(-0.03, 1.0)
    axes.set_ylim(-1.3, 1.08)
    axes.set_xlabel("way from the behaviour's gains (0) to the optimal ones (1)")
    axes.set_ylabel("cosine with the exact gradient")
    axes.spines[["top", "right"]].set_visible(False)
    _legend_below(axes, -0.19)


def _legend_below(axes: Axes, place: float) -> None:
    if not axes.get_legend_handles_labels()[0]:
        return
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, place), ncols=2, frameon=False, fontsize=8)

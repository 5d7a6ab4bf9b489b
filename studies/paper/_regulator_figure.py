"""Paths and cosines of gradient estimators on the regulator (`figure:gradient`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nopg._typing import FloatArray
from nopg.report._style import new_figure
from studies.paper._experiment import mode_of
from studies.paper._regulator import HELD_OUT, SUPPORTED_SHARE
from studies.paper._styles import STYLES, Style
from studies.records import Record
from studies.regulator import exact_return, optimum

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_Runs = Sequence[Mapping[str, Any]]

# Gains beyond these are not shown: a path that leaves them is drawn up to the frame.
_LOW, _HIGH, _GRID = (-10.0, -6.0), (1.6, 1.6), 41
# Contours of −J; from the optimum, −.85, to the behaviour, −10⁵.
_LEVELS = (0.86, 0.95, 1.2, 2.0, 5.0, 20.0, 100.0, 1e3, 1e4, 1e5)
# Up to this distance from the behaviour's gains the axis of NOPG-S is linear, beyond it logarithmic.
_CLOSE = 0.1

_DRAWN: Mapping[str, Style] = {
    "nopg-d": Style("NOPG-D, paper's model", "#D55E00", "-", "o"),
    "local": Style("NOPG-D, LocalModel", "#009E73", "-", "s"),
    "dpg": Style("DPG, supplement's critic", "#0072B2", "-.", "^"),
    "dpg-full": Style("DPG, full quadratic critic", "#56B4E9", ":", "v"),
    "nopg-s": STYLES["nopg-s"],
    "pwis": STYLES["pwis"],
}
_PANELS = (
    ("printed log", ("nopg-d", "local", "dpg", "dpg-full")),
    ("covering log (ours)", ("nopg-d-covering", "local-covering")),
    ("printed log, Gaussian policies", ("nopg-s", "pwis")),
)


def draw_regulator(records: Sequence[Record]) -> Figure:
    """Return the figure: above, the cosines on the line of gains; below, own paths over contours of J.

    Args:
        records: Their `results` are those of `measure_regulator`; those with our settings on the first
            datasets are drawn.
    """
    shown = [r for r in records if mode_of(r) == "ours" and r.seed < HELD_OUT]
    figure: Figure = new_figure(13.0, 8.6)
    axes = figure.subplots(2, 3, height_ratios=(1.0, 1.15))
    for (above, below), (title, names) in zip(axes.T, _PANELS, strict=True):
        runs = {name: [r.results for r in shown if r.method == name] for name in names}
        runs = {name: some for name, some in runs.items() if some}
        gaussian = "nopg-s" in names
        above.set_title(title, fontsize=11)
        _frame(above, gaussian=gaussian)
        if "nopg-d" in runs:
            _shade(above, runs["nopg-d"])
        for name, some in runs.items():
            _cosines(above, some, _DRAWN[name.removesuffix("-covering")], gaussian=gaussian)
        _contours(below)
        for name, some in runs.items():
            if name != "dpg-full":
                _paths(below, some, _DRAWN[name.removesuffix("-covering")])
        for panel in (above, below):
            if panel.get_legend_handles_labels()[0]:
                panel.legend(
                    loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, frameon=False, fontsize=8
                )
    return figure


def _frame(axes: Axes, *, gaussian: bool) -> None:
    axes.axhline(0.0, color="0.5", linewidth=0.8)
    axes.set_ylim(-1.05, 1.05)
    axes.set_ylabel("cosine with the exact gradient")
    axes.spines[["top", "right"]].set_visible(False)
    if not gaussian:
        axes.set_xlabel("way from the behaviour (0) to the optimum (1)")
        return
    axes.set_xscale("symlog", linthresh=_CLOSE, linscale=1.5)
    axes.set_xlim(-1.1 * _CLOSE, 8.0)
    axes.set_xticks([-0.1, -0.05, 0.0, 0.05, 0.1, 0.5, 2.0, 7.0], ["−.1", "", "0", "", ".1", ".5", "2", "7"])
    axes.set_xlabel("distance from the behaviour's gains")
    axes.axvspan(-_CLOSE, _CLOSE, color="0.9", zorder=0, label="gains that the log spans")


def _shade(axes: Axes, runs: _Runs) -> None:
    """Shade the line where the logs support its gains, the darker the more of them."""
    shares = np.array(runs[0]["shares"])
    held = np.array([[share >= SUPPORTED_SHARE for share in run["support"]] for run in runs]).mean(axis=0)
    half, label = 0.5 * float(shares[1] - shares[0]), "supported by 1 to all logs"
    for at, share in zip(shares, held, strict=True):
        if share > 0:
            grey = f"{0.97 - 0.2 * share:.2f}"
            axes.axvspan(at - half, at + half, color=grey, linewidth=0, zorder=0, label=label)
            label = "_"  # one entry in the legend


def _cosines(axes: Axes, runs: _Runs, style: Style, *, gaussian: bool) -> None:
    """Draw the mean cosine at every point, in a band from the lowest to the highest dataset."""
    parts = [[run["close"] for run in runs], runs] if gaussian else [runs]
    x: FloatArray = np.concatenate([part[0]["shares"] for part in parts])
    table = [[c for part in group for c in part["cosines"]] for group in zip(*parts, strict=True)]
    values: FloatArray = np.array(table, dtype=float)  # NaN for None
    if gaussian:
        x = x * math.dist(optimum()[0].tolist(), runs[0]["gains"][0])
    order = [k for k in np.argsort(x) if not np.isnan(values[:, k]).all()]
    x, values = x[order], values[:, order]
    axes.fill_between(
        x,
        np.nanmin(values, axis=0),
        np.nanmax(values, axis=0),
        color=style.color,
        alpha=0.13,
        linewidth=0,
    )
    axes.plot(
        x,
        np.nanmean(values, axis=0),
        linestyle=style.line,
        marker=style.marker,
        color=style.color,
        markersize=4,
        label=style.label,
    )


def _contours(axes: Axes) -> None:
    """Draw contours of the exact return over 30 steps, and the optimum."""
    k1, k2 = np.meshgrid(*(np.linspace(low, high, _GRID) for low, high in zip(_LOW, _HIGH, strict=True)))
    costs = [-float(exact_return(pair)) for pair in zip(k1.ravel(), k2.ravel(), strict=True)]
    contours = axes.contour(
        k1, k2, np.reshape(costs, k1.shape), levels=_LEVELS, colors="0.72", linewidths=0.7
    )
    axes.clabel(contours, fmt=_return_label, fontsize=7, colors="0.45")
    axes.plot(
        *optimum()[0].tolist(), "*", color="#F0E442", markeredgecolor="black", markersize=14, label="optimum"
    )
    axes.set_xlim(_LOW[0], _HIGH[0])
    axes.set_ylim(_LOW[1], _HIGH[1])
    axes.set_title("own ascents, their ends marked", fontsize=9)
    axes.set_xlabel("gain $k_1$")
    axes.set_ylabel("gain $k_2$")


def _paths(axes: Axes, runs: _Runs, style: Style) -> None:
    """Draw every own path, from the behaviour's gains on."""
    for number, run in enumerate(runs):
        path = np.array(run["own_path"])
        axes.plot(
            *path.T,
            linestyle=style.line,
            marker=style.marker,
            color=style.color,
            linewidth=1.1,
            markersize=6,
            markeredgecolor="black",
            markevery=[len(path) - 1],
            label=style.label if number == 0 else None,
        )
    axes.plot(*runs[0]["own_path"][0], "D", color="white", markeredgecolor="black", markersize=8)


def _return_label(cost: float) -> str:
    return f"−{cost:g}" if cost < 1e3 else f"$-10^{{{math.log10(cost):.0f}}}$"

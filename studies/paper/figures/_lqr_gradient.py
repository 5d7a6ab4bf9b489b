"""Paths and cosines of gradient estimators on the regulator (`figure:gradient`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from nopg.envs import LQR
from nopg.report._style import new_figure
from studies.lqr_analysis import exact_return, optimal_gain
from studies.paper._experiment import mode_of
from studies.paper._lqr_findings import HELD_OUT
from studies.paper._lqr_support import SUPPORTED_SHARE
from studies.paper.figures._styles import STYLES, Style
from studies.records import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_lqr_gradient"]

_Floats = npt.NDArray[np.float64]
_Results = Mapping[str, Sequence[Mapping[str, Any]]]

_HORIZON = 30
# Gains beyond these are not shown: a path that leaves them is drawn up to the frame.
_LOW, _HIGH = (-10.0, -6.0), (1.6, 1.6)
_GRID = 41
# Contours of −J; from the optimum, −.85, to the behaviour, −10⁵.
_LEVELS = (0.86, 0.95, 1.2, 2.0, 5.0, 20.0, 100.0, 1e3, 1e4, 1e5)
# Up to this distance from the behaviour's gains the axis of NOPG-S is linear, beyond it logarithmic.
_CLOSE = 0.1

_LOCAL = Style("LocalModel", "#009E73", "-", "s")
_DRAWN: Mapping[str, Style] = {
    "nopg-d": Style("NOPG-D, paper's model", "#D55E00", "-", "o"),
    "local": _LOCAL,
    "dpg": Style("DPG, supplement's critic", "#0072B2", "-.", "^"),
    "dpg-full": Style("DPG, full quadratic critic", "#56B4E9", ":", "v"),
    "nopg-d-starts": Style("paper's model, only the starts", "#E69F00", "--", "<"),
    "nopg-d-noise": Style("paper's model, only the noise", "#CC79A7", "-.", ">"),
    "nopg-d-covering": Style("NOPG-D, paper's model", "#D55E00", "-", "o"),
    "local-covering": _LOCAL,
    "nopg-s": STYLES["nopg-s"],
    "pwis": STYLES["pwis"],
}
_PANELS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("printed log", ("nopg-d", "local", "dpg", "dpg-full"), ("nopg-d", "local", "dpg")),
    (
        "covering log (ours)",
        ("nopg-d-covering", "local-covering", "nopg-d-starts", "nopg-d-noise"),
        ("nopg-d-covering", "local-covering"),
    ),
    ("printed log, Gaussian policies", ("nopg-s", "pwis"), ("nopg-s", "pwis")),
)


def draw_lqr_gradient(records: Sequence[Record]) -> Figure:
    """Return the figure: above, the cosines on the line of gains; below, own paths over contours of J.

    Args:
        records: Their `results` are those of `measure_lqr_gradient`; those with our settings on the first
            datasets are drawn.
    """
    shown = [r for r in records if mode_of(r) == "ours" and r.seed < HELD_OUT]
    figure: Figure = new_figure(13.0, 8.6)
    axes = figure.subplots(2, 3, height_ratios=(1.0, 1.15))
    for column, (title, of_cosines, of_paths) in enumerate(_PANELS):
        mine = {name: [r.results for r in shown if r.method == name] for name in (*of_cosines, *of_paths)}
        above, below = axes[:, column]
        above.set_title(title, fontsize=11)
        gaussian = of_cosines[0] == "nopg-s"
        _frame(above, gaussian=gaussian)
        if column == 0:
            _shade(above, mine[of_cosines[0]])
        for name in of_cosines:
            _cosines(above, mine[name], _DRAWN[name], gaussian=gaussian)
        _legend(above)
        _paths(below, {name: mine[name] for name in of_paths})
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


def _shade(axes: Axes, runs: Sequence[Mapping[str, Any]]) -> None:
    """Shade the line where the logs support its gains, the darker the more of them."""
    if not runs:
        return
    shares = np.array(runs[0]["shares"], dtype=float)
    held = np.array([[share >= SUPPORTED_SHARE for share in run["support"]] for run in runs]).mean(axis=0)
    half = 0.5 * float(shares[1] - shares[0])
    label: str | None = "supported by 1 to all logs"
    for at, share in zip(shares, held, strict=True):
        if share > 0:
            grey = f"{0.97 - 0.2 * share:.2f}"
            axes.axvspan(at - half, at + half, color=grey, linewidth=0, zorder=0, label=label)
            label = None


def _cosines(axes: Axes, runs: Sequence[Mapping[str, Any]], style: Style, *, gaussian: bool) -> None:
    """Draw the mean cosine at every point, in a band from the lowest to the highest dataset."""
    if not runs:
        return
    x, values = _points(runs, gaussian=gaussian)
    known = ~np.isnan(values).all(axis=0)
    x, values = x[known], values[:, known]
    lowest, mean, highest = np.nanmin(values, axis=0), np.nanmean(values, axis=0), np.nanmax(values, axis=0)
    axes.fill_between(x, lowest, highest, color=style.color, alpha=0.13, linewidth=0)
    axes.plot(
        x, mean, linestyle=style.line, marker=style.marker, color=style.color, markersize=4, label=style.label
    )


def _points(runs: Sequence[Mapping[str, Any]], *, gaussian: bool) -> tuple[_Floats, _Floats]:
    """Return where on the line (p,), and the cosines (datasets, p); NaN, which is not drawn, for None."""
    parts = [[run["close"] for run in runs], runs] if gaussian else [runs]
    x = np.concatenate([np.array(part[0]["shares"], dtype=float) for part in parts])
    table = np.array([[c for part in group for c in part["cosines"]] for group in zip(*parts, strict=True)])
    values = table.astype(float)
    if not gaussian:
        return x, values
    start = np.array(runs[0]["gains"][0])
    x = x * float(np.linalg.norm(optimal_gain(LQR()).diagonal().numpy() - start))
    order = np.argsort(x)
    return x[order], values[:, order]


def _paths(axes: Axes, results: _Results) -> None:
    """Draw every own path, from the behaviour's gains on, over the contours of the exact return."""
    k1, k2, costs = _landscape()
    contours = axes.contour(k1, k2, costs, levels=_LEVELS, colors="0.72", linewidths=0.7)
    axes.clabel(contours, fmt=_return_label, fontsize=7, colors="0.45")
    start = next((run["own_path"][0] for runs in results.values() for run in runs), None)
    if start is not None:
        axes.plot(*start, "D", color="white", markeredgecolor="black", markersize=8, label="start")
    for name, runs in results.items():
        style = _DRAWN[name]
        for number, run in enumerate(runs):
            path = np.array(run["own_path"], dtype=float)
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
    optimum = optimal_gain(LQR()).diagonal().tolist()
    axes.plot(*optimum, "*", color="#F0E442", markeredgecolor="black", markersize=14, label="optimum")
    axes.set_xlim(_LOW[0], _HIGH[0])
    axes.set_ylim(_LOW[1], _HIGH[1])
    axes.set_title("own ascents, their ends marked", fontsize=9)
    axes.set_xlabel("gain $k_1$")
    axes.set_ylabel("gain $k_2$")
    _legend(axes)


def _return_label(cost: float) -> str:
    return f"−{cost:g}" if cost < 1e3 else f"$-10^{{{math.log10(cost):.0f}}}$"


def _landscape() -> tuple[_Floats, _Floats, _Floats]:
    """Return gains and −J over 30 steps on a grid, each (grid, grid)."""
    lqr = LQR()
    k1, k2 = np.meshgrid(*(np.linspace(low, high, _GRID) for low, high in zip(_LOW, _HIGH, strict=True)))
    pairs = zip(k1.ravel(), k2.ravel(), strict=True)
    costs = [-exact_return(lqr, [float(a), float(b)], horizon=_HORIZON) for a, b in pairs]
    return k1, k2, np.array(costs).reshape(k1.shape)


def _legend(axes: Axes) -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, frameon=False, fontsize=8)

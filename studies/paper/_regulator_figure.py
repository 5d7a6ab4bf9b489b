"""Cosines of gradient estimators with the truth on the regulator (`figure:gradient`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nopg._typing import FloatArray
from nopg.report._style import new_figure
from studies.paper._experiment import mode_of
from studies.paper._learning_figure import STYLES, Style
from studies.paper._regulator import HELD_OUT, SUPPORTED_SHARE
from studies.records import Record
from studies.regulator import optimum

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_Runs = Sequence[Mapping[str, Any]]

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
    """Return the cosines on the line of gains, a panel for each log.

    Args:
        records: Their `results` are those of `measure_regulator`; those with our settings on the first
            datasets are drawn.
    """
    shown = [r for r in records if mode_of(r) == "ours" and r.seed < HELD_OUT]
    figure: Figure = new_figure(13.0, 4.4)
    for axes, (title, names) in zip(figure.subplots(1, 3), _PANELS, strict=True):
        runs = {name: [r.results for r in shown if r.method == name] for name in names}
        gaussian = "nopg-s" in names
        axes.set_title(title, fontsize=11)
        _frame(axes, gaussian=gaussian)
        if runs.get("nopg-d"):
            _shade(axes, runs["nopg-d"])
        for name, some in runs.items():
            if some:
                _cosines(axes, some, _DRAWN[name.removesuffix("-covering")], gaussian=gaussian)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, frameon=False, fontsize=8)
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
    """Draw the mean cosine at every point, −1 without a direction, in a band from least to largest."""
    parts = [[run["close"] for run in runs], runs] if gaussian else [runs]
    x: FloatArray = np.concatenate([part[0]["shares"] for part in parts])
    if gaussian:
        x = x * math.dist(optimum()[0].tolist(), runs[0]["gains"][0])
    table = [
        [-1.0 if c is None else c for part in group for c in part["cosines"]]
        for group in zip(*parts, strict=True)
    ]
    order = np.argsort(x)
    x, values = x[order], np.array(table)[:, order]
    low, high = values.min(axis=0), values.max(axis=0)
    axes.fill_between(x, low, high, color=style.color, alpha=0.13, linewidth=0)
    axes.plot(
        x,
        values.mean(axis=0),
        linestyle=style.line,
        marker=style.marker,
        color=style.color,
        markersize=4,
        label=style.label,
    )

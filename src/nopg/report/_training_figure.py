"""The course of a training: Ĵ, what is unknown, and the gradient, update by update."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from nopg._typing import FloatArray
from nopg.report._state_axes import foot, plain, rounded
from nopg.report._style import new_figure
from nopg.training import TrainingResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_training", "training_table"]

_LINE, _ANSWER = "#0072B2", "#D55E00"
# With so few updates each one is marked; a range so wide asks for a log scale.
_FEW, _WIDE = 40, 30.0
_LOWER_END = (
    "curve: lower end of the interval of the return, by the equation that is trained on; answer: return "
    "along rollouts of the model, with its interval, of the start or of the end, whichever is safer"
)


def training_table(result: TrainingResult) -> dict[str, FloatArray]:
    """Return the course of a training as columns by name, one row per policy on the way.

    `updates` counts those made so far; the last row is the answer, of which no gradient was taken.
    """
    rows = [
        (update.number - 1, update.expected_return, update.unknown_mass, update.gradient_norm)
        for update in result.history
    ]
    rows.append((len(result.history), result.expected_return, result.unknown_mass, math.nan))
    names = ("updates", "expected_return", "unknown_mass", "gradient_norm")
    return dict(zip(names, np.array(rows, dtype=np.float64).T, strict=True))


def draw_training(result: TrainingResult) -> Figure:
    """Return Ĵ, U and the size of the gradient over the updates, with the answer apart from them.

    On the local model the curve is the lower end of the interval and the answer is the return with its
    interval, of the start of the training or of its end; see `optimize`.
    """
    table, reward = training_table(result), result.policy.schema.units.get("reward")
    figure: Figure = new_figure(6.0, 6.0)
    answer = f"answer {rounded(result.expected_return)}, unknown {rounded(100 * result.unknown_mass)} %"
    figure.suptitle(f"Training: {answer}", fontsize=10, x=0.01, ha="left")
    above, middle, below = figure.subplots(3, 1, sharex=True, height_ratios=(1.5, 1.0, 1.0))

    updates = table["updates"]
    _course(above, updates, table["expected_return"])
    _course(middle, updates, 100 * table["unknown_mass"])
    _course(below, updates, table["gradient_norm"])
    above.set_ylabel(r"return $\hat J$" + (f" in {plain(reward)}" if reward else ""), fontsize=9)
    middle.set_ylabel("unknown $U$ in %", fontsize=9)
    below.set_ylabel(r"gradient $\|\nabla\hat J\|$", fontsize=9)
    below.set_xlabel("updates made", fontsize=9)
    above.legend(fontsize=9, loc="best", frameon=False)
    for axes in (above, middle, below):
        axes.tick_params(labelsize=9)
        axes.grid(color="0.9", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    below.xaxis.get_major_locator().set_params(integer=True)
    figure.align_ylabels()
    if result.interval is not None:
        low, high = result.interval
        above.vlines(float(updates[-1]), low, high, color=_ANSWER, linewidth=1.6)
        foot(figure, [_LOWER_END])
    return figure


def _course(axes: Axes, updates: FloatArray, values: FloatArray) -> None:
    """Draw all but the last value as a curve, and the last, if there is one, as the answer."""
    marker = "." if len(values) < _FEW else ""
    axes.plot(updates[:-1], values[:-1], color=_LINE, linewidth=1.4, marker=marker, label="while training")
    if not math.isnan(values[-1]):
        axes.plot(
            updates[-1:], values[-1:], "D", color=_ANSWER, markeredgecolor="black", label="answer", zorder=3
        )
    shown = values[~np.isnan(values)]
    if shown.min() > 0 and shown.max() > _WIDE * shown.min():
        axes.set_yscale("log")

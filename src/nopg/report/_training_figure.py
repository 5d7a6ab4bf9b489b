"""Training curves: Ĵ, unknown mass and gradient over the updates."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from nopg._typing import FloatArray
from nopg.report._state_axes import foot, plain
from nopg.report._style import new_figure
from nopg.report._wording import number
from nopg.training import TrainingResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LINE, _RESULT = "#0072B2", "#D55E00"
# Fewer updates are marked one by one; a wider range gets a log scale.
_FEW, _WIDE = 40, 30.0
_LOWER_END = (
    "curve: lower end of the interval of the return, by the equation; result: return along rollouts of the "
    "model, with its interval, at the start or at the end of the training, whichever has the higher lower end"
)


def training_table(result: TrainingResult) -> dict[str, FloatArray]:
    """Return the training curves as columns by name, one row per policy.

    `updates` counts the updates before; the last row is the result, which has no gradient.
    """
    rows = [
        (update.number - 1, update.expected_return, update.unknown_mass, update.gradient_norm)
        for update in result.history
    ]
    rows.append((len(result.history), result.expected_return, result.unknown_mass, math.nan))
    names = ("updates", "expected_return", "unknown_mass", "gradient_norm")
    return dict(zip(names, np.array(rows, dtype=np.float64).T, strict=True))


def draw_training(result: TrainingResult) -> Figure:
    """Return Ĵ, U and the norm of the gradient over the updates, with the result as a mark.

    On the local model the curve is the lower end of the interval, and the result is the return with its
    interval, at the start or at the end of the training; see `optimize`.
    """
    table, reward = training_table(result), result.policy.schema.units.get("reward")
    figure: Figure = new_figure(6.0, 6.0)
    found, unknown = number(result.expected_return, 3), number(100 * result.unknown_mass, 3)
    figure.suptitle(f"Training: result {found}, unknown {unknown} %", fontsize=10, x=0.01, ha="left")
    above, middle, below = figure.subplots(3, 1, sharex=True, height_ratios=(1.5, 1.0, 1.0))

    updates = table["updates"]
    _course(above, updates, table["expected_return"])
    _course(middle, updates, 100 * table["unknown_mass"])
    _course(below, updates, table["gradient_norm"])
    above.set_ylabel(r"return $\hat J$" + (f" in {plain(reward)}" if reward else ""), fontsize=9)
    middle.set_ylabel("unknown $U$ in %", fontsize=9)
    below.set_ylabel(r"gradient $\|\nabla\hat J\|$", fontsize=9)
    below.set_xlabel("updates made", fontsize=9)
    if result.interval is not None:
        above.plot(updates[[-1, -1]], result.interval, color=_RESULT, linewidth=1.6)
        foot(figure, [_LOWER_END])
    above.legend(fontsize=9, loc="best", frameon=False)
    for axes in (above, middle, below):
        axes.tick_params(labelsize=9)
        axes.grid(color="0.9", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    below.xaxis.get_major_locator().set_params(integer=True)
    figure.align_ylabels()
    return figure


def _course(axes: Axes, updates: FloatArray, values: FloatArray) -> None:
    """Draw all but the last value as a curve, and the last, unless NaN, as the result."""
    marker = "." if len(values) < _FEW else ""
    axes.plot(updates[:-1], values[:-1], color=_LINE, linewidth=1.4, marker=marker, label="while training")
    if not math.isnan(values[-1]):
        axes.plot(
            updates[-1:], values[-1:], "D", color=_RESULT, markeredgecolor="black", label="result", zorder=3
        )
    shown = values[~np.isnan(values)]
    if shown.min() > 0 and shown.max() > _WIDE * shown.min():
        axes.set_yscale("log")

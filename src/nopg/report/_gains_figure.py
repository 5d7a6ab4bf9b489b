"""The predicted return over every gain of a controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nopg.report._pictures import Picture
from nopg.report._style import new_figure
from nopg.training import GainTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTH, _HEIGHT, _ACROSS, _LETTERS = 4.8, 1.9, 3, 8
_COLOR = "#0072B2"


def draw_gains(gains: GainTable) -> Figure:
    """Return one panel for each gain: predicted return, its interval, and the trained value."""
    rows = -(-len(gains) // _ACROSS)
    figure: Figure = new_figure(_WIDTH, _HEIGHT * rows)
    panels = figure.subplots(rows, min(len(gains), _ACROSS), sharey=True, squeeze=False).flat
    for axes, one in zip(panels, gains, strict=False):
        axes.fill_between(one.values, one.low, one.high, color=_COLOR, alpha=0.2, linewidth=0)
        axes.plot(one.values, one.returns, color=_COLOR, marker=".", linewidth=1.4)
        axes.axvline(one.value, color="0.4", linewidth=0.8, linestyle="--")
        axes.set_xlabel(one.name, fontsize=_LETTERS)
        axes.tick_params(labelsize=_LETTERS)
        axes.grid(color="0.9", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in list(panels):
        axes.set_visible(False)
    figure.axes[0].set_ylabel("predicted return", fontsize=_LETTERS)
    return figure


def gains_picture(gains: GainTable) -> Picture:
    """Return the figure with its numbers, one row for each predicted return."""
    number = np.repeat(np.arange(len(gains)), [len(one.values) for one in gains]).astype(np.float64)
    parts = ("values", "returns", "low", "high")
    columns = {part: np.concatenate([getattr(one, part) for one in gains]) for part in parts}
    return Picture(draw_gains(gains), {"gain": number, **columns})

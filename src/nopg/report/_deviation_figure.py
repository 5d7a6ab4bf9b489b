"""The predicted gain over how far a controller may deviate from the logged one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nopg.report._pictures import Picture
from nopg.report._style import new_figure
from nopg.training import DeviationTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTH, _HEIGHT, _LETTERS = 4.8, 2.2, 8
_COLOR = "#0072B2"


def deviation_picture(deviations: DeviationTable) -> Picture:
    """Return the figure with its numbers, one row for each limit."""
    share = np.array([one.share for one in deviations])
    gain = np.array([one.gain.mean for one in deviations])
    low, high = np.array([one.gain.interval for one in deviations]).T
    figure: Figure = new_figure(_WIDTH, _HEIGHT)
    axes = figure.subplots()
    axes.fill_between(100 * share, low, high, color=_COLOR, alpha=0.2, linewidth=0)
    axes.plot(100 * share, gain, color=_COLOR, marker=".", linewidth=1.4)
    axes.axhline(0.0, color="0.4", linewidth=0.8)
    axes.set_xlabel("largest deviation, % of the logged range", fontsize=_LETTERS)
    axes.set_ylabel("gain", fontsize=_LETTERS)
    axes.tick_params(labelsize=_LETTERS)
    axes.grid(color="0.9", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    return Picture(figure, {"share": share, "gain": gain, "low": low, "high": high})

"""Fan charts of many paths over time or steps."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nopg._typing import FloatArray
from nopg.report._state_axes import plain
from nopg.report._style import HATCHED, new_figure
from nopg.report._time_axis import TimeAxis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PERCENTILES = (5, 25, 50, 75, 95)
# Fewer paths than this are drawn one by one.
_FEWEST = 10
_BANDS = ((0, 4, 0.2), (1, 3, 0.35))
_WIDTH, _HEIGHT, _LETTERS = 4.8, 2.4, 9
_STEPS = TimeAxis()


@dataclass(frozen=True, slots=True, eq=False)
class Fan:
    """Many paths of one quantity.

    Attributes:
        name: Name in tables, such as `predicted`.
        title: Title of the panel.
        color: Color of lines and bands.
        paths: The quantity at every step of every path, NaN after its end, shape (T, m).
        unknown_after: The step from which less than half of the paths are inside the data, or None.
    """

    name: str
    title: str
    color: str
    paths: FloatArray
    unknown_after: int | None = None

    @property
    def few(self) -> bool:
        """Whether the paths are too few for bands."""
        return bool(self.paths.shape[1] < _FEWEST)

    def curves(self) -> Mapping[str, FloatArray]:
        """Return percentiles over the paths that have not ended, or few paths themselves, each (T,)."""
        if self.few:
            return {f"{self.name}_{k}": path for k, path in enumerate(self.paths.T, start=1)}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "All-NaN slice")  # a step that no path reaches
            found = np.nanpercentile(self.paths, _PERCENTILES, axis=1)
        names = (f"{self.name}_{percent}_percent" for percent in _PERCENTILES)
        return dict(zip(names, found, strict=True))


def fans_table(*fans: Fan, axis: TimeAxis = _STEPS) -> dict[str, FloatArray]:
    """Return the curves of fans with equal numbers of steps as columns by name, one row per step."""
    table = axis.columns(len(fans[0].paths))
    for fan in fans:
        table |= fan.curves()
    return table


def draw_fans(label: str, *fans: Fan, axis: TimeAxis = _STEPS) -> Figure:
    """Return fans from left to right on the same axes: median, 50 % and 90 % of the paths."""
    figure: Figure = new_figure(_WIDTH, _HEIGHT)
    for axes, fan in zip(figure.subplots(1, len(fans), sharex=True, sharey=True), fans, strict=True):
        _draw(axes, fan, axis)
        axes.set_title(plain(fan.title), fontsize=_LETTERS, loc="left")
        axes.set_xlabel(axis.label, fontsize=_LETTERS)
        axes.tick_params(labelsize=_LETTERS)
        axes.grid(color="0.9", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel(label, fontsize=_LETTERS)
    figure.axes[0].set_xlim(0, axis.step * max(len(fans[0].paths) - 1, 1))
    return figure


def _draw(axes: Axes, fan: Fan, axis: TimeAxis) -> None:
    steps, curves = axis.places(len(fan.paths)), list(fan.curves().values())
    if fan.few:
        for curve in curves:
            axes.plot(steps, curve, color=fan.color, linewidth=1.0)
    else:
        for low, high, alpha in _BANDS:
            axes.fill_between(steps, curves[low], curves[high], color=fan.color, alpha=alpha, linewidth=0)
        axes.plot(steps, curves[2], color=fan.color, linewidth=1.6)
    if fan.unknown_after is not None:
        axes.axvspan(axis.step * fan.unknown_after, axis.step * len(steps), zorder=0, **HATCHED)

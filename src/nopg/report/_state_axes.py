"""Axes of state columns: names, units, ticks of angles, title and notes."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nopg._typing import FloatArray
from nopg.data import Schema
from nopg.evaluation import StateMap
from nopg.inspect._wording import shortened
from nopg.report._wording import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LETTERS_PER_LABEL = 36  # along the height of a panel
_LONGEST_NAME, _MOST_HELD = 40, 12
_QUARTERS = {0: "0", 1: "π/2", 2: "π", 3: "3π/2", 4: "2π"}


def named(name: str, schema: Schema) -> str:
    """Return the label of a column: its name and its declared unit."""
    label = shortened(name, _LONGEST_NAME) + (f" in {schema.units[name]}" if name in schema.units else "")
    return plain("\n".join(textwrap.wrap(label, _LETTERS_PER_LABEL)))


def head(figure: Figure, title: str, state_map: StateMap) -> None:
    """Write the title, and below it the values of the held columns."""
    units = state_map.schema.units
    held = [
        f"{plain(shortened(name, _LONGEST_NAME))} = {number(value, 3)} {plain(units.get(name, ''))}".rstrip()
        for name, value in state_map.slice.held.items()
    ]
    if len(held) > _MOST_HELD:
        held = [*held[:_MOST_HELD], f"and {len(held) - _MOST_HELD} more columns held"]
    text = f"{title}\nat {', '.join(held)}" if held else title
    figure.suptitle(text, fontsize=10, x=0.01, ha="left", wrap=True)


def foot(figure: Figure, notes: Sequence[str]) -> None:
    """Write notes on the marks below the panels."""
    if notes:
        figure.supxlabel("; ".join(notes), fontsize=9, x=0.01, ha="left", color="0.25", wrap=True)


def label_axes(axes: Axes, state_map: StateMap) -> None:
    """Label the axes of a panel, with ticks for angles; a curve has one axis of states."""
    where, schema = state_map.slice, state_map.schema
    for letter, name, values in zip("xy", where.columns, where.axes, strict=False):
        axes.set(
            **{f"{letter}label": named(name, schema), f"{letter}lim": (float(values[0]), float(values[-1]))}
        )
        if name in schema.angles:
            _turn(axes.xaxis if letter == "x" else axes.yaxis, values, schema.angles[name])
    axes.tick_params(labelsize=9)


def _turn(axis: Any, values: FloatArray, period: float) -> None:
    """Put ticks at the quarters of an axis over a full turn."""
    if not math.isclose(float(values[-1] - values[0]), period, rel_tol=2e-3):
        return
    ticks = np.linspace(values[0], values[-1], 5)
    axis.set_ticks(ticks, [_angle(float(tick), period) for tick in ticks])


def _angle(value: float, period: float) -> str:
    quarter = 2 * value / math.pi
    if math.isclose(period, 2 * math.pi) and abs(quarter - round(quarter)) < 1e-3 and abs(quarter) < 4.5:
        return ("−" if round(quarter) < 0 else "") + _QUARTERS[abs(round(quarter))]
    return number(value, 3)


def plain(text: str) -> str:
    """Return a text that matplotlib does not read as mathematics."""
    return text.replace("$", r"\$")

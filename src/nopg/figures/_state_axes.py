"""Axes of state columns: their names and units, the turns of angles, and the words around them."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nopg._typing import FloatArray
from nopg.data import Schema
from nopg.evaluation import StateMap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["dress", "foot", "head", "named", "rounded"]

_LETTERS_PER_INCH = 12.5  # at 10 points
_LONGEST_NAME = 40
_QUARTERS = {0: "0", 1: "π/2", 2: "π", 3: "3π/2", 4: "2π"}


def rounded(number: float) -> str:
    """Return a number of three digits with a true minus."""
    return f"{number:.3g}".replace("-", "−")


def named(name: str, schema: Schema) -> str:
    """Return the label of a column: its name, and its unit where somebody declared one."""
    short = name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
    return _plain(short) + (f" in {_plain(schema.units[name])}" if name in schema.units else "")


def head(figure: Figure, title: str, state_map: StateMap) -> None:
    """Write the title, and below it where the columns that are not drawn are held."""
    units = state_map.schema.units
    held = [
        f"{_plain(name)} = {rounded(value)} {_plain(units.get(name, ''))}".rstrip()
        for name, value in state_map.slice.held.items()
    ]
    lines = [title, *([f"at {', '.join(held)}"] if held else [])]
    figure.suptitle(_folded(lines, figure), fontsize=10, x=0.01, ha="left")


def foot(figure: Figure, notes: Sequence[str]) -> None:
    """Say below the panels what the marks on them are."""
    if notes:
        figure.supxlabel(_folded(["; ".join(notes)], figure), fontsize=9, x=0.01, ha="left", color="0.25")


def dress(axes: Axes, state_map: StateMap) -> None:
    """Name the axes of a panel and give angles their ticks; a curve has one axis of states."""
    where, schema = state_map.slice, state_map.schema
    for letter, name, values in zip("xy", where.columns, where.axes, strict=False):
        axes.set(
            **{f"{letter}label": named(name, schema), f"{letter}lim": (float(values[0]), float(values[-1]))}
        )
        if name in schema.angles:
            _turn(axes.xaxis if letter == "x" else axes.yaxis, values, schema.angles[name])
    axes.tick_params(labelsize=9)


def _turn(axis: Any, values: FloatArray, period: float) -> None:
    """Put ticks at the quarters of an axis that makes a full turn."""
    if not math.isclose(float(values[-1] - values[0]), period, rel_tol=2e-3):
        return
    ticks = np.linspace(values[0], values[-1], 5)
    axis.set_ticks(ticks, [_angle(float(tick), period) for tick in ticks])


def _angle(value: float, period: float) -> str:
    quarter = 2 * value / math.pi
    if math.isclose(period, 2 * math.pi) and abs(quarter - round(quarter)) < 1e-3 and abs(quarter) < 4.5:
        return ("−" if round(quarter) < 0 else "") + _QUARTERS[abs(round(quarter))]
    return rounded(value)


def _folded(lines: Sequence[str], figure: Figure) -> str:
    width = int(figure.get_figwidth() * _LETTERS_PER_INCH)
    return "\n".join(part for line in lines for part in textwrap.wrap(line, width))


def _plain(text: str) -> str:
    """Return a text of the user's that matplotlib shall not read as mathematics."""
    return text.replace("$", r"\$")

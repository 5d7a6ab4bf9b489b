"""Curves of a training: the return over each gain, and over the updates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nopg.report._style import AFTER, BEFORE, WIDTH, Picture, finish, label, new_figure
from nopg.training import GainTable, TrainingResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ACROSS, _HEIGHT = 2, 1.7


def gains_picture(gains: GainTable) -> Picture:
    """Return one panel with an axis of its own for each gain: return, its interval, the trained value."""
    rows = -(-len(gains) // _ACROSS)
    figure: Figure = new_figure(WIDTH, _HEIGHT * rows)
    panels = list(figure.subplots(rows, min(len(gains), _ACROSS), squeeze=False).flat)
    for axes, one in zip(panels, gains, strict=False):
        axes.fill_between(one.values, one.low, one.high, color=AFTER, alpha=0.2, linewidth=0)
        axes.plot(one.values, one.returns, color=AFTER, marker=".", linewidth=1.4)
        axes.axvline(one.value, color="0.4", linewidth=0.8, linestyle="--")
        finish(axes, x=one.name, title="return")
    for axes in panels[len(gains) :]:
        axes.remove()
    number = np.repeat(np.arange(len(gains)), [len(one.values) for one in gains]).astype(np.float64)
    parts = ("values", "returns", "low", "high")
    columns = {part: np.concatenate([getattr(one, part) for one in gains]) for part in parts}
    text = "Predicted return over each gain, the others as trained; band: 95 %, dashed: as trained."
    return Picture(figure, {"gain": number, **columns}, text)


def training_picture(result: TrainingResult) -> Picture:
    """Return the return and the unknown mass over the updates, with the result as a mark.

    `updates` counts the updates before; the last row of the table is the result.
    """
    rows = [(one.number - 1, one.expected_return, one.unknown_mass) for one in result.history]
    rows.append((len(result.history), result.expected_return, result.unknown_mass))
    names = ("updates", "expected_return", "unknown_mass")
    table = dict(zip(names, np.array(rows, dtype=np.float64).T, strict=True))
    figure: Figure = new_figure(WIDTH, 3.2)
    above, below = figure.subplots(2, 1, sharex=True)
    for axes, name, factor in ((above, "expected_return", 1.0), (below, "unknown_mass", 100.0)):
        values = factor * table[name]
        axes.plot(
            table["updates"][:-1], values[:-1], color=AFTER, marker=".", linewidth=1.4, label="while training"
        )
        axes.plot(table["updates"][-1:], values[-1:], "D", color=BEFORE, label="result", zorder=3)
    if result.interval is not None:
        above.plot(table["updates"][[-1, -1]], result.interval, color=BEFORE, linewidth=1.6)
    finish(above, title=label("reward", result.policy.schema).replace("reward", "return", 1), legend=True)
    finish(below, x="updates made", title="outside the data [%]")
    below.xaxis.get_major_locator().set_params(integer=True)
    text = "Return and share outside the data over the updates"
    if result.interval is not None:
        text += "; curve: lower end of the interval by the equation, result: return along rollouts"
    return Picture(figure, table, f"{text}.")

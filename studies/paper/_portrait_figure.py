"""The paper's phase portraits of μ̃ and V̂ (`figure:muv`), with the true pendulum between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nopg._typing import FloatArray
from nopg.report._style import new_figure
from studies.paper._experiment import MODE_WORDS, mode_of
from studies.paper._portrait import UPRIGHT
from studies.records import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import LogNorm, Normalize
    from matplotlib.figure import Figure

_ANGLE, _SPEED = math.pi, 8.0
# Shares below this are drawn like it: less than one step in ten thousand.
_LEAST_SHARE = 1e-4
# From here on a state counts as unknown.
_MOSTLY = 0.5
_VISITS, _VALUES, _PATH = "viridis", "cividis", "#b5123e"


def draw_portrait(records: Sequence[Record]) -> Figure:
    """Return a row before and a row after training: predicted visits, true visits, V̂ with the true path.

    Args:
        records: Their `results` are those of `measure_portrait`; the first of our mode is drawn, or the
            first of all.
    """
    figure: Figure = new_figure(12.0, 6.6)
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LogNorm, Normalize

    record = next((one for one in records if mode_of(one) == "ours"), records[0])
    parts = [record.results["before"], record.results["after"]]
    highest = max(np.max(part[name]) for part in parts for name in ("visitation", "truth"))
    shares = LogNorm(_LEAST_SHARE, max(float(highest), 10 * _LEAST_SHARE))
    values = Normalize(
        min(np.min(part["value"]) for part in parts), max(np.max(part["value"]) for part in parts)
    )
    panels = figure.subplots(2, 3)
    for row, when, part in zip(panels, ("before", "after"), parts, strict=True):
        apart = f"total variation {part['total_variation']:.3f} to the truth"
        _visits(row[0], part["visitation"], shares, rf"$\tilde\mu$ {when} training", part["upright_mass"])
        _visits(row[1], part["truth"], shares, f"true visits; {apart}", part["upright_mass_truth"])
        _value(row[2], part, values, rf"$\hat V$ {when} training")
        row[0].set_ylabel("angular velocity in rad/s", fontsize=8)
    _path(panels[1, 2], record.results["path"])
    for axes in panels[1]:
        axes.set_xlabel("angle in rad, 0 upright", fontsize=8)
    visits = figure.colorbar(ScalarMappable(shares, _VISITS), ax=panels[:, :2], pad=0.01, extend="min")
    visits.set_label("share of discounted visits in a cell", fontsize=8)
    value = figure.colorbar(ScalarMappable(values, _VALUES), ax=panels[:, 2], pad=0.01)
    value.set_label(r"discounted return $\hat V$", fontsize=8)
    figure.suptitle(_title(record), fontsize=11, x=0.01, ha="left")
    return figure


def _title(record: Record) -> str:
    before, after = (
        f"{part['expected_return']:.0f} (true {part['discounted_truth']:.0f})".replace("-", "−")
        for part in (record.results["before"], record.results["after"])
    )
    return (
        f"Swing-up pendulum, NOPG-D by {MODE_WORDS[mode_of(record)]}, {record.rows} transitions, "
        f"seed {record.seed}: discounted return {before} before, {after} after "
        f"{record.results['updates']} updates"
    )


def _phase(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=9, loc="left")
    axes.set_xlim(-_ANGLE, _ANGLE)
    axes.set_ylim(-_SPEED, _SPEED)
    axes.set_xticks([-_ANGLE, -_ANGLE / 2, 0, _ANGLE / 2, _ANGLE], ["−π", "−π/2", "0", "π/2", "π"])
    axes.set_yticks([-8, -4, 0, 4, 8])
    axes.tick_params(labelsize=8)


def _visits(axes: Axes, shares: list[list[float]], norm: LogNorm, title: str, upright: float) -> None:
    cells = np.maximum(np.asarray(shares).T, _LEAST_SHARE)
    rows, columns = cells.shape
    edges = np.linspace(-_ANGLE, _ANGLE, columns + 1), np.linspace(-_SPEED, _SPEED, rows + 1)
    axes.pcolormesh(*edges, cells, norm=norm, cmap=_VISITS, rasterized=True)
    for angle in (-UPRIGHT, UPRIGHT):
        axes.axvline(angle, color="white", linewidth=0.7, linestyle=":")
    _phase(axes, f"{title}\n{100 * upright:.2g} % within .5 rad of upright (dotted)")


def _value(axes: Axes, part: dict[str, Any], norm: Normalize, title: str) -> None:
    values, unknown = np.asarray(part["value"]).T, np.asarray(part["unknown"]).T
    rows, columns = values.shape
    places = np.linspace(-_ANGLE, _ANGLE, columns), np.linspace(-_SPEED, _SPEED, rows)
    axes.pcolormesh(*places, values, norm=norm, cmap=_VALUES, shading="gouraud", rasterized=True)
    if unknown.max() > _MOSTLY:
        axes.contourf(*places, unknown, levels=[_MOSTLY, 1.01], colors="none", hatches=["////"])
        title += "\nhatched: outside the data"
    _phase(axes, title)


def _path(axes: Axes, path: list[list[float]]) -> None:
    states: FloatArray = np.asarray(path, dtype=np.float64)
    turns = np.flatnonzero(np.abs(np.diff(states[:, 0])) > _ANGLE) + 1
    line = np.insert(states, turns, np.nan, axis=0)  # no stroke across the figure where the angle wraps
    axes.plot(line[:, 0], line[:, 1], color=_PATH, linewidth=1.2, marker=".", markersize=3.5)
    axes.plot(*states[0], marker="o", color="white", markeredgecolor="black", markersize=7, clip_on=False)
    axes.plot(*states[-1], marker="*", color="white", markeredgecolor="black", markersize=12)
    axes.set_title(
        f"{axes.get_title(loc='left')}\ntrue path from the circle to the star: {len(states)} steps",
        fontsize=9,
        loc="left",
    )

"""The paper's phase portraits of μ̃ and V̂ (`figure:muv`), with the true pendulum below them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nopg._typing import FloatArray
from nopg.errors import ArgumentError
from nopg.report._style import new_figure
from studies.paper._experiment import MODE_WORDS, mode_of
from studies.records import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import LogNorm, Normalize
    from matplotlib.figure import Figure

__all__ = ["draw_portrait"]

_ANGLE, _SPEED = math.pi, 8.0
# Shares below this are drawn like it: less than one step in ten thousand.
_LEAST_SHARE = 1e-4
_UPRIGHT = 0.5  # rad
# From here on a state counts as unknown.
_MOSTLY = 0.5
_VISITS, _VALUES, _PATH = "viridis", "cividis", "#b5123e"


def draw_portrait(records: Sequence[Record]) -> Figure:
    """Return μ̃ and V̂ before and after training, above the visits and the path of the true pendulum.

    Args:
        records: Their `results` are those of `measure_portrait`; the first of our mode is drawn, or the
            first of all.
    """
    if not records:
        raise ArgumentError("there are no records to draw; run the portrait experiment first")
    figure: Figure = new_figure(13.0, 6.6)
    from matplotlib.colors import LogNorm, Normalize

    record = next((one for one in records if mode_of(one) == "ours"), records[0])
    results = record.results
    both = [results["before"], results["after"]]
    highest = np.max([part[name] for part in both for name in ("visitation", "truth")])
    shares = LogNorm(_LEAST_SHARE, max(float(highest), 10 * _LEAST_SHARE))
    values = Normalize(*_range([part["value"] for part in both]))

    panels = figure.subplots(2, 4)
    for k, (when, part) in enumerate(zip(("before", "after"), both, strict=True)):
        model, value, truth = panels[0, 2 * k], panels[0, 2 * k + 1], panels[1, 2 * k]
        _visits(model, part["visitation"], shares, rf"$\tilde\mu$ {when} training")
        _subtitle(model, f"{_percent(part['upright_mass'])} within .5 rad of upright (dotted)")
        _value(value, part, values, rf"$\hat V$ {when} training")
        _visits(truth, part["truth"], shares, f"true visits {when} training")
        _subtitle(truth, f"{_percent(part['upright_mass_truth'])} within .5 rad of upright (dotted)")
    _distances(panels[1, 1], record)
    _value(panels[1, 3], results["after"], values, r"true path over $\hat V$ after training")
    _path(panels[1, 3], results["path"])

    for axes in (*panels[0], panels[1, 0], *panels[1, 2:]):
        axes.set_xlabel("angle in rad, 0 upright", fontsize=8)
    for axes in panels[:, 0]:
        axes.set_ylabel("angular velocity in rad/s", fontsize=8)
    _bars(figure, panels, shares, values)
    figure.suptitle(_title(record), fontsize=11, x=0.01, ha="left")
    return figure


def _title(record: Record) -> str:
    by = MODE_WORDS[mode_of(record)]
    before, after = (
        f"{part['expected_return']:.0f} (true {part['discounted_truth']:.0f})".replace("-", "−")
        for part in (record.results["before"], record.results["after"])
    )
    return (
        f"Swing-up pendulum, NOPG-D by {by}, {record.rows} transitions, seed {record.seed}: "
        f"discounted return {before} before, {after} after {record.results['updates']} updates"
    )


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def _range(values: list[Any]) -> tuple[float, float]:
    return float(np.min(values)), float(np.max(values))


def _phase(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=9, loc="left")
    axes.set_xlim(-_ANGLE, _ANGLE)
    axes.set_ylim(-_SPEED, _SPEED)
    axes.set_xticks([-_ANGLE, -_ANGLE / 2, 0, _ANGLE / 2, _ANGLE], ["−π", "−π/2", "0", "π/2", "π"])
    axes.set_yticks([-8, -4, 0, 4, 8])
    axes.tick_params(labelsize=8)


def _visits(axes: Axes, shares: list[list[float]], norm: LogNorm, title: str) -> None:
    cells = np.maximum(np.asarray(shares).T, _LEAST_SHARE)
    rows, columns = cells.shape
    edges = np.linspace(-_ANGLE, _ANGLE, columns + 1), np.linspace(-_SPEED, _SPEED, rows + 1)
    axes.pcolormesh(*edges, cells, norm=norm, cmap=_VISITS, rasterized=True)
    for angle in (-_UPRIGHT, _UPRIGHT):
        axes.axvline(angle, color="white", linewidth=0.7, linestyle=":")
    _phase(axes, title)


def _value(axes: Axes, part: dict[str, Any], norm: Normalize, title: str) -> None:
    values, unknown = np.asarray(part["value"]).T, np.asarray(part["unknown"]).T
    rows, columns = values.shape
    places = np.linspace(-_ANGLE, _ANGLE, columns), np.linspace(-_SPEED, _SPEED, rows)
    axes.pcolormesh(*places, values, norm=norm, cmap=_VALUES, shading="gouraud", rasterized=True)
    _phase(axes, title)
    if unknown.max() > _MOSTLY:
        axes.contourf(*places, unknown, levels=[_MOSTLY, 1.01], colors="none", hatches=["////"])
        _subtitle(axes, "hatched: outside the data")


def _path(axes: Axes, path: list[list[float]]) -> None:
    states: FloatArray = np.asarray(path, dtype=np.float64)
    turns = np.flatnonzero(np.abs(np.diff(states[:, 0])) > _ANGLE) + 1
    line = np.insert(states, turns, np.nan, axis=0)  # no stroke across the figure where the angle wraps
    axes.plot(line[:, 0], line[:, 1], color=_PATH, linewidth=1.2, marker=".", markersize=3.5)
    axes.plot(*states[0], marker="o", color="white", markeredgecolor="black", markersize=7, clip_on=False)
    axes.plot(*states[-1], marker="*", color="white", markeredgecolor="black", markersize=12)
    _subtitle(axes, f"from the circle to the star in {len(states)} steps")


def _distances(axes: Axes, record: Record) -> None:
    """Draw how far the predicted visits are from the true ones, before and after training."""
    parts = (record.results["before"], record.results["after"])
    distances = [part["total_variation"] for part in parts]
    axes.bar(["before", "after"], distances, color="#3b6ea5", width=0.5)
    axes.axhline(0.1, color="black", linewidth=0.8, linestyle="--")
    axes.set_ylim(0, max(1.2 * max(distances), 0.2))
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(r"from $\tilde\mu$ to the true visits", fontsize=9, loc="left")
    axes.set_ylabel("total variation, 20 × 20 cells", fontsize=8)


def _subtitle(axes: Axes, text: str) -> None:
    """Add a second line to the title."""
    axes.set_title(f"{axes.get_title(loc='left')}\n{text}", fontsize=9, loc="left")


def _bars(figure: Figure, panels: Any, shares: LogNorm, values: Normalize) -> None:
    from matplotlib.cm import ScalarMappable

    visits = figure.colorbar(ScalarMappable(shares, _VISITS), ax=panels[0], pad=0.01, extend="min")
    visits.set_label("share of discounted visits in a cell", fontsize=8)
    value = figure.colorbar(ScalarMappable(values, _VALUES), ax=panels[1], pad=0.01)
    value.set_label(r"discounted return $\hat V$", fontsize=8)
    for bar in (visits, value):
        bar.ax.tick_params(labelsize=8)

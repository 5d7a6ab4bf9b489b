"""Maps of value, visits and policy over two state columns, or curves over one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nopg._typing import FloatArray
from nopg.evaluation import StateMap
from nopg.figures._state_axes import dress, foot, head, named
from nopg.figures._state_marks import Marks, hatch_outside, mark_states
from nopg.figures._style import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_policy", "draw_value", "draw_visitation"]

# Visits below this share of the most visited place are drawn like it.
_LEAST_VISITS = 1e-4
_WIDTH, _HEIGHT = 6.0, 4.4
_LINE = "#0072B2"


@dataclass(frozen=True, slots=True)
class _Look:
    """How numbers become colours, all of them rising in brightness.

    Attributes:
        label: Of the colour bar, or of the y axis of a curve.
        colors: Matplotlib's colour map.
        floor: Share of the highest below which a log scale does not go; None for a linear one.
    """

    label: str
    colors: str
    floor: float | None = None


def draw_value(state_map: StateMap, marks: Marks) -> Figure:
    """Return V̂ over the states."""
    unit = state_map.schema.units.get("reward")
    label = "discounted return" + (f" in {unit}" if unit else "")
    look = _Look(label, "cividis")
    title = r"Value $\hat V$: what the data let us expect from here on"
    return _drawn(state_map, marks, title, [(state_map.value, look)])


def draw_visitation(state_map: StateMap, marks: Marks) -> Figure:
    """Return μ̃ over the states, by its logarithm."""
    look = _Look(f"discounted visits, log, ≥ {_LEAST_VISITS:.0e} of the highest", "viridis", _LEAST_VISITS)
    title = r"Visitation $\tilde\mu$: where the policy goes from the start"
    return _drawn(state_map, marks, title, [(state_map.visitation, look)])


def draw_policy(state_map: StateMap, marks: Marks) -> Figure:
    """Return what the policy does over the states, one panel per action column."""
    schema = state_map.schema
    panels = [
        (state_map.actions[..., k], _Look(named(name, schema), "plasma"))
        for k, name in enumerate(schema.actions)
    ]
    return _drawn(state_map, marks, "Policy: the action without exploration", panels)


def _drawn(state_map: StateMap, marks: Marks, title: str, panels: list[tuple[FloatArray, _Look]]) -> Figure:
    figure: Figure = new_figure(_WIDTH, _HEIGHT + 3.2 * (len(panels) - 1))
    head(figure, title, state_map)
    draw = _curve if len(state_map.slice.axes) == 1 else _map
    notes: list[str] = []
    for axes, (values, look) in zip(
        figure.subplots(len(panels), 1, squeeze=False)[:, 0], panels, strict=True
    ):
        draw(axes, state_map, values, look)
        notes = hatch_outside(axes, state_map)
        mark_states(axes, marks)
        dress(axes, state_map)
    foot(figure, [*notes, *marks.notes])
    return figure


def _map(axes: Axes, state_map: StateMap, values: FloatArray, look: _Look) -> None:
    from matplotlib.colors import LogNorm, Normalize

    low, high = _ends(values[~state_map.outside], look.floor)
    norm = Normalize(low, high) if look.floor is None else LogNorm(low, high)
    mesh = axes.pcolormesh(
        *state_map.slice.axes,
        np.clip(values, low, high).T,
        norm=norm,
        cmap=look.colors,
        shading="gouraud",
        rasterized=True,
    )
    below = look.floor is not None and bool((values[~state_map.outside] < low).any())
    bar = axes.figure.colorbar(mesh, ax=axes, pad=0.02, extend="min" if below else "neither")
    bar.set_label(look.label, fontsize=9)
    bar.ax.tick_params(labelsize=9)


def _curve(axes: Axes, state_map: StateMap, values: FloatArray, look: _Look) -> None:
    low, high = _ends(values[~state_map.outside], look.floor)
    known = np.where(state_map.outside, np.nan, np.maximum(values, low))
    axes.plot(*state_map.slice.axes, known, color=_LINE, linewidth=1.6)
    if look.floor is not None:
        axes.set_yscale("log")
        axes.set_ylim(low, 2 * high)
    else:
        axes.set_ylim(low - 0.08 * (high - low), high + 0.05 * (high - low))
    axes.set_ylabel(look.label, fontsize=9)
    axes.grid(color="0.9", linewidth=0.6)


def _ends(values: FloatArray, floor: float | None) -> tuple[float, float]:
    """Return the ends of the scale, from what lies inside the data."""
    if floor is not None:
        high = float(values.max(initial=0.0)) or 1.0
        return floor * high, high
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    if high - low > 1e-9 * max(abs(low), abs(high)):
        return low, high
    margin = 0.5 * abs(low) or 0.5  # the same everywhere
    return low - margin, high + margin

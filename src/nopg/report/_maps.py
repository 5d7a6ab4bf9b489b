"""Maps of value, visits and policy over two state columns, or curves over one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from nopg._typing import FloatArray
from nopg.evaluation import StateMap
from nopg.report._state_axes import foot, head, label_axes, named, plain
from nopg.report._state_marks import Marks, hatch_outside, mark_states
from nopg.report._style import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Visits below this share of the largest are drawn alike.
_LEAST_VISITS = 1e-4
# The colours of the value span states with less unknown mass; others take the colour at the end, so that the
# value of leaving the data, at the rim, does not set the scale.
_FIRM = 0.01
_WIDTH, _HEIGHT, _NEXT_HEIGHT = 6.0, 4.4, 3.2
_MOST_PANELS = 8
_LINE = "#0072B2"
_ARROWS: Mapping[tuple[bool, bool], Literal["neither", "both", "min", "max"]] = MappingProxyType(
    {(False, False): "neither", (True, False): "min", (False, True): "max", (True, True): "both"}
)


@dataclass(frozen=True, slots=True, eq=False)
class _Panel:
    """Numbers on the grid and their colours, which increase in brightness.

    Attributes:
        values: The numbers.
        firm: Which of them are within the scale.
        label: Label of the colour bar, or of the y axis of a curve.
        colors: Matplotlib's colour map.
        floor: Share of the highest below which a log scale does not go; None for a linear one.
    """

    values: FloatArray
    firm: npt.NDArray[np.bool_]
    label: str
    colors: str
    floor: float | None = None

    def scale(self) -> tuple[float, float]:
        """Return the ends of the scale."""
        values = self.values[self.firm]
        if self.floor is not None:
            high = float(values.max()) if values.max() > 0 else 1.0
            return self.floor * high, high
        low, high = float(values.min()), float(values.max())
        if high - low > 1e-9 * max(abs(low), abs(high)):
            return low, high
        margin = 0.5 * abs(low) or 0.5  # the same everywhere
        return low - margin, high + margin


def draw_value(state_map: StateMap, marks: Marks) -> Figure:
    """Return V̂ over the states."""
    inside, unit = ~state_map.outside, state_map.schema.units.get("reward")
    firm = inside & (state_map.unknown < _FIRM)
    label = "discounted return" + (f" in {plain(unit)}" if unit else "")
    panel = _Panel(state_map.value, firm if firm.any() else inside, label, "cividis")
    return _drawn(state_map, marks, r"Value $\hat{V}$: expected return from each state on", [panel])


def draw_visitation(state_map: StateMap, marks: Marks) -> Figure:
    """Return μ̃ over the states, on a log scale."""
    label = "discounted visits\n(log scale, floor at $10^{-4}$ of the highest)"
    panel = _Panel(state_map.visitation, ~state_map.outside, label, "viridis", _LEAST_VISITS)
    return _drawn(state_map, marks, r"Visitation $\tilde\mu$: where the policy goes from the start", [panel])


def draw_policy(state_map: StateMap, marks: Marks) -> Figure:
    """Return the actions over the states, one panel per action column."""
    names = state_map.schema.actions
    panels = [
        _Panel(state_map.actions[..., k], ~state_map.outside, named(name, state_map.schema), "plasma")
        for k, name in enumerate(names[:_MOST_PANELS])
    ]
    some = f", the first {len(panels)} of {len(names)} columns" if len(panels) < len(names) else ""
    return _drawn(state_map, marks, f"Policy: the action without exploration{some}", panels)


def _drawn(state_map: StateMap, marks: Marks, title: str, panels: Sequence[_Panel]) -> Figure:
    figure: Figure = new_figure(_WIDTH, _HEIGHT + _NEXT_HEIGHT * (len(panels) - 1))
    head(figure, title, state_map)
    draw = _curve if len(state_map.slice.axes) == 1 else _map
    notes: list[str] = []
    grid = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
    for axes, panel in zip(grid, panels, strict=True):
        if panel.firm.any():
            draw(axes, state_map, panel)
        notes = hatch_outside(axes, state_map)
        mark_states(axes, marks)
        label_axes(axes, state_map)
    for axes in grid[:-1]:
        axes.set_xlabel("")
    foot(figure, [*notes, *marks.notes])
    return figure


def _map(axes: Axes, state_map: StateMap, panel: _Panel) -> None:
    from matplotlib.colors import LogNorm, Normalize

    low, high = panel.scale()
    mesh = axes.pcolormesh(
        *state_map.slice.axes,
        np.clip(panel.values, low, high).T,
        norm=Normalize(low, high) if panel.floor is None else LogNorm(low, high),
        cmap=panel.colors,
        shading="gouraud",
        rasterized=True,
    )
    shown = panel.values[~state_map.outside]
    beyond = bool(shown.min() < low), bool(shown.max() > high)
    bar = axes.figure.colorbar(mesh, ax=axes, pad=0.02, extend=_ARROWS[beyond])
    bar.set_label(panel.label, fontsize=9)
    bar.ax.tick_params(labelsize=9)


def _curve(axes: Axes, state_map: StateMap, panel: _Panel) -> None:
    """Draw a curve with gaps outside the data."""
    low, high = panel.scale()
    known = np.where(state_map.outside, np.nan, panel.values)
    if panel.floor is None:
        axes.set_ylim(low - 0.1 * (high - low), high + 0.05 * (high - low))  # room for dots
    else:
        known = np.maximum(known, low)
        axes.set_yscale("log")
        axes.set_ylim(0.4 * low, 2 * high)
    axes.plot(*state_map.slice.axes, known, color=_LINE, linewidth=1.6)
    axes.set_ylabel(panel.label, fontsize=9)
    axes.grid(color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)

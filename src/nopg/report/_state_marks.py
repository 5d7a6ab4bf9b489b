"""Marks on a map of states: areas outside the data, logged states, initial states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from nopg._typing import FloatArray
from nopg.data import Transitions
from nopg.data._held_out import spread_rows
from nopg.evaluation import StateMap
from nopg.evaluation._state_map import StateSlice
from nopg.report._style import HATCHED, OUTSIDE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_DOTS, _MOST_STARTS = 1_000, 20


@dataclass(frozen=True, slots=True, eq=False)
class Marks:
    """States marked on a map, in the coordinates of its axes.

    Attributes:
        logged: Logged states, shape (m, axes).
        starts: Initial states, shape (m₀, axes).
        notes: Notes below the map.
    """

    logged: FloatArray
    starts: FloatArray
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls,
        state_map: StateMap,
        data: Transitions | None,
        widths: torch.Tensor,
        *,
        within: float,
        unit: str,
    ) -> Marks:
        """Return the states near the map, at most an even sample of 1 000.

        Args:
            state_map: The map.
            data: The logged transitions, if any.
            widths: Unit of distance of each state feature.
            within: Largest distance of the held columns of a marked state from those of the map.
            unit: Unit of this distance, in words.
        """
        where, notes = state_map.slice, []
        near_words = f" within {within:g} {unit} of the held values" if where.held else ""
        logged = torch.empty(0, len(state_map.schema.states), dtype=torch.float64)
        if data is not None:
            near = where.near(data.states, widths, within=within)
            of = data.take(near) if bool(near.any()) else None
            if of is not None:
                logged = of.states[spread_rows(of, _MOST_DOTS, purpose="dots").sort().values]  # as logged
                some = f"{len(logged)} of {len(of)} " if len(logged) < len(of) else ""
                notes.append(f"dots: {some}logged states{near_words}")
            else:
                notes.append(f"no logged state lies{near_words}")

        starts = torch.as_tensor(state_map.starts)
        circles = where.project(starts[where.near(starts, widths, within=within)])
        circles = circles[_on(where, circles)]
        if 0 < len(circles) <= _MOST_STARTS:
            notes.append("circle: start" if len(circles) == 1 else "circles: starts")
        else:
            circles = circles[:0]
        return cls(where.project(logged), circles, tuple(notes))


def _on(where: StateSlice, places: FloatArray) -> npt.NDArray[np.bool_]:
    """Return which places (m, axes) lie on the axes, up to rounding, shape (m,)."""
    low, high = np.array([axis[[0, -1]] for axis in where.axes]).T
    slack = 1e-9 * (high - low)
    return np.asarray(((places >= low - slack) & (places <= high + slack)).all(axis=1))


def hatch_outside(axes: Axes, state_map: StateMap) -> list[str]:
    """Hatch areas outside the data, and return the note on it."""
    if not state_map.outside.any():
        return []
    if len(state_map.slice.axes) == 1:
        (x,), where = state_map.slice.axes, state_map.outside.tolist()
        axes.fill_between(x, 0, 1, where=where, transform=axes.get_xaxis_transform(), **HATCHED)
    else:
        x, y = state_map.slice.axes
        lack = state_map.lack.T
        covers = axes.contourf(x, y, lack, levels=[0.0, np.inf], colors=[OUTSIDE], hatches=["///"])
        covers.set_edgecolor(HATCHED["edgecolor"])
        covers.set_linewidth(0.0)
        axes.contour(x, y, lack, levels=[0.0], colors="0.3", linewidths=0.8)
    return ["hatched: outside the data"]


def mark_states(axes: Axes, marks: Marks) -> None:
    """Draw logged states as faint dots and initial ones as circles; on a curve at its lower edge."""
    for places, marker, size, edge, alpha in (
        (marks.logged, ".", 3.5, 0.25, 0.55),
        (marks.starts, "o", 8.0 if len(marks.starts) == 1 else 6.0, 1.2, 1.0),
    ):
        if len(places) == 0:
            continue
        flat = places.shape[1] == 1
        axes.plot(
            places[:, 0],
            np.full(len(places), 0.02) if flat else places[:, 1],
            marker,
            transform=axes.get_xaxis_transform() if flat else axes.transData,
            color="white",
            markersize=size,
            markeredgecolor="black",
            markeredgewidth=edge,
            alpha=alpha,
            zorder=3,
            clip_on=marker == ".",  # a start at the frame shows whole
        )

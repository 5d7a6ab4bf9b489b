"""Bounds that experiments must keep, checked once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from nopg.data import Transitions
from nopg.errors import ArgumentError

Bounds = Mapping[str, tuple[float, float]]
"""Lowest and highest value of columns, by name."""


@dataclass(frozen=True, slots=True)
class Box:
    """Lowest and highest values (d,) of some columns.

    Attributes:
        low: Lowest values.
        high: Highest values.
        from_log: Columns whose bounds are the range of the log, for want of others.
    """

    low: torch.Tensor
    high: torch.Tensor
    from_log: tuple[str, ...] = ()

    def clip(self, values: torch.Tensor) -> torch.Tensor:
        """Return values (..., d) put within the bounds."""
        return values.clamp(self.low, self.high)

    def contains(self, values: torch.Tensor) -> torch.Tensor:
        """Return which values (..., d) lie within the bounds in all columns."""
        return ((values >= self.low) & (values <= self.high)).all(dim=-1)


def action_box(data: Transitions, given: Bounds | None) -> Box:
    """Return the bounds of the actions: given ones, else declared ones; refuse if one is missing."""
    names = data.schema.actions
    bounds = {**data.schema.bounds, **_checked("action_bounds", given, names)}
    if missing := [name for name in names if name not in bounds]:
        example = ", ".join(f"{name!r}: (lowest, highest)" for name in missing)
        raise ArgumentError(
            f"no bounds are known for {', '.join(missing)}, and an experiment must stay within what the "
            f"plant may be given; pass action_bounds={{{example}}}, or declare bounds={{{example}}} with "
            "the log"
        )
    low, high = torch.tensor([bounds[name] for name in names], dtype=torch.float64).T
    return Box(low, high)


def state_box(data: Transitions, given: Bounds | None) -> Box:
    """Return the bounds of the states: given ones, else declared ones, else the range of the log.

    An angle without bounds may take any value.
    """
    names, schema = data.schema.states, data.schema
    bounds = {**schema.bounds, **_checked("state_bounds", given, names)}
    seen = torch.cat([data.states, data.next_states])
    low, high = seen.amin(dim=0), seen.amax(dim=0)
    for column, name in enumerate(names):
        if name in bounds:
            low[column], high[column] = bounds[name]
        elif name in schema.angles:
            low[column], high[column] = -math.inf, math.inf
    return Box(low, high, tuple(name for name in names if name not in bounds and name not in schema.angles))


def _checked(argument: str, given: Bounds | None, names: tuple[str, ...]) -> dict[str, tuple[float, float]]:
    """Return given bounds if they name columns and are (lowest, highest)."""
    for name, bounds in (given or {}).items():
        if name not in names:
            raise ArgumentError(f"{argument} has {name!r}; the columns are {', '.join(names)}")
        if len(bounds) != 2 or not (bounds[0] < bounds[1] and all(map(math.isfinite, bounds))):
            raise ArgumentError(
                f"{argument} of {name!r} is {bounds!r}; give (lowest, highest), two finite numbers"
            )
    return dict(given or {})

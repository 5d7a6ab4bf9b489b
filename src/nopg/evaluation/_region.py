"""Regions of the state space, as an expression of named states or as a function."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from nopg._expressions import Condition, Expression
from nopg._typing import as_tensor
from nopg._units import check_units
from nopg.data import Schema
from nopg.errors import ArgumentError

__all__ = ["Region", "margin_of", "region_of"]

# From raw states (m, d_s) to whether they lie inside, booleans (m,).
Region = Callable[[torch.Tensor], torch.Tensor]


def region_of(region: str | Callable[[Any], Any], schema: Schema) -> Region:
    """Return a region as a function of raw states.

    Args:
        region: Such as `"position > 0.3 or abs(angle) > 0.05"`: names of states, numbers, comparisons
            and what else `Expression` understands. Or a function of raw states (m, d_s).
        schema: Names of the states.

    Example:
        >>> schema = Schema(("level", "flow"), ("valve",))
        >>> inside = region_of("1 < level < 2 and not flow < 0", schema)
        >>> inside(torch.tensor([[1.5, 1.0], [3.0, 1.0]])).tolist()
        [True, False]
    """
    if callable(region):
        return partial(_evaluate, region)
    margin = margin_of(region, schema)
    return lambda states: margin(states) > 0


def _evaluate(region: Callable[[Any], Any], states: torch.Tensor) -> torch.Tensor:
    """Return whether states (…, d_s) lie in a region that is a function of states (m, d_s)."""
    flat = states.reshape(-1, states.shape[-1])
    inside = as_tensor(region(flat)).bool()
    if inside.shape != (len(flat),):
        raise ArgumentError(
            f"the region returned shape {tuple(inside.shape)} for {len(flat)} states; return one truth value "
            "for each, such as states[:, 0] > 1"
        )
    return inside.reshape(states.shape[:-1])


def margin_of(region: str, schema: Schema) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return how far raw states (…, d_s) lie inside a region, positive inside, in its own units.

    Example:
        >>> margin = margin_of("abs(level) > 1", Schema(("level",), ("valve",)))
        >>> margin(torch.tensor([[3.0], [0.5]])).tolist()
        [2.0, -0.5]
    """
    expression = Expression(region, "the region")
    check_units(expression, schema.units)

    def margin(states: torch.Tensor) -> torch.Tensor:
        found = expression.value({name: states[..., k] for k, name in enumerate(schema.states)})
        if not isinstance(found, Condition):
            raise ArgumentError(f"the region {region!r} is no condition on the states {list(schema.states)}")
        inside: torch.Tensor = found.margin
        return inside

    margin(torch.zeros(1, len(schema.states), dtype=torch.float64))  # report a wrong name at once
    return margin

"""Limits that a controller has to keep, and the outcome of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from nopg._typing import ArrayLike, as_tensor
from nopg.data import Transitions
from nopg.errors import ArgumentError
from nopg.evaluation._region import margin_of, region_of
from nopg.models import RewardFunction
from nopg.models._config import ModelConfig

__all__ = ["Constraint", "ConstraintResult", "check_constraints", "cost_columns"]

# Width of a region's edge in standard deviations of how far logged states are from it.
_EDGE = 0.3


@dataclass(frozen=True, slots=True, eq=False)
class Constraint:
    """A limit on what the controller may cost, beside what it earns.

    What is limited is the discounted cost per step, (1 − γ)·Σₜ γᵗcₜ from the initial states. For a region
    that is the share of discounted time spent there, between 0 and 1. Nothing is spent after the end of a
    task: a region that is entered as the task ends costs that one step.

    Attributes:
        cost: One number for each row of the data; or a region, which costs 1 in a step that leads into it: an
            expression of named states or a function of raw states (m, d_s), see `nopg.evaluation.region_of`.
        limit: The most that may be spent per step, in the units of the cost.
        upper: Whether the upper end of the 95 % interval has to keep the limit, instead of the estimate.
        name: How messages call it.

    Example:
        >>> Constraint("level > 1.8", limit=0.01)
        Constraint(level > 1.8: at most 0.01)
    """

    cost: ArrayLike | str | Callable[[Any], Any]
    limit: float
    upper: bool = False
    name: str | None = None

    def __post_init__(self) -> None:
        if not math.isfinite(self.limit):
            raise ArgumentError(f"the limit of a constraint is {self.limit}; give a finite number")

    def __repr__(self) -> str:
        return f"Constraint({self.label}: at most {self.limit:g}{', upper end' if self.upper else ''})"

    @property
    def label(self) -> str:
        """The name, or a description if there is none."""
        if self.name is not None:
            return self.name
        return self.cost if isinstance(self.cost, str) else "region" if callable(self.cost) else "cost"

    @property
    def region(self) -> str | Callable[[Any], Any] | None:
        """The region that is limited, if it is one."""
        return self.cost if isinstance(self.cost, str) or callable(self.cost) else None

    @property
    def smooth(self) -> bool:
        """Whether it is an expression, of which it is known how far a state is from its edge."""
        return isinstance(self.cost, str)

    def smoothed(self, data: Transitions) -> RewardFunction:
        """Return the region as a cost between 0 and 1 that rises over a narrow margin at its edge."""
        assert isinstance(self.cost, str)
        inside = margin_of(self.cost, data.schema)
        width = max(_EDGE * float(inside(data.next_states).std()), 1e-12)
        return lambda states, actions, after: torch.sigmoid(inside(after) / width)

    def costs(self, data: Transitions) -> torch.Tensor:
        """Return what each row of the data costs, shape (n,)."""
        if isinstance(self.cost, str) or callable(self.cost):
            inside = region_of(self.cost, data.schema)(data.next_states)
            if inside.shape != (len(data),):
                raise ArgumentError(
                    f"the region {self.label!r} returned the shape {tuple(inside.shape)} for {len(data)} "
                    "states; return one boolean for each"
                )
            return inside.double()
        costs = as_tensor(self.cost)
        if costs.shape != (len(data),):
            raise ArgumentError(
                f"the constraint {self.label!r} has costs of shape {tuple(costs.shape)}; give one number for "
                f"each of {len(data)} rows, or a region"
            )
        if not bool(costs.isfinite().all()):
            raise ArgumentError(f"the constraint {self.label!r} has costs that are NaN or infinite")
        return costs


@dataclass(frozen=True, slots=True)
class ConstraintResult:
    """What came of one limit.

    Attributes:
        name: Of the constraint.
        limit: What may be spent.
        cost: What the controller is predicted to spend: (1 − γ)·Σₜ γᵗcₜ, for a region the share of discounted
            time in it.
        upper: The upper end of the 95 % interval of that, if this was to keep the limit.
        multiplier: λ, the price of the cost in rewards at which the controller was trained; 0 if free.
        kept: Whether the prediction keeps the limit.
    """

    name: str
    limit: float
    cost: float
    upper: float | None
    multiplier: float
    kept: bool

    def __str__(self) -> str:
        upper = "" if self.upper is None else f", at most {self.upper:.3g}"
        return f"{self.name}: {self.cost:.3g}{upper}, limit {self.limit:.3g}"


def check_constraints(
    constraints: Sequence[Constraint], data: Transitions, model: ModelConfig, checkpoint: object
) -> None:
    """Refuse what a training of several rounds cannot do."""
    if not constraints:
        return
    if not model.has_rollouts:
        raise ArgumentError("limits are kept along rollouts, which only the local model has; leave model out")
    if checkpoint is not None:
        raise ArgumentError("a training with constraints keeps no checkpoints; leave checkpoint out")
    for constraint in constraints:
        constraint.costs(data)


def cost_columns(constraints: Sequence[Constraint], data: Transitions) -> torch.Tensor | None:
    """Return the costs (n, k) that a model has to fit: those that are given row by row."""
    columns = [constraint.costs(data) for constraint in constraints if not constraint.smooth]
    return torch.stack(columns, dim=1) if columns else None

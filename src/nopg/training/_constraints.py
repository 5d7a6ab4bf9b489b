"""Limits that a controller has to keep, and training under a price on what they limit."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from nopg._typing import ArrayLike, RewardFunction, as_tensor
from nopg.bellman import MultistepProblem
from nopg.bellman._multistep import Charge
from nopg.data import Transitions
from nopg.errors import ArgumentError, ConstraintWarning
from nopg.evaluation import OfflineEvaluator
from nopg.evaluation._assessment import errors_of
from nopg.evaluation._risk import margin_of, region_of
from nopg.models._local_model import ModelConfig
from nopg.policies import Policy
from nopg.training._reports import Update

# Width of a region's edge in standard deviations of how far logged states are from it.
_EDGE = 0.3
# Trainings at most after the one that pays no attention to limits.
_ROUNDS = 6
# Prices change by this factor, and by its root after every change of direction, until it is hardly one.
_FACTOR, _LEAST_FACTOR = 10.0, 1.3
# Of the learning rate: tried in turn until an ascent, which begins with a good policy, leads to a better one.
_RATES = (1.0, 0.2, 0.05)
# A policy that keeps its limits and is predicted to lose no more than this share of what rewards make
# possible is good enough.
_GOOD_ENOUGH = 0.01


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
            return region_of(self.cost, data.schema)(data.next_states).double()
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


def solve_constrained(
    constraints: Sequence[Constraint],
    policy: Policy,
    *,
    problem: MultistepProblem,
    history: tuple[Update, ...],
    improve: Callable[[MultistepProblem, float], tuple[Update, ...]],
) -> tuple[tuple[ConstraintResult, ...], tuple[Update, ...]]:
    """Go on with a policy, in place, until it keeps its limits; return what came of them and the updates.

    It seeks the best of J − Σₖ λₖ(Cₖ − dₖ) and the right prices λ ≥ 0. A policy that was trained without
    limits pays nothing; where it exceeds one, the price of that is raised tenfold from round to round until
    the limit is kept, and lowered while it is: after every change of direction by the root of the last
    factor. A round begins with the policy that is best at its prices of those found before, and is repeated
    with smaller steps if it ends no better. What a policy earns and costs is predicted along the same
    rollouts that the report shows.

    Args:
        constraints: The limits.
        policy: Trained without limits.
        problem: That it was trained in.
        history: Of that training.
        improve: Goes on with the policy, in place, in another problem and at a share of the learning rate.
    """
    costs = [constraint.costs(problem.data) for constraint in constraints]
    trial = partial(_trial, OfflineEvaluator.of(problem), [*zip(constraints, costs, strict=True)])
    found = [trial(policy, history, prices=[0.0] * len(constraints))]
    stake = (1.0 - problem.discount) * problem.model.return_range(problem.discount)
    search = _PriceSearch([_unit_price(stake, cost) for cost in costs])
    enough = found[0].expected_return - _GOOD_ENOUGH * stake / (1.0 - problem.discount)

    last = found[0]
    for _ in range(_ROUNDS):
        if last.kept and last.expected_return >= enough:
            break
        prices = search.next(last.results)
        if prices is None:
            break
        worth = partial(_Trial.priced_return, prices=prices, discount=problem.discount)
        begin = max(found, key=worth)
        priced = _charged(problem, constraints, costs, prices)
        for share in _RATES:
            policy.load_state_dict(begin.parameters)
            found.append(trial(policy, improve(priced, share), prices=prices))
            if worth(found[-1]) > worth(begin):
                break
        last = max(found, key=worth)

    best = max(found, key=lambda one: one.rank)
    policy.load_state_dict(best.parameters)
    if not best.kept:
        missed = "; ".join(str(result) for result in best.results if not result.kept)
        warnings.warn(
            f"no price that was tried keeps the limits, the nearest is returned: {missed}. Raise the limit, "
            "or look whether the data show a way to keep it",
            ConstraintWarning,
            stacklevel=4,
        )
    return best.results, best.history


def _charged(
    problem: MultistepProblem,
    constraints: Sequence[Constraint],
    costs: Sequence[torch.Tensor],
    prices: Sequence[float],
) -> MultistepProblem:
    """Return the problem with costs taken off its rewards at their prices."""
    charges, column, worst = [], 0, 0.0
    for constraint, cost, price in zip(constraints, costs, prices, strict=True):
        if constraint.smooth:
            charges.append(Charge(price, constraint.smoothed(problem.data)))
        else:
            charges.append(Charge(price, column))
            column += 1
        worst += price * max(float(cost.max()), 0.0)
    unknown = problem.unknown_value - worst / (1.0 - problem.discount)
    return problem.replace(charges=tuple(charges), unknown_value=unknown)


@dataclass(frozen=True, slots=True)
class _Trial:
    """A policy that was trained at some prices, and what it is predicted to earn and to cost.

    `excess` is the largest over a limit, in units of the range of its cost.
    """

    parameters: Mapping[str, torch.Tensor]
    history: tuple[Update, ...]
    expected_return: float
    results: tuple[ConstraintResult, ...]
    excess: float

    @property
    def kept(self) -> bool:
        return all(result.kept for result in self.results)

    def priced_return(self, prices: Sequence[float], discount: float) -> float:
        """Return what is earned less what is spent at these prices."""
        spent = sum(price * result.cost for price, result in zip(prices, self.results, strict=True))
        return self.expected_return - spent / (1.0 - discount)

    @property
    def rank(self) -> tuple[bool, float, float]:
        """The order of trials: limits kept and much earned, else near to the limits."""
        return (True, self.expected_return, 0.0) if self.kept else (False, -self.excess, self.expected_return)


def _trial(
    evaluator: OfflineEvaluator,
    constraints: Sequence[tuple[Constraint, torch.Tensor]],
    policy: Policy,
    history: tuple[Update, ...],
    *,
    prices: Sequence[float],
) -> _Trial:
    """Return what a policy earns and costs, along the same rollouts for all policies."""
    results, excess, column = [], 0.0, 0
    found = evaluator.assess(policy)
    for (constraint, logged), price in zip(constraints, prices, strict=True):
        if isinstance(constraint.cost, str) or callable(constraint.cost):
            cost, (_, upper) = evaluator.share_inside(found, constraint.cost)
        else:
            spent = (1.0 - evaluator.discount) * found.paths.costs[column]
            cost = float(spent[0] @ found.paths.weights)
            upper = cost + errors_of(spent, found.paths).half_width
        column += not constraint.smooth
        held = upper if constraint.upper else cost
        results.append(
            ConstraintResult(
                name=constraint.label,
                limit=constraint.limit,
                cost=cost,
                upper=upper if constraint.upper else None,
                multiplier=price,
                kept=held <= constraint.limit,
            )
        )
        excess = max(excess, (held - constraint.limit) / max(float(logged.max() - logged.min()), 1e-300))
    return _Trial(copy.deepcopy(policy.state_dict()), history, found.expected_return, tuple(results), excess)


class _PriceSearch:
    """Finds a price for each limit: up while it is exceeded, down while it is kept, by ever smaller factors.

    Args:
        units: The first price of each cost.
    """

    def __init__(self, units: Sequence[float]) -> None:
        self._prices, self._units = [0.0] * len(units), units
        self._factors, self._rising = [_FACTOR] * len(units), [True] * len(units)

    def next(self, results: Sequence[ConstraintResult]) -> list[float] | None:
        """Return the next prices, or None where they would hardly change."""
        changed = False
        for k, result in enumerate(results):
            if self._prices[k] == 0.0:
                changed |= not result.kept
                self._prices[k] = 0.0 if result.kept else self._units[k]
                continue
            if self._rising[k] == result.kept:
                self._rising[k], self._factors[k] = not result.kept, math.sqrt(self._factors[k])
            changed |= self._factors[k] >= _LEAST_FACTOR
            self._prices[k] *= 1.0 / self._factors[k] if result.kept else self._factors[k]
        return list(self._prices) if changed else None


def _unit_price(stake: float, costs: torch.Tensor) -> float:
    """Return the price at which costs differ a tenth as much as rewards do."""
    spread = float(costs.max() - costs.min())
    return 0.1 * stake / spread if spread > 0 and stake > 0 else 1.0

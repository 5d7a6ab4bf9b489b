"""Limits that a controller has to keep: one ascent of J − Σ λₖ(Cₖ − dₖ) whose prices λ follow the costs."""

from __future__ import annotations

import copy
import itertools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch

from nopg._typing import ArrayLike, RewardFunction, as_tensor
from nopg.bellman import GradientEstimate, MultistepProblem
from nopg.bellman._multistep import Charge
from nopg.bellman._sampled import SampledGradient
from nopg.data import Transitions
from nopg.errors import ArgumentError, ConstraintWarning
from nopg.evaluation import OfflineEvaluator
from nopg.evaluation._assessment import errors_of
from nopg.evaluation._risk import margin_of, region_of, share_along
from nopg.policies import Policy
from nopg.training._ascent import ascend
from nopg.training._config import TrainingConfig
from nopg.training._reports import Update

# Width of a region's edge in standard deviations of how far logged states are from it.
_EDGE = 0.3
# Updates under prices, in updates of a training; after every so many shares of these prices change.
_LENGTH, _CHANGES = 3, 30
# The first price, at which costs differ by this share of what rewards do; the highest, in first prices; the
# factor by which prices change, which becomes its root after a change of direction; and the least factor.
_FIRST, _HIGHEST, _FACTOR, _LEAST_FACTOR = 0.1, 1e3, 2.0, 1.1


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
    """

    cost: ArrayLike | str | Callable[[Any], Any]
    limit: float
    upper: bool = False
    name: str | None = None

    def __post_init__(self) -> None:
        if not math.isfinite(self.limit):
            raise ArgumentError(f"the limit of a constraint is {self.limit}; give a finite number")

    @property
    def label(self) -> str:
        """The name, or a description if there is none."""
        if self.name is not None:
            return self.name
        return self.cost if isinstance(self.cost, str) else "region" if callable(self.cost) else "cost"

    def smoothed(self, data: Transitions) -> RewardFunction | None:
        """Return a region of named states as a cost that rises from 0 to 1 over a margin at its edge."""
        if not isinstance(self.cost, str):
            return None
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
        multiplier: λ, the price of the cost in rewards at which the controller was found; 0 if free.
        kept: Whether the prediction keeps the limit.
    """

    name: str
    limit: float
    cost: float
    upper: float | None
    multiplier: float
    kept: bool


def cost_columns(constraints: Sequence[Constraint], data: Transitions) -> torch.Tensor | None:
    """Return the costs (n, k) that a model has to fit: those that are no smooth function of the state."""
    columns = [one.costs(data) for one in constraints if not isinstance(one.cost, str)]
    return torch.stack(columns, dim=1) if columns else None


class DualAscent:
    """The gradient of J − Σ λₖ(Cₖ − dₖ), whose prices λ ≥ 0 rise while a limit is exceeded, else fall.

    What a policy earns and costs is predicted along the rollouts that the report shows. There are `every`
    estimates between two changes of the prices. The best of the policies so far, by rank, parameters and what
    came of each limit, keeps all limits and earns most, else it is the nearest to them.
    """

    def __init__(
        self, constraints: Sequence[Constraint], gradient: SampledGradient, evaluator: OfflineEvaluator
    ) -> None:
        self._constraints, self._gradient, self._free = constraints, gradient, gradient.problem
        self._evaluator, problem = evaluator, self._free
        costs = [one.costs(problem.data) for one in constraints]
        self._spreads = [max(float(cost.max() - cost.min()), 1e-300) for cost in costs]
        self._most = [max(float(cost.max()), 0.0) for cost in costs]
        stake = (1.0 - problem.discount) * problem.model.return_range(problem.discount) or 1.0
        self._units = [_FIRST * stake / spread for spread in self._spreads]
        self._prices, self._factors = [0.0] * len(costs), [_FACTOR] * len(costs)
        self._rising, self.every, self._count = [True] * len(costs), 1, 0
        self.best: tuple[tuple[bool, float], Mapping[str, torch.Tensor], tuple[ConstraintResult, ...]]
        self.best = (False, -math.inf), {}, ()

    def solve(
        self, policy: Policy, config: TrainingConfig, history: tuple[Update, ...]
    ) -> tuple[tuple[Update, ...], tuple[ConstraintResult, ...]]:
        """Go on with a policy, in place, until it keeps its limits; return updates and what came of them.

        The history of its training without limits is returned where they are kept as it is.
        """
        if not all(one.kept for one in self.look(policy)):
            config = replace(config, updates=_LENGTH * int(config.updates or 0))
            self.every = max(int(config.updates or 0) // _CHANGES, 1)
            history = ascend(self, policy, config, annealed=True)
            self.look(policy)
        (kept, _), parameters, results = self.best
        policy.load_state_dict(parameters)
        if not kept:
            missed = [f"{one.name}: {one.cost:.3g}, limit {one.limit:g}" for one in results if not one.kept]
            warnings.warn(
                f"no multiplier keeps the limits, the nearest is returned: {'; '.join(missed)}. "
                "Raise the limit, or look whether the data show a way to keep it",
                ConstraintWarning,
                stacklevel=5,
            )
        return history, results

    def estimate(self, policy: Policy, *, rng: torch.Generator) -> GradientEstimate:
        """Return the gradient at the present prices."""
        if self._count % self.every == 0:
            self._change_prices(self.look(policy))
        self._count += 1
        return self._gradient.estimate(policy, rng=rng)

    def look(self, policy: Policy) -> tuple[ConstraintResult, ...]:
        """Return what a policy costs, and keep it if it is the best one."""
        paths, discount = self._evaluator.follow(policy), self._free.discount
        results, excess, columns = list[ConstraintResult](), 0.0, iter(paths.costs)
        for one, price, spread in zip(self._constraints, self._prices, self._spreads, strict=True):
            column = None if isinstance(one.cost, str) else next(columns)
            if column is None or callable(one.cost):
                inside = region_of(cast(Any, one.cost), self._free.data.schema)
                cost, (_, upper) = share_along(paths, inside, discount)
            else:
                spent = (1.0 - discount) * column
                cost = float(spent[0] @ paths.weights)
                upper = cost + errors_of(spent, paths).half_width
            held, end = (upper, upper) if one.upper else (cost, None)
            results.append(ConstraintResult(one.label, one.limit, cost, end, price, held <= one.limit))
            excess = max(excess, (held - one.limit) / spread)
        earned = paths.by_start.starts.mean(paths.by_start.returns)
        rank = (True, earned) if all(one.kept for one in results) else (False, -excess)
        if rank > self.best[0]:
            self.best = rank, copy.deepcopy(policy.state_dict()), tuple(results)
        return tuple(results)

    def _change_prices(self, results: Sequence[ConstraintResult]) -> None:
        for k, one in enumerate(results):
            if self._prices[k] == 0.0:
                self._prices[k] = 0.0 if one.kept else self._units[k]
                continue
            if self._rising[k] == one.kept:
                self._rising[k] = not one.kept
                self._factors[k] = max(math.sqrt(self._factors[k]), _LEAST_FACTOR)
            price = self._prices[k] * (1.0 / self._factors[k] if one.kept else self._factors[k])
            self._prices[k] = min(price, _HIGHEST * self._units[k])
        self._gradient.change(self.charged(self._prices))

    def charged(self, prices: Sequence[float]) -> MultistepProblem:
        """Return the problem with costs taken off its rewards at some prices."""
        data, number = self._free.data, itertools.count()
        charges = [
            Charge(price, one.smoothed(data) or next(number))
            for one, price in zip(self._constraints, prices, strict=True)
        ]
        worst = sum(price * most for price, most in zip(prices, self._most, strict=True))
        unknown = self._free.unknown_value - worst / (1.0 - self._free.discount)
        return self._free.replace(charges=tuple(charges), unknown_value=unknown)

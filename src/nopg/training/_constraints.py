"""Training under limits, by a price on what they limit."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from nopg.bellman import MultistepProblem
from nopg.bellman._charge import Charge
from nopg.errors import ConstraintWarning
from nopg.evaluation import OfflineEvaluator
from nopg.evaluation._interval import DEVIATIONS, standard_error
from nopg.policies import Policy
from nopg.training._constraint import Constraint, ConstraintResult
from nopg.training._reports import Update

__all__ = ["solve_constrained"]

# Trainings at most after the one that pays no attention to limits.
_ROUNDS = 6
# Prices change by this factor, and by its root after every change of direction, until it is hardly one.
_FACTOR, _LEAST_FACTOR = 10.0, 1.3
# Of the learning rate: tried in turn until an ascent, which begins with a good policy, leads to a better one.
_RATES = (1.0, 0.2, 0.05)
# A policy that keeps its limits and is predicted to lose no more than this share of what rewards make
# possible is good enough.
_GOOD_ENOUGH = 0.01


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
    data = problem.data
    costs = [constraint.costs(data) for constraint in constraints]
    judge = _Judge(constraints, costs, problem)
    found = [judge.trial(policy, history, prices=[0.0] * len(constraints))]
    search = _PriceSearch([_unit_price(problem, cost) for cost in costs])
    stake = (1.0 - problem.discount) * problem.model.return_range(problem.discount)
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
            found.append(judge.trial(policy, improve(priced, share), prices=prices))
            if worth(found[-1]) > worth(begin):
                break
        last = max(found, key=worth)

    best = max(found, key=lambda trial: trial.rank)
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
    """A policy that was trained at some prices, and what it is predicted to earn and to cost."""

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


class _Judge:
    """Says of a policy what it earns and costs, along the same rollouts for all policies."""

    def __init__(
        self, constraints: Sequence[Constraint], costs: Sequence[torch.Tensor], problem: MultistepProblem
    ) -> None:
        self.constraints, self.discount = constraints, problem.discount
        self.evaluator = OfflineEvaluator.of(problem)
        self.ranges = [max(float(cost.max() - cost.min()), 1e-300) for cost in costs]

    def trial(self, policy: Policy, history: tuple[Update, ...], *, prices: Sequence[float]) -> _Trial:
        results, excess, column = [], 0.0, 0
        evaluation = self.evaluator.evaluate(policy)
        for constraint, price, unit in zip(self.constraints, prices, self.ranges, strict=True):
            if constraint.region is not None:
                cost, (_, upper) = self.evaluator.share_inside(evaluation, constraint.region)
            else:
                spent = (1.0 - self.discount) * evaluation.paths.costs[column]
                cost = float(spent[0].mean())
                upper = cost + DEVIATIONS * standard_error(spent, evaluation.paths)
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
            excess = max(excess, (held - constraint.limit) / unit)
        return _Trial(
            copy.deepcopy(policy.state_dict()), history, evaluation.expected_return, tuple(results), excess
        )


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


def _unit_price(problem: MultistepProblem, costs: torch.Tensor) -> float:
    """Return the price at which costs differ a tenth as much as rewards do."""
    spread = float(costs.max() - costs.min())
    stake = (1.0 - problem.discount) * problem.model.return_range(problem.discount)
    return 0.1 * stake / spread if spread > 0 and stake > 0 else 1.0

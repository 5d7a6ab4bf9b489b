"""Where an ascent begins: at the best actions of the model, as far as the policy can show them."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from nopg._seeding import generator
from nopg.bellman import BestActions, ControlProblem, best_actions
from nopg.graph import LocalLinear
from nopg.policies import Policy, imitate
from nopg.solvers import Solver
from nopg.training._rehearsal import rehearse, value_range

__all__ = ["GreedyStart", "hold_actions", "keep_the_better", "start_greedily"]

# Half of the examples are where the best actions lead to, half anywhere in the data.
_VISITED = 0.5
_MOST_EXAMPLES = 1_000_000
# Steps that an action lasts, tried in turn until a policy earns step by step what an equation has promised,
# but for this share of the range of returns.
_HOLDS, _CREDIBLE = (1, 2, 4), 1e-2
# What counts as worse than the start, as a share of the same range.
_WORSE = 1e-3


@dataclass(frozen=True, slots=True)
class GreedyStart:
    """The start that was found, as far as the end of the training has to know it.

    Attributes:
        hold: Steps that an action lasts in the problem to ascend in (`hold_actions`).
        rounds: Of policy iteration.
        expected_return: Ĵ of the best actions, which the policy was fitted to.
        rehearsed: What the policy earns along predicted paths (`rehearse`); −∞ with the paper's model.
        parameters: Of the policy.
    """

    hold: int
    rounds: int
    expected_return: float
    rehearsed: float
    parameters: Mapping[str, torch.Tensor]

    def __str__(self) -> str:
        held = f", each for {self.hold} steps" if self.hold > 1 else ""
        return f"after {self.rounds} rounds{held}: expected return {self.expected_return:.4g}"


def start_greedily(
    policy: Policy, problem: ControlProblem, candidates: torch.Tensor, *, solver: Solver, seed: int
) -> tuple[GreedyStart, ControlProblem]:
    """Fit the policy, in place, to the best of the candidates (c, d_a) at every state.

    Returns the start, and the problem to ascend in: the given one, or one whose actions last longer.

    Policy iteration finds the optimum of the model over all policies that choose among the candidates; the
    gradient then finds what this policy can do from there on.

    Interpolation spreads the value a little in every decision. Where a step is short against that, the
    equation cannot tell a slow drift from standing still, and its optimum drifts out of the data. So with the
    local-linear model the policy is rehearsed, and where it earns less than the equation says, actions that
    last longer are tried: fewer decisions, less spread. The start that rehearses best is taken.
    """
    model = problem.model
    if not isinstance(model, LocalLinear):
        best = _fit_to_best(policy, problem, candidates, solver=solver, seed=seed)
        start = GreedyStart(1, best.rounds, best.expected_return, -math.inf, _parameters(policy))
        return start, problem

    fresh, found = _parameters(policy), list[tuple[GreedyStart, ControlProblem]]()
    promised, slack = -math.inf, _CREDIBLE * value_range(problem, model)
    for hold in _HOLDS:
        policy.load_state_dict(fresh)
        solver.forget()  # another equation than the last
        held = hold_actions(problem, hold)
        best = _fit_to_best(policy, held, candidates, solver=solver, seed=seed)
        earned = rehearse(problem, model, policy)
        start = GreedyStart(hold, best.rounds, best.expected_return, earned, _parameters(policy))
        found.append((start, held))
        promised = max(promised, best.expected_return)
        if earned >= promised - slack:
            break
    start, held = max(found, key=lambda one: one[0].rehearsed)
    policy.load_state_dict(start.parameters)
    if held is not found[-1][1]:
        solver.forget()
    return start, held


def hold_actions(problem: ControlProblem, hold: int) -> ControlProblem:
    """Return the problem with decisions so many steps apart."""
    model = problem.model
    if hold == 1 or not isinstance(model, LocalLinear):
        return problem
    return ControlProblem.build(
        model.holding(hold, problem.discount),
        problem.initial.features,
        discount=problem.discount**hold,
        unknown_value=problem.unknown_value,
    )


def keep_the_better(policy: Policy, problem: ControlProblem, start: GreedyStart) -> bool:
    """Put the policy back to where it started if it rehearses worse since; return whether it does."""
    model = problem.model
    if not isinstance(model, LocalLinear):
        return False
    least = start.rehearsed - _WORSE * value_range(problem, model)
    worse = rehearse(problem, model, policy) < least
    if worse:
        policy.load_state_dict(start.parameters)
    return worse


def _parameters(policy: Policy) -> Mapping[str, torch.Tensor]:
    return copy.deepcopy(policy.state_dict())


def _fit_to_best(
    policy: Policy, problem: ControlProblem, candidates: torch.Tensor, *, solver: Solver, seed: int
) -> BestActions:
    """Fit the policy, in place, to the best of the candidates (c, d_a) at every state; return these."""
    best, ranks = best_actions(problem, candidates, solver=solver), problem.space.ranks
    total = int(ranks.total(len(best.actions)))
    visits = best.visits / problem.space.sum(best.visits)
    weights = _VISITED * visits + (1 - _VISITED) / total
    # Every rank fits the same policy to the examples of all.
    some = slice(None, None, -(-total // _MOST_EXAMPLES))
    features, actions, weights = (
        ranks.gather(part[some].contiguous()) for part in (best.features, best.actions, weights)
    )
    imitate(policy, features, actions, weights, rng=generator(seed, "imitation"))
    return best

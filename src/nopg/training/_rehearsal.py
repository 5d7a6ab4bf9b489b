"""What a policy does and earns where the fits lead it, step by step and without interpolation."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from nopg.bellman import ControlProblem
from nopg.errors import ArgumentError
from nopg.graph import LocalLinear, walk
from nopg.policies import Policy

__all__ = ["PredictedPaths", "predict_paths", "rehearse", "value_range"]

# In units of 1/(1 − γ): what comes later counts for less than a hundredth.
_HORIZON = 5.0
_MOST_STARTS = 100


@dataclass(frozen=True, slots=True)
class PredictedPaths:
    """Where a policy is expected to go, one path from each start.

    Attributes:
        states: Raw states, angles within half a period of 0, shape (T, m, d_s).
        actions: Taken there, shape (T, m, d_a).
        rewards: Expected there, shape (T, m).
        left: The share of the path that has neither left the data nor ended before, shape (T, m).
    """

    states: torch.Tensor
    actions: torch.Tensor
    rewards: torch.Tensor
    left: torch.Tensor


def predict_paths(
    problem: ControlProblem, policy: Policy, features: torch.Tensor, steps: int
) -> PredictedPaths:
    """Return the paths of the policy's mode from state features (m, d_f).

    Each goes where the fit at its present place says, so errors do not spread from step to step as the
    weights of the equation on its nodes do; but there is one path from each start, and no certificate.
    """
    model = problem.model
    if not isinstance(model, LocalLinear):
        raise ArgumentError(
            "only the local-linear model predicts paths; the paper's knows visits (`visitation`) but no way"
        )
    if steps < 1:
        raise ArgumentError(f"steps is {steps}; give at least 1")
    taken = list(walk(model, policy.mode, features, steps))
    gone = replace(taken[-1], left=torch.zeros_like(taken[-1].left))
    taken += [gone] * (steps - len(taken))
    return PredictedPaths(
        states=model.data.schema.decode(torch.stack([step.places for step in taken])),
        actions=torch.stack([step.actions for step in taken]),
        rewards=torch.stack([step.rewards for step in taken]),
        left=torch.stack([step.left for step in taken]),
    )


@torch.no_grad()
def rehearse(problem: ControlProblem, model: LocalLinear, policy: Policy) -> float:
    """Return the discounted return of the policy's mode along predicted paths from the initial states.

    Each path is left to the unknown value by the share that the data do not know at its present place, and to
    the end of the task by the share that ended there.

    Args:
        problem: Where the task starts, γ of one step, the unknown value.
        model: What predicts one step.
        policy: Acts by its mode.
    """
    starts = problem.initial.features
    places = starts[:: -(-len(starts) // _MOST_STARTS)]
    total = torch.zeros(len(places), dtype=places.dtype)
    steps = math.ceil(_HORIZON / (1.0 - problem.discount))
    for t, step in enumerate(walk(model, policy.mode, places, steps)):
        earned = step.known * step.rewards + step.unknown * problem.unknown_value
        total += problem.discount**t * step.left * earned
    return float(total.mean())


def value_range(problem: ControlProblem, model: LocalLinear) -> float:
    """Return how far the best return that rewards of this size allow lies above the unknown value."""
    best = model.reward_high / (1.0 - problem.discount)
    if bool(model.data.terminated.any()):
        best = max(best, 0.0)
    return max(best - problem.unknown_value, 0.0)

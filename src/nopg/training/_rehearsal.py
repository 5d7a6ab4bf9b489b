"""What a policy earns where the fits lead it, step by step and without interpolation."""

from __future__ import annotations

import math

import torch

from nopg.bellman import ControlProblem
from nopg.graph import LocalLinear
from nopg.policies import Policy

__all__ = ["rehearse", "value_range"]

# In units of 1/(1 − γ): what comes later counts for less than a hundredth.
_HORIZON = 5.0
_MOST_STARTS = 100
# A path of which less than this is left goes no farther.
_LEAST_LEFT = 1e-6


@torch.no_grad()
def rehearse(problem: ControlProblem, model: LocalLinear, policy: Policy) -> float:
    """Return the discounted return of the policy's mode along predicted paths from the initial states.

    Each path goes where the fit at its present place says. It is left to the unknown value by the share that
    the data do not know there, and to the end of the task by the share that ended there. Nothing is
    interpolated, so errors do not spread from step to step as the weights on nodes do; but there is one path
    from each start, and no certificate.

    Args:
        problem: Where the task starts, γ of one step, the unknown value.
        model: What predicts one step.
        policy: Acts by its mode.
    """
    starts = problem.initial.features
    places = starts[:: -(-len(starts) // _MOST_STARTS)]
    left = torch.ones(len(places), dtype=places.dtype)
    total = torch.zeros_like(left)
    for step in range(math.ceil(_HORIZON / (1.0 - problem.discount))):
        known, unknown = model.state_support.split(places, model.prior_mass)
        fit, actions = model.fit_at(places), policy.mode(places)
        reward = fit.at(actions)[:, -1].clamp(model.reward_low, model.reward_high)
        total += problem.discount**step * left * (known * reward + unknown * problem.unknown_value)

        left = left * known
        going = left > _LEAST_LEFT
        if not bool(going.any()):
            break
        places = torch.where(going[:, None], model.outcomes(places, fit, actions), places)
        left = left * (1.0 - model.ended_share(places))
    return float(total.mean())


def value_range(problem: ControlProblem, model: LocalLinear) -> float:
    """Return how far the best return that rewards of this size allow lies above the unknown value."""
    best = model.reward_high / (1.0 - problem.discount)
    if bool(model.data.terminated.any()):
        best = max(best, 0.0)
    return max(best - problem.unknown_value, 0.0)

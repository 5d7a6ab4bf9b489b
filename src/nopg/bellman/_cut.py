"""What the samples that are left out of the sums of the paper's model may change."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nopg.bellman._system import BellmanSystem
from nopg.linalg import Auto, Resolvent, Solution

# Up to this bound on the lost weights no further system is solved to sharpen it.
_SMALL = 0.1
_TOLERANCE = 1e-2


@dataclass(frozen=True, slots=True)
class Cut:
    """Bounds on the difference between an equation and the same one with all samples as candidates.

    Row i of P loses at most the share δᵢ of its weights, so both rows differ by at most δᵢ in total
    variation. With x = γδ and Δ = Λ⁻¹x, Λ that of all samples, |q̂ − q| ≤ (max q̂ − min q̂) Δ. The cut
    equation has d = Λ̂⁻¹x, and Δ ≤ d + max(d) Δ, so that max(Δ) ≤ max(d)/(1 − max(d)).

    Attributes:
        lost: Bound on the discounted share of the weights that is lost from the initial states on, ε₀ᵀΔ + δ₀.
        largest: Bound on every entry of Δ.
        spread: max q̂ − min q̂, with the unknown value if it has weight.
        return_error: Bound on the change of Ĵ.
    """

    lost: float
    largest: float
    spread: float
    return_error: float

    @classmethod
    def of(cls, equation: BellmanSystem, q: Solution, mu: Solution) -> Cut:
        """Return the bounds for a solved equation."""
        problem, gamma, start = equation.problem, equation.discount, equation.initial_lost
        x = gamma * equation.lost
        deepest = _largest_value(equation, x)
        lost = largest = float("inf")
        if deepest < 1:
            reached = float(mu.value.clamp(min=0) @ x) + mu.error_bound * float(x.max())
            lost = start + (reached + start * deepest) / (1.0 - deepest)
            largest = deepest / (1.0 - deepest)

        # A value is a sum of rewards, or that of leaving the data.
        unknown = [problem.unknown_value] if problem.model.prior_mass > 0 else []
        high, low = float(q.value.max()), float(q.value.min())
        spread = max([high, *unknown]) - min([low, *unknown]) + 2.0 * q.error_bound
        rewards = problem.model.node_rewards
        ends = (float(rewards.max()), float(rewards.min()))
        values = [*ends, *(end / (1.0 - gamma) for end in ends), *unknown]
        error = min(lost * spread, max(values) - min(values)) if lost > 0 else 0.0
        return cls(lost, largest, spread, error)


def _largest_value(equation: BellmanSystem, x: torch.Tensor) -> float:
    """Return a bound on max(Λ⁻¹x) for x ≥ 0: by the norm of the inverse, or by a solve if that is large."""
    Lambda = Resolvent(equation.operator, equation.discount)
    bound = float(x.max()) * Lambda.inverse_bound
    if bound <= _SMALL:
        return bound
    d = Auto().solve(Lambda, x, tolerance=_TOLERANCE)
    return min(bound, float(d.value.max()) + d.error_bound)

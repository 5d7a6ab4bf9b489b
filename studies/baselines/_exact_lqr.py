"""The exact gradient on the linear quadratic regulator, as an estimator among the others."""

from __future__ import annotations

import torch

from nopg.bellman import GradientEstimate
from nopg.envs import LQR
from nopg.errors import ArgumentError
from nopg.policies import GaussianPolicy, LinearPolicy, Policy
from studies.lqr_analysis import exact_gradient, exact_return

__all__ = ["ExactLQR"]


class ExactLQR:
    """The true ∂J/∂K of a linear policy, with Gaussian noise on its actions or without.

    Noise of covariance Σ on the actions puts BΣBᵀ onto the state at every step; J is quadratic, so each of
    these kicks counts like a start of its own.

    Args:
        lqr: The regulator.
        horizon: How many rewards to sum; all of them if absent.
    """

    def __init__(self, lqr: LQR, *, horizon: int | None = None) -> None:
        self.lqr, self.horizon = lqr, horizon

    def estimate(self, policy: Policy, *, rng: torch.Generator) -> GradientEstimate:
        """Return the exact gradient; it is the same for every generator."""
        del rng
        mean = policy.mean if isinstance(policy, GaussianPolicy) else policy
        if not isinstance(mean, LinearPolicy):
            raise ArgumentError(
                f"the exact gradient is known for linear policies only, not for {type(policy).__name__}; "
                "give a LinearPolicy, or a GaussianPolicy around one"
            )
        gain, lqr, T = mean.gain.detach(), self.lqr, self.horizon
        total, slope = exact_return(lqr, gain, horizon=T), exact_gradient(lqr, gain, horizon=T)
        if isinstance(policy, GaussianPolicy):
            sigma: torch.Tensor = policy.decay(policy.std)
            B = torch.tensor(lqr.control, dtype=torch.float64)
            R = torch.tensor(lqr.action_reward, dtype=torch.float64)
            # m rows of weight 1/m whose second moment is BΣBᵀ.
            kicks = len(sigma) ** 0.5 * (B * sigma).T
            effort = 0.5 * float((R.diagonal() * sigma.square()).sum())
            for weight, rest in self._kicks():
                total += weight * exact_return(lqr, gain, kicks, horizon=rest)
                slope = slope + weight * exact_gradient(lqr, gain, kicks, horizon=rest)
            total += effort * self._num_discounted()
        return GradientEstimate(direction=(slope,), expected_return=total, diagnostics={})

    def _kicks(self) -> list[tuple[float, int | None]]:
        """Return the discount of every kick, and how many rewards follow it."""
        gamma = self.lqr.discount
        if self.horizon is None:
            return [(gamma / (1 - gamma), None)]
        return [(gamma**t, self.horizon - t) for t in range(1, self.horizon)]

    def _num_discounted(self) -> float:
        """Return Σₜ γᵗ over the horizon."""
        gamma = self.lqr.discount
        return (1 - (gamma**self.horizon if self.horizon else 0.0)) / (1 - gamma)

"""The off-policy deterministic policy gradient with a quadratic critic, the paper's rival on the LQR."""

from __future__ import annotations

import copy
import math

import torch

from nopg._checks import check_discount
from nopg.bellman import GradientEstimate
from nopg.data import Transitions
from nopg.errors import ArgumentError, SolverError
from nopg.policies import Policy
from nopg.policies._policy import trainable

__all__ = ["DPG", "QuadraticForm"]


class QuadraticForm:
    """Monomials of degree 2 of states and actions, in which a quadratic Q is linear.

    Args:
        num_features: d_f.
        num_actions: d_a.
        cross: Whether products of a state and an action are among them. The supplement's Q(x, u) = xᵀQx +
            uᵀRu has none: its slope in u does not know the state, and no linear controller but u = 0 is its
            maximum. The Q of a regulator has them.
    """

    def __init__(self, num_features: int, num_actions: int, *, cross: bool = True) -> None:
        d = num_features + num_actions
        rows, columns = torch.triu_indices(d, d)
        if not cross:
            apart = (rows < num_features) & (columns >= num_features)
            rows, columns = rows[~apart], columns[~apart]
        self._rows, self._columns = rows, columns

    def __call__(self, features: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return the monomials (n, p) at features (n, d_f) and actions (n, d_a)."""
        x = torch.cat([features, actions], dim=1)
        return x[:, self._rows] * x[:, self._columns]


class DPG:
    """Semi-gradient: the mean over the logged states of ∂Q/∂a · ∂π/∂θ, Q from temporal differences.

    How the policy changes the states it visits is left out, and states are weighed as the behaviour met
    them: far from the behaviour the direction is biased, which is the paper's point.

    The critic is fitted by least squares to r + γQ′(s′, π′(s′)), Q′ and π′ being its target and that of the
    policy, both of which follow by τ. Several such steps are made per estimate.

    Args:
        data: The transitions.
        discount: γ.
        target_update_rate: τ, .01 in the supplement.
        critic_steps: Fits, and steps of the targets, per estimate.
        critic: The form of Q; a full quadratic one if not given.
    """

    def __init__(
        self,
        data: Transitions,
        discount: float,
        *,
        target_update_rate: float = 0.01,
        critic_steps: int = 100,
        critic: QuadraticForm | None = None,
    ) -> None:
        if not 0 < target_update_rate <= 1 or critic_steps < 1:
            raise ArgumentError(
                f"target_update_rate is {target_update_rate}, critic_steps {critic_steps}; give a rate in "
                "(0, 1] and at least one step"
            )
        self.data, self.discount = data, check_discount(discount)
        self.tau, self.critic_steps = target_update_rate, critic_steps
        self.critic = critic or QuadraticForm(data.features.shape[1], data.actions.shape[1])
        self._features, self._following = data.features, data.next_features
        self._monomials = self.critic(self._features, data.actions)  # (n, p)
        self._fit = torch.linalg.pinv(self._monomials)
        self._continues = (~data.terminated).double()
        self._w = torch.zeros(len(self._fit), dtype=torch.float64)
        self._target_w = self._w.clone()
        self._target_policy: Policy | None = None

    def estimate(self, policy: Policy, *, rng: torch.Generator) -> GradientEstimate:
        """Return the semi-gradient after more steps of the critic; the same for every generator."""
        del rng
        error = self._learn(policy)
        features, starts = self._features, self.data.schema.encode(self.data.starts)
        with torch.enable_grad():
            Q = self.critic(features, policy.mode(features)) @ self._w
            direction = torch.autograd.grad(
                Q.mean(), trainable(policy), allow_unused=True, materialize_grads=True
            )
        with torch.no_grad():
            value = (self.critic(starts, policy.mode(starts)) @ self._w).mean()
        return GradientEstimate(
            direction=direction, expected_return=float(value), diagnostics={"bellman_error": error}
        )

    def _learn(self, policy: Policy) -> float:
        """Fit the critic, let the targets follow, and return the root mean square temporal difference."""
        if self._target_policy is None:
            self._target_policy = copy.deepcopy(policy)
        target = self._target_policy
        with torch.no_grad():
            for _ in range(self.critic_steps):
                at_next = self.critic(self._following, target.mode(self._following))
                y = self.data.rewards + self.discount * self._continues * (at_next @ self._target_w)
                self._w = self._fit @ y
                self._target_w = torch.lerp(self._target_w, self._w, self.tau)
                for old, new in zip(target.parameters(), policy.parameters(), strict=True):
                    old.lerp_(new, self.tau)
            error = float((self._monomials @ self._w - y).square().mean())
        if not math.isfinite(error):
            raise SolverError(
                "the critic diverged: temporal differences away from the behaviour need not converge; give "
                "data nearer to the policy, or use NOPG"
            )
        return math.sqrt(error)

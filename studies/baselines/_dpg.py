"""The off-policy deterministic policy gradient with a quadratic critic, the paper's rival on the LQR."""

from __future__ import annotations

import copy
import math

import torch

from nopg.bellman import GradientEstimate
from nopg.data import Transitions
from nopg.errors import SolverError
from nopg.policies import Policy
from nopg.policies._policy import trainable

_TARGET_RATE = 0.01  # τ of the supplement


class DPG:
    """Semi-gradient (`equation:qgrad`): the mean over the logged states of ∂Q/∂a · ∂π/∂θ.

    How the policy changes the states it visits is left out, and states are weighed as the behaviour met
    them: far from the behaviour the direction is biased, which is the paper's point.

    Q is a sum of products of two columns of (x, u), fitted by least squares to r + γQ′(s′, π′(s′)), Q′ and π′
    being its target and that of the policy, both of which follow by τ.

    Args:
        data: The transitions.
        discount: γ.
        critic_steps: Fits, and steps of the targets, per estimate.
        cross: Whether products of a state and an action are among the terms. The supplement's Q(x, u) =
            xᵀQx + uᵀRu has none: its slope in u does not know the state, and no linear controller but u = 0
            is its maximum. The Q of a regulator has them.
        target_rate: τ.
    """

    def __init__(
        self,
        data: Transitions,
        discount: float,
        *,
        critic_steps: int = 100,
        cross: bool = True,
        target_rate: float = _TARGET_RATE,
    ) -> None:
        self.data, self.discount, self.critic_steps, self.tau = data, discount, critic_steps, target_rate
        width = data.features.shape[1]
        rows, columns = torch.triu_indices(width + data.actions.shape[1], width + data.actions.shape[1])
        kept = torch.ones_like(rows).bool() if cross else ~((rows < width) & (columns >= width))
        self._rows, self._columns = rows[kept], columns[kept]
        self._terms = self._products(data.features, data.actions)  # (n, p)
        self._fit = torch.linalg.pinv(self._terms)
        self._w = torch.zeros(len(self._fit), dtype=torch.float64)
        self._target_w = self._w.clone()
        self._target_policy: Policy | None = None

    def estimate(self, policy: Policy, *, rng: torch.Generator) -> GradientEstimate:
        """Return the semi-gradient after more steps of the critic; the same for every generator."""
        error = self._learn(policy)
        features, starts = self.data.features, self.data.schema.encode(self.data.starts)
        with torch.enable_grad():
            Q = self._products(features, policy.mode(features)) @ self._w
            direction = torch.autograd.grad(
                Q.mean(), trainable(policy), allow_unused=True, materialize_grads=True
            )
        with torch.no_grad():
            value = (self._products(starts, policy.mode(starts)) @ self._w).mean()
        return GradientEstimate(direction, float(value), {"bellman_error": error})

    def _products(self, features: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        x = torch.cat([features, actions], dim=1)
        return x[:, self._rows] * x[:, self._columns]

    def _learn(self, policy: Policy) -> float:
        """Fit the critic, let the targets follow, and return the root mean square temporal difference."""
        target = self._target_policy = self._target_policy or copy.deepcopy(policy)
        following, continues = self.data.next_features, (~self.data.terminated).double()
        with torch.no_grad():
            for _ in range(self.critic_steps):
                at_next = self._products(following, target.mode(following)) @ self._target_w
                y = self.data.rewards + self.discount * continues * at_next
                self._w = self._fit @ y
                self._target_w = torch.lerp(self._target_w, self._w, self.tau)
                for old, new in zip(target.parameters(), policy.parameters(), strict=True):
                    old.lerp_(new, self.tau)
            error = float((self._terms @ self._w - y).square().mean())
        if not math.isfinite(error):
            raise SolverError(
                "the critic diverged, as it may away from the behaviour; take data nearer to it"
            )
        return math.sqrt(error)

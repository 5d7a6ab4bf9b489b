"""Gaussian policies, a = μ(s) + σ(s)·noise: NOPG-S."""

from __future__ import annotations

import math
from typing import Self

import torch

from nopg._typing import ArrayLike, as_tensor
from nopg.errors import ArgumentError
from nopg.policies._deterministic import Deterministic
from nopg.policies._networks import MLP, ActionRange, Standardizer
from nopg.policies._policy import Policy

__all__ = ["GaussianMLPPolicy", "GaussianPolicy", "VarianceDecay"]


class VarianceDecay(torch.nn.Module):
    """A factor on σ whose square, the factor on the variance, falls linearly from 1 over the training.

    The supplement says that the variance is decayed linearly; it does not say to what.

    Args:
        final: The factor on the variance at the end, in [0, 1].
    """

    factor: torch.Tensor

    def __init__(self, final: float = 1.0) -> None:
        super().__init__()
        if not 0.0 <= final <= 1.0:
            raise ArgumentError(f"the final share of the variance is {final}; give a number in [0, 1]")
        self.final = final
        self.register_buffer("factor", torch.ones((), dtype=torch.float64))

    def progress(self, fraction: float) -> None:
        """Set the factor for this fraction of the training."""
        variance = 1.0 + (self.final - 1.0) * min(max(fraction, 0.0), 1.0)
        self.factor.fill_(variance**0.5)

    def forward(self, sigma: torch.Tensor) -> torch.Tensor:
        """Return the decayed standard deviation."""
        return sigma * self.factor


class _Sampled(Policy):
    """What Gaussian policies share: the noise that stands for a normal distribution.

    Attributes:
        sigma_points: Whether that is the 2·d_a points ±√d_a along the axes rather than random draws: their
            mean and covariance are the normal distribution's, and so are all its moments of third degree
            (the unscented transform, which the paper names beside Monte Carlo).
    """

    sigma_points: bool

    def noise(self, num_states: int, rng: torch.Generator) -> torch.Tensor:
        """Return the noise (L, m, d_a) that `actions` takes."""
        if not self.sigma_points:
            return super().noise(num_states, rng)
        axes = math.sqrt(self.num_actions) * torch.eye(
            self.num_actions, dtype=torch.float64, device=rng.device
        )
        return torch.cat([axes, -axes])[:, None].expand(-1, num_states, -1)

    def _sample(self, num_action_samples: int | None) -> None:
        """Take so many random actions per state, or the sigma points."""
        if num_action_samples is not None and num_action_samples < 1:
            raise ArgumentError(
                f"num_action_samples is {num_action_samples}; draw at least one action per state"
            )
        self.sigma_points = num_action_samples is None
        self.num_action_samples = num_action_samples or 2 * self.num_actions


class GaussianPolicy(_Sampled):
    """A deterministic mean with a fixed standard deviation (`eq:lqr_diagonal_policy_stochastic`).

    Args:
        mean: μ.
        std: σ, one number per action, or one for all.
        num_action_samples: L, actions drawn per state; None for sigma points instead.
        decay: How the variance falls over the training; not at all by default.
    """

    std: torch.Tensor

    def __init__(
        self,
        mean: Deterministic,
        std: ArrayLike,
        *,
        num_action_samples: int | None = 15,
        decay: VarianceDecay | None = None,
    ) -> None:
        super().__init__()
        sigma = as_tensor(std)
        if sigma.shape not in {(), (1,), (mean.num_actions,)}:
            raise ArgumentError(f"std has shape {tuple(sigma.shape)}; give one number, or {mean.num_actions}")
        if not bool((sigma.isfinite() & (sigma >= 0)).all()):
            raise ArgumentError(f"std is {sigma.tolist()}; give finite numbers of at least 0")
        self.mean, self.decay = mean, decay or VarianceDecay()
        self.num_actions = mean.num_actions
        self._sample(num_action_samples)
        self.register_buffer("std", sigma.expand(mean.num_actions).clone())

    def actions(self, features: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """Return μ(s) + σ·noise, shape (L, m, d_a)."""
        mu, sigma = self.moments(features)
        return mu[None] + sigma[None] * noise

    def moments(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return μ(s) and σ, both (m, d_a)."""
        mu, sigma = self.mean.mode(features), self.decay(self.std)
        return mu, sigma.expand_as(mu)

    def mode(self, features: torch.Tensor) -> torch.Tensor:
        """Return μ(s)."""
        return self.mean.mode(features)

    def progress(self, fraction: float) -> None:
        """Decay the variance."""
        self.decay.progress(fraction)


class GaussianMLPPolicy(_Sampled):
    """μ(s) = centre + radius·tanh(f(s)), σ(s) = u·sigmoid(g(s)); f and g are two outputs of one network.

    Args:
        network: With 2·d_a outputs, f first.
        action_range: The interval of the mean.
        largest_std: u, in the unit of the actions, one number or one each; 1 in the supplement, where
            actions lie within ±1, ±2 or ±5.
        num_action_samples: L, actions drawn per state, 15 in the supplement; None for sigma points instead.
        decay: How the variance falls over the training.
    """

    largest_std: torch.Tensor

    def __init__(
        self,
        network: MLP,
        action_range: ActionRange,
        *,
        largest_std: ArrayLike = 1.0,
        num_action_samples: int | None = 15,
        decay: VarianceDecay | None = None,
    ) -> None:
        super().__init__()
        self.network, self.action_range, self.decay = network, action_range, decay or VarianceDecay()
        self.num_actions = len(action_range.center)
        self._sample(num_action_samples)
        largest = as_tensor(largest_std)
        if largest.shape not in {(), (1,), (self.num_actions,)}:
            raise ArgumentError(
                f"largest_std has shape {tuple(largest.shape)}; give one number, or {self.num_actions}"
            )
        self.register_buffer("largest_std", largest.expand(self.num_actions).clone())

    @classmethod
    def from_data(
        cls,
        features: torch.Tensor,
        actions: torch.Tensor,
        *,
        rng: torch.Generator,
        hidden: int = 50,
        num_action_samples: int | None = 15,
        decay: VarianceDecay | None = None,
    ) -> Self:
        """Return an untrained policy with inputs standardised and the mean bounded as in the data.

        σ is at most half the radius of the actions: the supplement's own on the pendulum, and the same
        policy in any other unit.
        """
        network = MLP(Standardizer.from_data(features), 2 * actions.shape[1], hidden=hidden, rng=rng)
        action_range = ActionRange(actions.amin(dim=0), actions.amax(dim=0))
        return cls(
            network,
            action_range,
            largest_std=action_range.radius / 2,
            num_action_samples=num_action_samples,
            decay=decay,
        )

    def actions(self, features: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """Return μ(s) + σ(s)·noise, shape (L, m, d_a)."""
        mu, sigma = self.moments(features)
        return mu[None] + sigma[None] * noise

    def moments(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return μ(s) and σ(s), both (m, d_a)."""
        f, g = self.network(features).split(self.num_actions, dim=-1)
        mu: torch.Tensor = self.action_range(f)
        sigma: torch.Tensor = self.decay(self.largest_std * g.sigmoid())
        return mu, sigma

    def mode(self, features: torch.Tensor) -> torch.Tensor:
        """Return μ(s)."""
        mean: torch.Tensor = self.action_range(self.network(features)[:, : self.num_actions])
        return mean

    def progress(self, fraction: float) -> None:
        """Decay the variance."""
        self.decay.progress(fraction)

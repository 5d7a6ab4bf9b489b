"""Gaussian policies, a = μ(s) + σ(s)·noise: NOPG-S."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Self

import torch

from nopg._typing import ArrayLike, as_tensor
from nopg.errors import ArgumentError
from nopg.policies._networks import MLP, ActionRange, Standardizer
from nopg.policies._policy import Deterministic, Policy


class _Gaussian(Policy):
    """a = μ(s) + σ(s)·noise, with L draws or, where `num_action_samples` is None, with sigma points.

    Sigma points are the 2·d_a noises ±√d_a along the axes: mean, covariance and third moments are those of
    the normal distribution (the unscented transform, which the paper names beside Monte Carlo).
    """

    def __init__(self, num_actions: int, num_action_samples: int | None) -> None:
        super().__init__()
        if num_action_samples is not None and num_action_samples < 1:
            raise ArgumentError(
                f"num_action_samples is {num_action_samples}; draw at least one action per state"
            )
        self.num_actions, self.sigma_points = num_actions, num_action_samples is None
        self.num_action_samples = num_action_samples or 2 * num_actions

    @abstractmethod
    def moments(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return μ(s) and σ(s), both (m, d_a)."""

    def noise(self, num_states: int, rng: torch.Generator) -> torch.Tensor:
        """Return the noise (L, m, d_a) of `actions`."""
        if not self.sigma_points:
            return super().noise(num_states, rng)
        axes = math.sqrt(self.num_actions) * torch.eye(self.num_actions, dtype=torch.float64)
        return torch.cat([axes, -axes])[:, None].expand(-1, num_states, -1)

    def actions(self, features: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """Return μ(s) + σ(s)·noise, shape (L, m, d_a)."""
        mu, sigma = self.moments(features)
        return mu + sigma * noise

    def mode(self, features: torch.Tensor) -> torch.Tensor:
        """Return μ(s)."""
        return self.moments(features)[0]

    def _deviations(self, name: str, values: ArrayLike) -> torch.Tensor:
        """Return a deviation for each action, (d_a,)."""
        found, d_a = as_tensor(values), self.num_actions
        if found.shape not in {(), (1,), (d_a,)} or not bool((found.isfinite() & (found >= 0)).all()):
            raise ArgumentError(f"{name} is {found.tolist()}; give one finite number of at least 0, or {d_a}")
        return found.expand(d_a).clone()


class GaussianPolicy(_Gaussian):
    """A deterministic mean with a fixed standard deviation (`eq:lqr_diagonal_policy_stochastic`).

    The deviation is one number per action, or one for all; without a number of samples, sigma points.
    """

    std: torch.Tensor

    def __init__(self, mean: Deterministic, std: ArrayLike, *, num_action_samples: int | None = 15) -> None:
        super().__init__(mean.num_actions, num_action_samples)
        self.mean = mean
        self.register_buffer("std", self._deviations("std", std))

    def moments(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return μ(s) and σ, both (m, d_a)."""
        mu = self.mean.mode(features)
        return mu, self.std.expand_as(mu)


class GaussianMLPPolicy(_Gaussian):
    """μ(s) = centre + radius·tanh(f(s)), σ(s) = u·sigmoid(g(s)); f and g are two outputs of one network.

    Args:
        network: With 2·d_a outputs, f first.
        action_range: The interval of the mean.
        largest_std: u, in the unit of the actions, one number or one each; 1 in the supplement, where
            actions lie within ±1, ±2 or ±5.
        num_action_samples: L, 15 in the supplement; None for sigma points.
    """

    largest_std: torch.Tensor

    def __init__(
        self,
        network: MLP,
        action_range: ActionRange,
        *,
        largest_std: ArrayLike = 1.0,
        num_action_samples: int | None = 15,
    ) -> None:
        super().__init__(len(action_range.center), num_action_samples)
        self.network, self.action_range = network, action_range
        self.register_buffer("largest_std", self._deviations("largest_std", largest_std))

    @classmethod
    def from_data(
        cls,
        features: torch.Tensor,
        actions: torch.Tensor,
        *,
        rng: torch.Generator,
        hidden: int = 50,
        num_action_samples: int | None = 15,
        weights: torch.Tensor | None = None,
    ) -> Self:
        """Return an untrained policy as `MLPPolicy.from_data` does, bounded in its mean.

        σ is at most half the radius of the actions, as in the supplement's pendulum, in any unit.
        """
        standardizer, limits = Standardizer.from_data(features, weights), ActionRange(*actions.aminmax(dim=0))
        network = MLP(standardizer, 2 * actions.shape[1], hidden=hidden, rng=rng)
        return cls(network, limits, largest_std=limits.radius / 2, num_action_samples=num_action_samples)

    def moments(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return μ(s) and σ(s), both (m, d_a)."""
        f, g = self.network(features).split(self.num_actions, dim=-1)
        return self.action_range.at(f), self.largest_std * g.sigmoid()

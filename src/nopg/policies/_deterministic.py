"""Deterministic policies, a = π(s): NOPG-D."""

from __future__ import annotations

from typing import Self

import torch

from nopg._typing import ArrayLike, as_tensor
from nopg.errors import ArgumentError
from nopg.policies._networks import MLP, ActionRange, Standardizer
from nopg.policies._policy import Policy


class Deterministic(Policy):
    """A policy with one action per state and no noise."""

    num_action_samples = 1

    def noise(self, num_states: int, rng: torch.Generator) -> torch.Tensor:
        """Return an empty noise, shape (1, m, 0)."""
        return torch.zeros(1, num_states, 0, dtype=torch.float64, device=rng.device)

    def actions(self, features: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """Return the one action per state, shape (1, m, d_a)."""
        del noise
        return self.mode(features)[None]


class Mode(Deterministic):
    """The mode of any policy, as a deterministic policy."""

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self.policy, self.num_actions = policy, policy.num_actions

    def mode(self, features: torch.Tensor) -> torch.Tensor:
        """Return the mode of the policy."""
        return self.policy.mode(features)


class LinearPolicy(Deterministic):
    """a = K s, with all gains free or only the diagonal ones (`eq:lqr_diagonal_policy`).

    Args:
        gain: K, shape (d_a, d_f); for a diagonal policy the diagonal alone, shape (d,).

    Example:
        >>> LinearPolicy([-6.4, -3.4]).mode(torch.ones(1, 2, dtype=torch.float64))
        tensor([[-6.4000, -3.4000]], dtype=torch.float64, grad_fn=<MulBackward0>)
    """

    def __init__(self, gain: ArrayLike) -> None:
        super().__init__()
        K = as_tensor(gain).clone()
        if K.ndim not in {1, 2}:
            raise ArgumentError(f"gain has shape {tuple(K.shape)}; give (d_a, d_f), or the diagonal (d,)")
        self.gain = torch.nn.Parameter(K)
        self.num_actions = len(K)

    def mode(self, features: torch.Tensor) -> torch.Tensor:
        """Return K s."""
        return features * self.gain if self.gain.ndim == 1 else features @ self.gain.T


class MLPPolicy(Deterministic):
    """a = centre + radius·tanh(f(s)), f the supplement's network of 50 ReLU units.

    Args:
        network: f, with d_a outputs.
        action_range: The interval of actions.
    """

    def __init__(self, network: MLP, action_range: ActionRange) -> None:
        super().__init__()
        self.network, self.action_range = network, action_range
        self.num_actions = len(action_range.center)

    @classmethod
    def from_data(
        cls,
        features: torch.Tensor,
        actions: torch.Tensor,
        *,
        rng: torch.Generator,
        hidden: int = 50,
        linear: bool = False,
        weights: torch.Tensor | None = None,
    ) -> Self:
        """Return an untrained policy with inputs standardised and outputs bounded as in the data.

        Args:
            features: Features of the states, (n, d_f).
            actions: Logged actions, (n, d_a).
            rng: Random generator of the weights.
            hidden: Number of units.
            linear: See `MLP`.
            weights: Of the rows, (n,); one each by default.
        """
        standardizer = Standardizer.from_data(features, weights)
        network = MLP(standardizer, actions.shape[1], hidden=hidden, rng=rng, linear=linear)
        return cls(network, ActionRange(actions.amin(dim=0), actions.amax(dim=0)))

    def mode(self, features: torch.Tensor) -> torch.Tensor:
        """Return the action (m, d_a)."""
        actions: torch.Tensor = self.action_range(self.network(features))
        return actions

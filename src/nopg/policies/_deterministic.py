"""Deterministic policies, a = π(s): linear, a network, near another one, or with levels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import torch

from nopg._typing import ArrayLike, as_tensor
from nopg.errors import ArgumentError
from nopg.policies._networks import MLP, ActionRange, Standardizer
from nopg.policies._policy import Deterministic, Policy


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

        Features of the states are (n, d_f), logged actions (n, d_a), weights of the rows (n,), one each by
        default; see `MLP` for the others.
        """
        standardizer, count = Standardizer.from_data(features, weights), actions.shape[1]
        network = MLP(standardizer, count, hidden=hidden, rng=rng, linear=linear)
        return cls(network, ActionRange(*actions.aminmax(dim=0)))

    def mode(self, features: torch.Tensor) -> torch.Tensor:
        """Return the action (m, d_a)."""
        return self.action_range.at(self.network(features))


class DeviationPolicy(Deterministic):
    """The action of a policy, but no farther from that of another one than a limit.

    One training gives a family: with limit 0 the base acts, with a large one the policy.

    Args:
        base: What runs today, or imitates it.
        policy: What was trained.
        limit: Largest deviation of each action in its unit, shape (d_a,).

    Example:
        >>> near = DeviationPolicy(LinearPolicy([[-1.0]]), LinearPolicy([[-3.0]]), [0.5])
        >>> near.mode(torch.tensor([[0.125], [1.0]]).double()).tolist()
        [[-0.375], [-1.5]]
    """

    limit: torch.Tensor

    def __init__(self, base: Deterministic, policy: Deterministic, limit: ArrayLike) -> None:
        super().__init__()
        if base.num_actions != policy.num_actions:
            raise ArgumentError(
                f"the base has {base.num_actions} actions, the policy {policy.num_actions}; they must agree"
            )
        self.base, self.policy, self.num_actions = base, policy, policy.num_actions
        self.register_buffer("limit", torch.zeros(policy.num_actions, dtype=torch.float64))
        self.set_limit(limit)

    def set_limit(self, limit: ArrayLike) -> None:
        """Change the largest deviations, shape (d_a,)."""
        found = as_tensor(limit).reshape(-1)
        if len(found) != self.num_actions or not bool((found.isfinite() & (found >= 0)).all()):
            raise ArgumentError(
                f"the limit of the deviation is {limit}; give {self.num_actions} finite numbers, at least 0"
            )
        self.limit.copy_(found)

    def mode(self, features: torch.Tensor) -> torch.Tensor:
        """Return the actions (m, d_a)."""
        base = self.base.mode(features)
        wanted = self.policy.mode(features) - base
        return base + torch.minimum(torch.maximum(wanted, -self.limit), self.limit)


class QuantizedPolicy(Deterministic):
    """The nearest level to the action of a network: what runs is what was evaluated.

    The gradient is that of the network, as if nothing were rounded (straight-through).

    Args:
        policy: The network.
        levels: Shape (d_a, k), in rising order, the last repeated where an action has fewer; NaN for an
            action that is continuous.

    Example:
        >>> from nopg._seeding import generator
        >>> states, pump = torch.randn(50, 2).double(), torch.arange(50)[:, None].double() % 2
        >>> network = MLPPolicy.from_data(states, pump, rng=generator(0, "network"))
        >>> QuantizedPolicy(network, [[0.0, 1.0]]).mode(states).detach().unique().tolist()
        [0.0, 1.0]
    """

    levels: torch.Tensor

    def __init__(self, policy: MLPPolicy, levels: ArrayLike) -> None:
        super().__init__()
        known = as_tensor(levels)
        if known.ndim != 2 or len(known) != policy.num_actions or known.shape[1] < 1:
            raise ArgumentError(
                f"levels have shape {tuple(known.shape)}; give a row for each of {policy.num_actions} actions"
            )
        if not bool((known.diff(dim=1).nan_to_num() >= 0).all()):
            raise ArgumentError(f"levels are {known.tolist()}; give them in rising order")
        self.policy, self.num_actions = policy, policy.num_actions
        self.register_buffer("levels", known, persistent=False)  # they are declared with the columns

    def mode(self, features: torch.Tensor) -> torch.Tensor:
        """Return the nearest levels (m, d_a), with the gradient of the network."""
        actions = self.policy.mode(features)
        return nearest_levels(actions.detach(), self.levels) + (actions - actions.detach())


def padded_levels(names: tuple[str, ...], levels: Mapping[str, tuple[float, ...]]) -> torch.Tensor:
    """Return the levels (d_a, k) of all actions, the last one repeated; NaN for an action without levels."""
    width = max(map(len, levels.values()), default=1)
    rows = [(*(own := levels.get(name, (torch.nan,))), *own[-1:] * (width - len(own))) for name in names]
    return torch.tensor(rows, dtype=torch.float64)


def nearest_levels(actions: torch.Tensor, levels: torch.Tensor) -> torch.Tensor:
    """Return actions (m, d_a) at the nearest levels (d_a, k), in the middle the lower; NaN is no level."""
    between = (levels[:, 1:] + levels[:, :-1]) / 2
    index = (actions[:, :, None] > between).sum(dim=2)
    found = levels[torch.arange(len(levels)), index]
    return torch.where(levels[:, 0].isnan(), actions, found)

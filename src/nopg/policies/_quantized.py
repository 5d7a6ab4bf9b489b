"""Policies whose actions have a finite set of levels."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from nopg._typing import ArrayLike, as_tensor
from nopg.errors import ArgumentError
from nopg.policies._deterministic import MLPPolicy
from nopg.policies._policy import Deterministic


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
    """Return actions (m, d_a) at the nearest levels (d_a, k), in the middle the lower one; NaN is no level.

    Example:
        >>> levels = torch.tensor([[0.0, 1.0], [torch.nan, torch.nan]])
        >>> nearest_levels(torch.tensor([[0.5, 0.7], [0.6, 0.3]]), levels)
        tensor([[0.0000, 0.7000],
                [1.0000, 0.3000]])
    """
    between = (levels[:, 1:] + levels[:, :-1]) / 2
    index = (actions[:, :, None] > between).sum(dim=2)
    found = levels[torch.arange(len(levels)), index]
    return torch.where(levels[:, 0].isnan(), actions, found)

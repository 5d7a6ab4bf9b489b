"""The interface between a transition model and everything above it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch

from nopg.graph._rows import SparseRows

__all__ = ["Backup", "Queries", "TransitionModel"]


@dataclass(frozen=True, slots=True)
class Backup:
    """What the model says of each query under its actions: V = reward + weights·x + unknown·v.

    Attributes:
        weights: Non-negative weights on the values x of the nodes; row sums are 1 − unknown, (m, n).
        unknown: m, the mass that the data cannot account for, shape (m,).
        reward: Expected immediate reward that is not already in the values of the nodes, shape (m,).
    """

    weights: SparseRows
    unknown: torch.Tensor
    reward: torch.Tensor

    def values(self, x: torch.Tensor, unknown_value: float) -> torch.Tensor:
        """Return V of each query, shape (m,), for node values x (n,)."""
        return self.reward + self.weights.apply(x) + self.unknown * unknown_value


class Queries(ABC):
    """A fixed set of query states bound to a model, ready to be asked about one policy after another.

    Attributes:
        features: The query states as policies see them, shape (m, d_f).
    """

    features: torch.Tensor

    @abstractmethod
    def backup(self, actions: torch.Tensor) -> Backup:
        """Return the model's answer for actions (L, m, d_a), averaged over the L samples."""

    @abstractmethod
    def action_gradient(
        self, actions: torch.Tensor, backup: Backup, x: torch.Tensor, unknown_value: float
    ) -> torch.Tensor:
        """Return ∂V/∂a of every query and sample, shape (L, m, d_a), with node values x held fixed.

        Args:
            actions: The actions (L, m, d_a) that `backup` was computed for.
            backup: The answer for these actions.
            x: Values of the nodes, shape (n,).
            unknown_value: v.
        """

    @abstractmethod
    def support(self) -> torch.Tensor:
        """Return how many samples' worth of data stand at each query, whatever the action, shape (m,)."""


class TransitionModel(ABC):
    """A model of the plant as a Bellman equation over value nodes.

    The values x of its nodes obey x = c + γ·e·V(node query), where c is the reward collected on the way
    to the node's query state and e is 0 at a terminal node, 1 elsewhere. For the paper's model the
    nodes are the samples, c = r and x = q. A model that predicts rewards itself has c = 0.

    Attributes:
        num_nodes: n.
        num_actions: d_a.
        node_rewards: c, shape (n,).
        continues: e, shape (n,).
        node_queries: The states the nodes lead to, g consecutive ones per node, averaged.
        group_size: g.
    """

    num_nodes: int
    num_actions: int
    node_rewards: torch.Tensor
    continues: torch.Tensor
    node_queries: Queries
    group_size: int

    @abstractmethod
    def bind(self, features: torch.Tensor) -> Queries:
        """Return queries at any state features (m, d_f)."""

    @abstractmethod
    def default_unknown_value(self, discount: float) -> float:
        """Return v, what x is worth where the data know nothing: the worst that can happen."""

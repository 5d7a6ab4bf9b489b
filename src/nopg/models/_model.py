"""The interface of a transition model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from nopg._checks import check_device
from nopg.data import Transitions
from nopg.errors import ArgumentError
from nopg.linalg._hierarchy import CellHierarchy
from nopg.linalg._operator import TransitionOperator
from nopg.linalg._rows import RowPattern, SparseRows

RewardFunction = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Rewards (m,) of raw states (m, d_s), actions (m, d_a) and next states (m, d_s), in torch."""


@dataclass(frozen=True)
class Backup:
    """The backup of each query under its actions: V = reward + weights·x + unknown·v.

    Attributes:
        weights: Non-negative weights on the values x of the nodes; row sums are 1 − unknown, (m, n).
        unknown: Mass of the unknown state, shape (m,).
        reward: Expected immediate reward that is not in the values of the nodes, shape (m,).
        lost: Bound on the share of the weights that samples left out would have, shape (m,).
    """

    weights: SparseRows
    unknown: Tensor
    reward: Tensor
    lost: Tensor

    def values(self, x: Tensor, unknown_value: float) -> Tensor:
        """Return V of each query, shape (m,), for node values x (n,)."""
        return self.reward + self.weights.apply(x) + self.unknown * unknown_value


class Queries(ABC):
    """A fixed set of query states bound to a model.

    Attributes:
        features: The query states as inputs of policies, shape (m, d_f).
        pattern: Pattern of the weights of a backup.
    """

    features: Tensor
    pattern: RowPattern

    @abstractmethod
    def backup(self, actions: Tensor, *, out: Backup | None = None) -> Backup:
        """Return the backup for actions (L, m, d_a), averaged over the L samples.

        Args:
            actions: L for each query.
            out: An earlier backup of these queries whose memory may be overwritten.
        """

    @abstractmethod
    def action_gradient(self, actions: Tensor, backup: Backup, x: Tensor, unknown_value: float) -> Tensor:
        """Return ∂V/∂a of every query and sample, shape (L, m, d_a), with node values x held fixed.

        Args:
            actions: The actions (L, m, d_a) that `backup` was computed for.
            backup: The backup for these actions.
            x: Values of the nodes, shape (n,).
            unknown_value: v.
        """

    def to(self, model: Any) -> Queries:
        """Return the same queries of the model in another precision, or on another device."""
        here, there = (self.features.dtype, self.features.device), (model.dtype, model.device)
        if here != there:
            raise ArgumentError(
                f"these queries are in {here[0]} on {here[1]} only, not in {there[0]} on {there[1]}"
            )
        return self


class TransitionModel(ABC):
    """A model of the plant as a Bellman equation over value nodes.

    The values x of its nodes satisfy x = c + γ·e·V(node query), where c is the reward before the node's
    query state and e is 0 at a terminal node, 1 elsewhere. For the paper's model the nodes are the samples,
    c = r and x = q. A model that predicts rewards has c = 0.

    Attributes:
        data: The transitions.
        num_nodes: n.
        num_actions: d_a.
        node_rewards: c, shape (n,).
        continues: e, shape (n,).
        node_queries: The successor states of the nodes, g consecutive ones per node, averaged.
        group_size: g.
        dtype: Type of all numbers.
        device: Device of the updates.
    """

    data: Transitions
    num_nodes: int
    num_actions: int
    node_rewards: Tensor
    continues: Tensor
    node_queries: Queries
    group_size: int
    dtype: torch.dtype = torch.float64
    device: torch.device = torch.device("cpu")

    @property
    @abstractmethod
    def node_places(self) -> Tensor:
        """Successor states of the nodes in the metric of the model, shape (n, d_f)."""

    @cached_property
    def hierarchy(self) -> CellHierarchy:
        """The cells of the nodes, for a preconditioner; built on the CPU."""
        pattern = self.node_queries.pattern.to(torch.device("cpu"))
        cells = CellHierarchy(pattern, self.group_size, self.node_places)
        cells.move(self.device)
        return cells

    def operator(self, backup: Backup) -> TransitionOperator:
        """Return P from the backup at the nodes."""
        return TransitionOperator(
            backup.weights, self.continues, self.group_size, hierarchy=lambda: self.hierarchy
        )

    def to(
        self, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> TransitionModel:
        """Return the same model in another precision, or on another device."""
        if dtype not in {None, self.dtype}:
            raise ArgumentError(f"this model computes in {self.dtype} only, not in {dtype}")
        if device is not None and check_device(device) != self.device:
            raise ArgumentError(f"this model computes on the {self.device} only, not on {str(device)!r}")
        return self

    @abstractmethod
    def bind(self, features: Tensor) -> Queries:
        """Return queries at any state features (m, d_f)."""

    @abstractmethod
    def default_unknown_value(self, discount: float) -> float:
        """Return v, the value of the unknown state: by default the worst possible."""

"""The interface between a transition model and everything above it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from nopg._checks import check_device
from nopg._spatial import SpatialCells
from nopg.data import Transitions
from nopg.errors import ArgumentError
from nopg.linalg._hierarchy import CellHierarchy
from nopg.linalg._operator import TransitionOperator
from nopg.linalg._rows import RowPattern, SparseRows
from nopg.linalg._space import VectorSpace

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
    unknown: Tensor
    reward: Tensor

    def values(self, x: Tensor, unknown_value: float) -> Tensor:
        """Return V of each query, shape (m,), for node values x (n,)."""
        return self.reward + self.weights.apply(x) + self.unknown * unknown_value


class Queries(ABC):
    """A fixed set of query states bound to a model, ready to be asked about one policy after another.

    Attributes:
        features: The query states as policies see them, shape (m, d_f).
        pattern: Where the weights of the answers stand.
    """

    features: Tensor

    pattern: RowPattern

    @abstractmethod
    def backup(self, actions: Tensor, *, instead_of: Backup | None = None) -> Backup:
        """Return the model's answer for actions (L, m, d_a), averaged over the L samples.

        Args:
            actions: L for each query.
            instead_of: An earlier answer of these queries whose memory may be overwritten.
        """

    @abstractmethod
    def action_gradient(self, actions: Tensor, backup: Backup, x: Tensor, unknown_value: float) -> Tensor:
        """Return ∂V/∂a of every query and sample, shape (L, m, d_a), with node values x held fixed.

        Args:
            actions: The actions (L, m, d_a) that `backup` was computed for.
            backup: The answer for these actions.
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

    def state_dict(self) -> dict[str, Tensor]:
        """Return what the last bits of the next answer depend on beside its arguments."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:  # noqa: B027 (most keep nothing)
        """Answer as the queries whose state this is would; with an empty one as if never asked."""

    @abstractmethod
    def support(self) -> Tensor:
        """Return the effective sample size at each query, whatever the action, shape (m,)."""


class TransitionModel(ABC):
    """A model of the plant as a Bellman equation over value nodes.

    The values x of its nodes obey x = c + γ·e·V(node query), where c is the reward collected on the way
    to the node's query state and e is 0 at a terminal node, 1 elsewhere. For the paper's model the
    nodes are the samples, c = r and x = q. A model that predicts rewards itself has c = 0.

    Attributes:
        data: The transitions that it rests on; on several ranks those of this one.
        num_nodes: n.
        num_actions: d_a.
        node_rewards: c, shape (n,).
        continues: e, shape (n,).
        node_queries: The states the nodes lead to, g consecutive ones per node, averaged.
        group_size: g.
        dtype: Of all numbers.
        device: Where an update computes.
        space: How vectors over the nodes are reduced; n is what this rank holds of them.
        cells: The cells by which several ranks share the nodes, or None.
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
    space: VectorSpace = VectorSpace()
    cells: SpatialCells | None = None

    @property
    @abstractmethod
    def node_places(self) -> Tensor:
        """Where the nodes lead to, in a metric of the model, shape (n, d_f)."""

    @cached_property
    def hierarchy(self) -> CellHierarchy:
        """The cells of the nodes, for a preconditioner; found on the CPU."""
        pattern, ranks = self.node_queries.pattern.to(torch.device("cpu")), self.space.ranks
        cells = CellHierarchy(pattern, self.group_size, self.node_places, self.cells, ranks)
        cells.move(self.device)
        return cells

    def operator(self, backup: Backup) -> TransitionOperator:
        """Return P for the answer at the nodes."""
        return TransitionOperator(
            backup.weights,
            self.continues,
            self.group_size,
            hierarchy=lambda: self.hierarchy,
            space=self.space,
        )

    def to(
        self, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> TransitionModel:
        """Return the same model in another precision, or on another device; what is not given stays."""
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
        """Return v, what x is worth where the data know nothing: the worst that can happen."""

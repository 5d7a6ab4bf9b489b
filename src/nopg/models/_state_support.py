"""The effective sample size at a state, and the prior mass below which a state is unknown."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from nopg.data import Schema, Transitions
from nopg.data._held_out import held_out_groups, spread_rows
from nopg.kernels import GaussianKernel
from nopg.models._prior_mass import known_and_unknown
from nopg.neighbors import neighbor_search

__all__ = ["CondensedSupport", "StateSupport", "cell_corners", "node_spacing"]

_NEIGHBORS = 64
_ROWS_SAMPLED = 1_000
# Kernel width in units of the spacing of the nodes.
_WIDTH = 0.5
# At the 5 % quantile of the support of the data the unknown share is 10⁻⁴.
_EDGE_QUANTILE, _UNKNOWN_AT_EDGE = 0.05, 1e-4
_LEAST_PRIOR_MASS = _LEAST_KNOWN = 1e-6
_MOST_REPRESENTATIVES = 2_000


class StateSupport:
    """S(z) = Σⱼ exp(−½‖z − sⱼ‖²/w²) over all logged states: before a step, or at the end of the task.

    Rows are weighted by the number of transitions that they represent.

    Args:
        data: The transitions.
        metric: Kernel whose bandwidths are the unit of distances.

    Attributes:
        spacing: Spacing of the next states in units of the metric, see `node_spacing`.
        width: w, half the spacing.
    """

    def __init__(self, data: Transitions, metric: GaussianKernel) -> None:
        self.metric, self.spacing = metric, node_spacing(data, metric)
        self.width = _WIDTH * self.spacing
        self._states = torch.cat([data.states, data.next_states[data.terminated]])
        self._tree = neighbor_search(metric.scale(data.schema.encode(self._states)))
        log_w = torch.zeros_like(data.rewards) if data.weights is None else data.weights.log()
        self._log_weights = torch.cat([log_w, log_w[data.terminated]])

    @property
    def seen(self) -> tuple[Tensor, Tensor]:
        """The logged raw states (m, d_s), and the number of transitions (m,) that each represents."""
        return self._states, self._log_weights.exp()

    def log_mass(self, features: Tensor) -> Tensor:
        """Return log S (m,) at state features (m, d_f), from the 64 nearest."""
        distances, near = self._tree.nearest(self.metric.scale(features), _NEIGHBORS)
        return torch.logsumexp(self._log_kernel(distances, near), dim=1)

    def split(self, features: Tensor, prior_mass: float) -> tuple[Tensor, Tensor]:
        """Return S/(β + S) and β/(β + S), the known and the unknown share of each query, both (m,).

        The known share is at least 10⁻⁶, so that the gradient at an unknown start does not vanish.
        """
        if prior_mass == 0.0:
            return known_and_unknown(self.log_mass(features), prior_mass)
        least = math.log(_LEAST_KNOWN * prior_mass)
        return known_and_unknown(self.log_mass(features).clamp(min=least), prior_mass)

    def nearest(self, features: Tensor) -> Tensor:
        """Return the logged raw states (m, d_s) nearest to state features (m, d_f)."""
        _, near = self._tree.nearest(self.metric.scale(features), 1)
        return self._states[near[:, 0].long()]

    def prior_mass(self, data: Transitions) -> float:
        """Return the default β: 10⁻⁴ of the 5 % quantile of the support of the rows, at least 10⁻⁶.

        The support of a row comes from the other episodes, or without episodes from all rows but its
        duplicates.
        """
        groups = held_out_groups(data)
        seen_groups = torch.cat([groups, groups[data.terminated]])
        rows = spread_rows(data, _ROWS_SAMPLED, purpose="held-out rows of support")
        longest = min(int(torch.unique(groups, return_counts=True)[1].max()), _ROWS_SAMPLED)
        distances, near = self._tree.nearest(self.metric.scale(data.features[rows]), _NEIGHBORS + longest)
        own = seen_groups[near.long()] == groups[rows][:, None]
        support = self._log_kernel(distances, near).exp().masked_fill(own, 0.0).sum(dim=1)
        edge = float(torch.quantile(support, _EDGE_QUANTILE))
        return max(_UNKNOWN_AT_EDGE * edge, _LEAST_PRIOR_MASS) if math.isfinite(edge) else _LEAST_PRIOR_MASS

    def _log_kernel(self, distances: Tensor, near: Tensor) -> Tensor:
        """Return log wⱼ − ½d²/w² (m, K) of the states seen at these distances."""
        return self._log_weights[near.long()] - 0.5 * (distances / self.width).square()


@dataclass(frozen=True, slots=True)
class CondensedSupport:
    """S(z) = Σⱼ wⱼ exp(−½‖(z − zⱼ)/h‖²) over few representatives, saved with a controller.

    Attributes:
        places: State features of the representatives, shape (r, d_f).
        weights: Number of states that each represents, shape (r,).
        width: h of each feature, shape (d_f,).
        prior_mass: β; a state of support S counts as unknown to the share β/(β + S).
    """

    places: Tensor
    weights: Tensor
    width: Tensor
    prior_mass: float

    @classmethod
    def of(
        cls, data: Transitions, metric: GaussianKernel, *, most: int = _MOST_REPRESENTATIVES
    ) -> CondensedSupport:
        """Return the support of the data from at most `most` representative rows.

        Width and β are computed from these rows, which are farther apart than the data.
        """
        few = data.condense(most)
        support = StateSupport(few, metric)
        states, weights = support.seen
        return cls(
            few.schema.encode(states), weights, support.width * metric.bandwidth, support.prior_mass(few)
        )

    def mass(self, features: Tensor) -> Tensor:
        """Return S (m,) at state features (m, d_f)."""
        scaled, places = features / self.width, self.places / self.width
        return torch.exp(-0.5 * torch.cdist(scaled, places).square()) @ self.weights

    def unknown(self, features: Tensor) -> Tensor:
        """Return β/(β + S), the unknown share (m,) at state features (m, d_f)."""
        return self.prior_mass / (self.prior_mass + self.mass(features))


def cell_corners(schema: Schema) -> int:
    """Return 2ᵈ, the corners of a cell of d state columns, or 64 where that is more."""
    return min(1 << len(schema.states), _NEIGHBORS)


def node_spacing(data: Transitions, metric: GaussianKernel) -> float:
    """Return the median distance from a next state to its 2ᵈ-th nearest; see `cell_corners`."""
    nodes = metric.scale(data.next_features)
    distances, _ = neighbor_search(nodes).nearest(nodes, cell_corners(data.schema) + 1)
    positive = distances[:, -1][distances[:, -1] > 0]
    return float(positive.median()) if len(positive) else 1.0

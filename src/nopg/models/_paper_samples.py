"""The samples of the paper's model, in the units of its kernels."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property

import torch
from torch import Tensor

from nopg._checks import check_device
from nopg.data import Transitions
from nopg.errors import ArgumentError
from nopg.kernels import Bandwidths
from nopg.linalg._rows import RowPattern
from nopg.models._candidate_weights import CandidateWeights, log_kernel
from nopg.models._candidates import CandidateGraph
from nopg.models._model import TransitionModel
from nopg.models._prior_mass import check_prior_mass
from nopg.neighbors import NeighborSearch, neighbor_search

# Above this share of entries padding is kept: the positions of the entries would need more memory.
_FULL = 0.9


class PaperSamples(TransitionModel):
    """The samples that the paper's model weights, without queries; arguments as of `PaperModel`."""

    def __init__(
        self,
        data: Transitions,
        bandwidths: Bandwidths,
        prior_mass: float,
        *,
        dtype: torch.dtype,
        device: torch.device | str | None,
    ) -> None:
        bandwidths.check_columns(data.schema)
        there = check_device(device)
        self.data, self.bandwidths, self.prior_mass = data, bandwidths, check_prior_mass(prior_mass)
        self.num_nodes, self.num_actions = data.actions.shape

        # Actions enter the gradient as products; centred actions lose no digits.
        self._origin = data.actions.mean(dim=0)
        self.set_precision(dtype, there)
        if not bool(self._scaled_actions().square().sum(dim=1).isfinite().all()):
            raise ArgumentError(
                f"bandwidths.actions is {bandwidths.actions.tolist()}: the actions lie over 1e150 bandwidths "
                "apart, beyond what numbers can hold; give a wider one"
            )
        self.samples = neighbor_search(bandwidths.state_kernel.scale(data.features))

    @property
    def node_places(self) -> Tensor:
        """Next states in units of the bandwidth, shape (n, d_f)."""
        return self.bandwidths.state_kernel.scale(self.data.next_features)

    @cached_property
    def samples_by_action(self) -> NeighborSearch:
        """The samples in the space of states and actions, in units of h."""
        points = [self.bandwidths.state_kernel.scale(self.data.features), self._scaled_actions()]
        return neighbor_search(torch.cat(points, dim=1))

    def scale_actions(self, actions: Tensor) -> Tensor:
        """Return actions (…, d_a), centred, in bandwidths."""
        return (actions - self.action_origin) / self.action_widths

    def pattern(self, graph: CandidateGraph) -> RowPattern:
        """Return the positions of the candidates."""
        filled = int(graph.present.sum()) / graph.present.numel()
        return RowPattern(graph.indices, self.num_nodes, None if filled > _FULL else graph.present)

    def weighted(self, graph: CandidateGraph, pattern: RowPattern) -> CandidateWeights:
        """Return the candidates with their actions and weights, in this precision and on this device."""
        log_psi, log_dropped = graph.log_psi.to(self.device), graph.log_dropped
        if self.data.weights is not None:
            log_weights = self.data.weights.log().to(log_psi)
            log_psi = log_psi + log_weights[pattern.indices.long()]
            log_dropped = log_dropped + math.log(self.data.weights.max())
        return CandidateWeights(
            pattern, log_psi, log_dropped.to(log_psi), self.scaled_actions, self.prior_mass
        )

    def with_log_psi(self, graph: CandidateGraph, features: Tensor) -> CandidateGraph:
        """Return the graph with log ψ computed again from features (m, d_f), for this precision."""
        kernel = self.bandwidths.state_kernel
        samples, places = kernel.scale(self.data.features), kernel.scale(features)
        log_psi = log_kernel(graph.indices, samples, places, self.dtype)
        return replace(graph, log_psi=log_psi.masked_fill_(graph.log_psi.isinf(), -math.inf))

    def default_unknown_value(self, discount: float) -> float:
        """Return the lowest reward for ever, or once if the task can end and that is lower."""
        worst = float(self.data.rewards.min())
        for_ever = worst / (1.0 - discount)
        return min(worst, for_ever) if bool(self.data.terminated.any()) else for_ever

    def set_precision(self, dtype: torch.dtype, device: torch.device) -> None:
        """Convert what an update reads to this precision and device; the data are unchanged."""
        self.dtype, self.device = dtype, device
        self.node_rewards = self.data.rewards.to(device, dtype)
        self.continues = (~self.data.terminated).to(device, dtype)
        self.scaled_actions = self._scaled_actions().to(device, dtype)  # (n, d_a)
        self.action_origin = self._origin.to(device, dtype)
        self.action_widths = self.bandwidths.actions.to(device, dtype)

    def _scaled_actions(self) -> Tensor:
        """Return the centred actions (n, d_a) in bandwidths."""
        return self.bandwidths.action_kernel.scale(self.data.actions - self._origin)

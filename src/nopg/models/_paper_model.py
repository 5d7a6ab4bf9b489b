"""The paper's transition model: Nadaraya-Watson regression (`definition:npbe`)."""

from __future__ import annotations

import copy
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from nopg._checks import check_device
from nopg.data import Transitions
from nopg.errors import ArgumentError
from nopg.kernels import Bandwidths
from nopg.models._candidates import CandidateSearch
from nopg.models._config import PaperModelConfig
from nopg.models._integration import IntegrationRule, KernelMean, MonteCarlo, raw_spread
from nopg.models._paper_queries import PaperQueries
from nopg.models._paper_samples import PaperSamples


class PaperModel(PaperSamples):
    """εⱼ(s, a) = wⱼ ψ(s, sⱼ) φ(a, aⱼ) / (β + Σₖ wₖ ψ(s, sₖ) φ(a, aₖ)), m = β / (β + Σ …).

    The nodes are the samples: qⱼ = rⱼ + γ V(s′ⱼ). With β = 0, the paper's choice, the weights always
    sum to 1 and a query far from all data takes the value of the nearest sample; with β > 0 the mass m
    goes to an unknown state. Kernels have peak 1, so β is a number of samples. The weights wⱼ of the data,
    if any, are the numbers of transitions that the samples represent.

    Products are fastest if rows with nearby next states are close in memory (`next_state_order`).

    Args:
        data: The transitions.
        bandwidths: Bandwidths of the kernels on states, actions and next states.
        prior_mass: β.
        integration: Rule for ∫ϕᵢ(s′) … ds′; by default the mean of the kernel, as in the paper.
        search: Search for candidates.
        dtype: Type of the weights and of all results; float32 halves memory and time.
        device: Device of the updates; the data and the neighbour search stay on the CPU.
    """

    Config = PaperModelConfig

    node_queries: PaperQueries

    def __init__(
        self,
        data: Transitions,
        bandwidths: Bandwidths,
        *,
        prior_mass: float = 0.0,
        integration: IntegrationRule | None = None,
        search: CandidateSearch | None = None,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(data, bandwidths, prior_mass, dtype=dtype, device=device)
        self.integration = integration or KernelMean()
        self.search = search or CandidateSearch()
        self.group_size = self.integration.num_samples
        points = self.integration.points(data.next_states, raw_spread(data.schema, bandwidths.next_states))
        self.node_queries = self._bound(data.schema.encode(points), self.search)

    def settings(self) -> dict[str, Any]:
        """Return plain values that rebuild the model from the same data and bandwidths."""
        rule = self.integration
        if not isinstance(rule, (KernelMean, MonteCarlo)):
            raise ArgumentError("a result with an integration rule of your own cannot be saved")
        return {
            "prior_mass": self.prior_mass,
            "integration": asdict(rule) if isinstance(rule, MonteCarlo) else None,
            "most_candidates": self.search.most_candidates,
            "num_candidates": self.search.num_candidates,
            "num_kept": self.search.num_kept,
        }

    def bind(self, features: Tensor) -> PaperQueries:
        """Return queries at any state features (m, d_f)."""
        whole = CandidateSearch(num_candidates=self.num_nodes)
        return self._bound(features, self.search if self.search.num_kept is None else whole)

    def _bound(self, features: Tensor, search: CandidateSearch) -> PaperQueries:
        features = features.cpu()
        graph = search.find(self.samples, self.bandwidths.state_kernel, features, dtype=self.dtype)
        return PaperQueries(self, features, graph, search)

    def to(self, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> PaperModel:
        """Return the same model in another precision, with ψ recomputed, or on another device."""
        dtype = self.dtype if dtype is None else dtype
        there = self.device if device is None else check_device(device)
        if (dtype, there) == (self.dtype, self.device):
            return self
        model = copy.copy(self)
        model.set_precision(dtype, there)
        model.node_queries = self.node_queries.to(model)
        model.__dict__.pop("hierarchy", None)
        return model

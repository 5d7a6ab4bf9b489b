"""The paper's transition model: Nadaraya-Watson regression (`definition:npbe`)."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor

from nopg._checks import check_device
from nopg._ranks import ALONE, Ranks
from nopg._spatial import SpatialCells
from nopg.data import Transitions
from nopg.errors import ArgumentError
from nopg.kernels import Bandwidths
from nopg.linalg._halo import localize
from nopg.linalg._rows import RowPattern, SparseRows
from nopg.linalg._space import VectorSpace
from nopg.models._candidates import CandidateGraph, CandidateSearch
from nopg.models._config import PaperModelConfig
from nopg.models._integration import IntegrationRule, KernelMean, MonteCarlo, raw_spread
from nopg.models._model import Backup, Queries, TransitionModel
from nopg.models._prior_mass import check_prior_mass, known_and_unknown
from nopg.neighbors._samples import SampleIndex

__all__ = ["PaperModel"]

# A block of this size stays in the cache.
_ENTRIES_AT_ONCE = 1 << 16
# Above this share of entries padding is kept: the positions of the entries would need more memory.
_FULL = 0.9
# Up to this size the actions of candidates are stored, which saves a third of the time.
_MAX_STORED_ACTIONS = 1 << 24


class PaperModel(TransitionModel):
    """εⱼ(s, a) = wⱼ ψ(s, sⱼ) φ(a, aⱼ) / (β + Σₖ wₖ ψ(s, sₖ) φ(a, aₖ)), m = β / (β + Σ …).

    The nodes are the samples: qⱼ = rⱼ + γ V(s′ⱼ). With β = 0, the paper's choice, the weights always
    sum to 1 and a query far from all data takes the value of the nearest sample; with β > 0 the mass m
    goes to an unknown state. Kernels have peak 1, so β is a number of samples. The weights wⱼ of the data,
    if any, are the numbers of transitions that the samples represent.

    Products are fastest if rows with nearby next states are close in memory (`share_rows`).

    Args:
        data: The transitions; on several ranks those of this rank.
        bandwidths: Bandwidths of the kernels on states, actions and next states.
        prior_mass: β.
        integration: Rule for ∫ϕᵢ(s′) … ds′; by default the mean of the kernel, as in the paper.
        search: Search for candidates.
        dtype: Type of the weights and of all results; float32 halves memory and time.
        device: Device of the updates; the data and the neighbour search stay on the CPU.
        ranks: The ranks that share the data.
        cells: The cells by which the data are shared.
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
        ranks: Ranks = ALONE,
        cells: SpatialCells | None = None,
    ) -> None:
        bandwidths.check_columns(data.schema)
        there = check_device(device, several_ranks=ranks.several)
        self.data, self.bandwidths, self.prior_mass = data, bandwidths, check_prior_mass(prior_mass)
        self.integration = integration or KernelMean()
        self.search = search or CandidateSearch()
        self.space, self.cells = VectorSpace(ranks), cells
        self.num_nodes, self.num_actions = data.actions.shape
        self.group_size = self.integration.num_samples

        # Actions enter the gradient as products; centred actions lose no digits.
        total = ranks.sum(torch.cat([data.actions.sum(dim=0), torch.tensor([float(len(data))])]))
        self._origin = total[:-1] / total[-1]
        self.set_precision(dtype, there)
        if not bool(self._scaled_actions().square().sum(dim=1).isfinite().all()):
            raise ArgumentError(
                f"bandwidths.actions is {bandwidths.actions.tolist()}: the actions lie over 1e150 bandwidths "
                "apart, beyond what numbers can hold; give a wider one"
            )
        self.samples = SampleIndex(bandwidths.state_kernel.scale(data.features), ranks)
        points = self.integration.points(data.next_states, raw_spread(data.schema, bandwidths.next_states))
        self.node_queries = self.bind(data.schema.encode(points))

    @property
    def node_places(self) -> Tensor:
        """Next states in units of the bandwidth, shape (n, d_f)."""
        return self.bandwidths.state_kernel.scale(self.data.next_features)

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
        }

    def bind(self, features: Tensor) -> PaperQueries:
        """Return queries at any state features (m, d_f); on several ranks all call it together."""
        features = features.cpu()
        graph = self.search.find(self.samples, self.bandwidths.state_kernel, features, dtype=self.dtype)
        return PaperQueries(self, features, graph)

    def to(self, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> PaperModel:
        """Return the same model in another precision, with ψ recomputed, or on another device."""
        dtype = self.dtype if dtype is None else dtype
        there = (
            self.device if device is None else check_device(device, several_ranks=self.space.ranks.several)
        )
        if (dtype, there) == (self.dtype, self.device):
            return self
        model = copy.copy(self)
        model.set_precision(dtype, there)
        model.node_queries = self.node_queries.to(model)
        model.__dict__.pop("hierarchy", None)
        return model

    def default_unknown_value(self, discount: float) -> float:
        """Return the lowest reward for ever, or once if the task can end and that is lower."""
        worst = -self.space.max(-self.data.rewards)
        for_ever = worst / (1.0 - discount)
        can_end = self.space.max(self.data.terminated.double()) > 0
        return min(worst, for_ever) if can_end else for_ever

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


class PaperQueries(Queries):
    """Query states with their candidate samples and the actions of these."""

    def __init__(self, model: PaperModel, features: Tensor, graph: CandidateGraph) -> None:
        self.model, self.graph = model, graph
        self._places = features  # in float64
        self.features = features.to(model.device, model.dtype)
        indices, width, halo = localize(graph.indices, model.samples.starts, model.space.ranks)
        filled = int(graph.present.sum()) / max(graph.present.numel(), 1)
        present = None if filled > _FULL else graph.present  # padding has weight 0
        self.pattern = RowPattern(indices, width, present, halo).to(model.device)
        self.set_log_psi(graph.log_psi)

    def set_log_psi(self, log_psi: Tensor) -> None:
        """Set log ψ (m, K) of the candidates, and their actions in the same precision and on the device."""
        model, indices = self.model, self.pattern.indices
        log_psi = log_psi.to(model.device)
        if model.data.weights is not None:
            log_weights = self.pattern.extend(model.data.weights).log().to(log_psi)
            log_psi = log_psi + log_weights[indices.long()]
        self._log_psi, flat = log_psi, indices.reshape(-1)  # with log w
        actions = self.pattern.extend(model.scaled_actions)
        self._sample_actions = actions.T.contiguous()  # (d_a, n + h)
        self._candidate_actions: list[Tensor] | None = None  # d_a × (m, K)
        if self.model.num_actions * log_psi.numel() <= _MAX_STORED_ACTIONS:
            columns = self._sample_actions
            self._candidate_actions = [column.index_select(0, flat).view_as(log_psi) for column in columns]

    def to(self, model: PaperModel) -> PaperQueries:
        """Return the same queries of the model in another precision or on another device."""
        if model is self.model:
            return self
        queries = copy.copy(self)
        queries.model, queries.features = model, self._places.to(model.device, model.dtype)
        queries.pattern = self.pattern.to(model.device)
        if model.dtype != self.graph.log_psi.dtype:
            queries.graph = replace(self.graph, log_psi=self._log_psi_in(model.dtype))
        queries.set_log_psi(queries.graph.log_psi)
        return queries

    def _log_psi_in(self, dtype: torch.dtype) -> Tensor:
        """Return log ψ (m, K) of the candidates, without log w, computed in float64."""
        kernel, pattern = self.model.bandwidths.state_kernel, self.pattern.to(torch.device("cpu"))
        samples = pattern.extend(kernel.scale(self.model.data.features))
        places, padding = kernel.scale(self._places), self.graph.log_psi.isinf()
        log_psi = torch.empty(padding.shape, dtype=dtype)
        for rows in self._blocks():
            candidates = pattern.indices[rows].long()
            part = -0.5 * (places[rows, None] - samples[candidates]).square().sum(dim=2)
            log_psi[rows] = part.masked_fill_(padding[rows], -math.inf).to(dtype)
        return log_psi

    def backup(self, actions: Tensor, *, out: Backup | None = None) -> Backup:
        """Return the weights ε under actions (L, m, d_a): the mean of the ratios over the samples."""
        # The authors' code has the ratio of the means, another estimator.
        L, m, _ = actions.shape
        old = None if out is None else out.weights
        weights = torch.empty_like(self._log_psi) if old is None else old.values
        unknown = self._responsibilities(actions[0], out=weights)
        if L > 1:
            part = torch.empty_like(weights)
            for sample in actions[1:]:
                unknown += self._responsibilities(sample, out=part)
                weights += part
            weights /= L
            unknown /= L
        return Backup(SparseRows(self.pattern, weights, out=old), unknown, actions.new_zeros(m))

    def action_gradient(self, actions: Tensor, backup: Backup, x: Tensor, unknown_value: float) -> Tensor:
        """Return ∂V/∂a = Σⱼ εⱼ (xⱼ − V)(aⱼ − a)/h² for every query and sample, shape (L, m, d_a)."""
        # One sparse product gives Σεx, Σεa and Σεxa; centred values lose no digits.
        space = self.model.space
        center = space.sum(x) / space.sum(torch.ones_like(x))
        x_c, v_c = (x - center)[:, None], unknown_value - center
        a_n = self.model.scaled_actions
        columns = torch.cat([x_c, a_n, x_c * a_n], dim=1)  # (n, 1 + 2 d_a)
        d_a = a_n.shape[1]

        gradient, part = torch.empty_like(actions), None
        for sample, action in enumerate(actions):
            rows, unknown = backup.weights, backup.unknown
            if len(actions) > 1:
                part = torch.empty_like(self._log_psi) if part is None else part
                unknown = self._responsibilities(action, out=part)
                rows = SparseRows(self.pattern, part)
            eps_x, eps_a, eps_xa = rows.apply(columns).split([1, d_a, d_a], dim=1)
            V = eps_x + unknown[:, None] * v_c
            known = 1.0 - unknown[:, None]
            gradient[sample] = eps_xa - V * eps_a - self._scale_actions(action) * (eps_x - V * known)
        return gradient / (self.model.action_widths * len(actions))

    def support(self) -> Tensor:
        """Return Σⱼ wⱼ ψ(s, sⱼ): the effective sample size at each query, shape (m,)."""
        return self._log_psi.exp().sum(dim=1)

    def _scale_actions(self, actions: Tensor) -> Tensor:
        return (actions - self.model.action_origin) / self.model.action_widths

    def _responsibilities(self, actions: Tensor, *, out: Tensor) -> Tensor:
        """Write ε (m, K) for one action per query (m, d_a) to `out`, and return m (m,)."""
        a, log_mass = self._scale_actions(actions), actions.new_empty(len(actions))
        buffer = self._log_psi.new_empty(next(self._blocks()).stop, self._log_psi.shape[1])
        for rows in self._blocks():
            weights, offset = out[rows], buffer[: rows.stop - rows.start]
            logits = self._log_psi[rows]
            for k, at_candidates in enumerate(self._candidate_columns(rows)):
                torch.sub(at_candidates, a[rows, k, None], out=offset)
                torch.addcmul(logits, offset, offset, value=-0.5, out=weights)
                logits = weights
            # The largest weight is e⁰/Σ, which gives the sum.
            highest = weights.amax(dim=1)
            torch.softmax(weights, dim=1, out=weights)
            torch.sub(highest, weights.amax(dim=1).log_(), out=log_mass[rows])
        known, unknown = known_and_unknown(log_mass, self.model.prior_mass)
        if self.model.prior_mass > 0:
            for rows in self._blocks():
                out[rows].mul_(known[rows, None])
        if wrong := int((~log_mass.isfinite()).sum()):
            raise ArgumentError(
                f"{wrong} of {len(actions)} actions are NaN, infinite or over 1e150 bandwidths away from the "
                "data; check the parameters of the policy"
            )
        return unknown

    def _candidate_columns(self, rows: slice) -> Iterator[Tensor]:
        """Yield each action column, in bandwidths, of the candidates of some rows."""
        for k, column in enumerate(self._sample_actions):
            if self._candidate_actions is not None:
                yield self._candidate_actions[k][rows]
            else:
                indices = self.pattern.indices[rows]
                yield column.index_select(0, indices.reshape(-1)).view_as(indices)

    def _blocks(self) -> Iterator[slice]:
        m, K = self._log_psi.shape
        step = max(_ENTRIES_AT_ONCE // max(K, 1), 1)
        for start in range(0, max(m, 1), step):
            yield slice(start, min(start + step, m))

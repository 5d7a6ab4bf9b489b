"""Query states of the paper's model: their candidates, weights and the derivative by the actions."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from nopg.linalg._replaced_rows import ReplacedRows
from nopg.linalg._rows import SparseRows
from nopg.models._candidate_weights import CandidateWeights
from nopg.models._candidates import CandidateGraph, CandidateSearch, sorted_rows
from nopg.models._model import Backup, Queries
from nopg.models._paper_samples import PaperSamples

# The candidates of replaced rows take at most this many entries, or a quarter of those of all rows.
_MOST_ENTRIES = 1 << 20


class PaperQueries(Queries):
    """Query states with their candidate samples.

    Args:
        model: The model.
        features: The query states, shape (m, d_f).
        graph: Their candidates.
        search: Where a policy needs other candidates.
    """

    def __init__(
        self, model: PaperSamples, features: Tensor, graph: CandidateGraph, search: CandidateSearch
    ) -> None:
        self.model, self.graph, self._search = model, graph, search
        self._places = features  # in float64
        self.features = features.to(model.device, model.dtype)
        self.pattern = model.pattern(graph).to(model.device)
        self.candidates = model.weighted(graph, self.pattern)

    def to(self, model: PaperSamples) -> PaperQueries:
        """Return the same queries of the model in another precision or on another device."""
        if model is self.model:
            return self
        queries = copy.copy(self)
        queries.model, queries.features = model, self._places.to(model.device, model.dtype)
        queries.pattern = self.pattern.to(model.device)
        if model.dtype != self.graph.log_psi.dtype:
            queries.graph = model.with_log_psi(self.graph, self._places)
        queries.candidates = model.weighted(queries.graph, queries.pattern)
        return queries

    def backup(self, actions: Tensor, *, out: Backup | None = None) -> PaperBackup:
        """Return the weights ε under actions (L, m, d_a): the mean of the ratios over the samples."""
        scaled, old = self.model.scale_actions(actions), None if out is None else out.weights
        values = torch.empty_like(self.candidates.log_psi) if old is None else old.values
        unknown, lost = self.candidates.mean(scaled, out=values)
        weights = SparseRows(self.pattern, values, out=old)
        none, others = actions.new_zeros(len(lost)), self._others(scaled, lost)
        if others is None:
            return PaperBackup(weights, unknown, none, lost)
        where, candidates = others
        values = torch.empty_like(candidates.log_psi)
        unknown[where], lost[where] = candidates.mean(scaled[:, where], out=values)
        weights = ReplacedRows(weights, where, SparseRows(candidates.pattern, values))
        return PaperBackup(weights, unknown, none, lost, where, candidates)

    def action_gradient(self, actions: Tensor, backup: Backup, x: Tensor, unknown_value: float) -> Tensor:
        """Return ∂V/∂a = Σⱼ εⱼ (xⱼ − V)(aⱼ − a)/h² for every query and sample, shape (L, m, d_a)."""
        # One sparse product gives Σεx, Σεa and Σεxa; centred values lose no digits.
        assert isinstance(backup, PaperBackup)
        center = float(x.sum()) / len(x)
        x_c, v_c = (x - center)[:, None], unknown_value - center
        a_n = self.model.scaled_actions
        columns = torch.cat([x_c, a_n, x_c * a_n], dim=1)  # (n, 1 + 2 d_a)
        d_a = a_n.shape[1]

        gradient, scaled = torch.empty_like(actions), self.model.scale_actions(actions)
        for sample, action in enumerate(scaled):
            rows, unknown = backup.weights, backup.unknown
            if len(actions) > 1:
                rows, unknown, _ = self._of_one_action(action, backup, sample)
            eps_x, eps_a, eps_xa = rows.apply(columns).split([1, d_a, d_a], dim=1)
            V = eps_x + unknown[:, None] * v_c
            known = 1.0 - unknown[:, None]
            gradient[sample] = eps_xa - V * eps_a - action * (eps_x - V * known)
        return gradient / (self.model.action_widths * len(actions))

    def action_distances(self, actions: Tensor, backup: PaperBackup) -> tuple[Tensor, Tensor, Tensor]:
        """Return what bounds the error of `action_gradient`, each of shape (L, m).

        Bounds on Σ ε‖aⱼ − a‖/h over the candidates, on the same sum over the samples left out, and on the
        share of the weights that these have.
        """
        scaled, a_n = self.model.scale_actions(actions), self.model.scaled_actions
        columns = torch.cat([a_n, a_n.square().sum(dim=1, keepdim=True), torch.ones_like(a_n[:, :1])], dim=1)
        found = []
        for sample, action in enumerate(scaled):
            rows, _, lost = self._of_one_action(action, backup, sample)
            first, second, known = rows.apply(columns).split([a_n.shape[1], 1, 1], dim=1)
            squared = (second + action.square().sum(dim=1, keepdim=True) * known)[:, 0]
            near = (squared - 2.0 * (action * first).sum(dim=1)).clamp(min=0).mul(known[:, 0]).sqrt()
            dropped = self.candidates.dropped(sample)
            if backup.others is not None:
                dropped = dropped.index_copy(0, backup.where, backup.others.dropped(sample))
            found.append((near, self._distance_left_out(dropped, lost), lost))
        near, far, lost = (torch.stack(part) for part in zip(*found, strict=True))
        return near, far, lost

    def _distance_left_out(self, log_dropped: Tensor, lost: Tensor) -> Tensor:
        """Return a bound on Σ ε‖aⱼ − a‖/h (m,) over samples whose mass D is known.

        With p = ψφ ≤ exp(−½‖aⱼ − a‖²/h²) it is at most Σ w p √(−2 log p), a concave function of p, and so by
        Jensen's inequality at most D √(2 log(W/D)), W = Σw, or that at its maximum.
        """
        weights = self.model.data.weights
        total = self.model.num_nodes if weights is None else float(weights.sum())
        log_share = (log_dropped - math.log(total)).clamp(max=0.0)
        shares = log_share.clamp(max=-0.5)
        ratio = torch.exp(shares - log_share) * (-2.0 * shares).sqrt()
        return torch.where(lost > 0, lost / (1.0 - lost) * ratio, 0.0)

    def _of_one_action(
        self, action: Tensor, backup: PaperBackup, sample: int
    ) -> tuple[SparseRows, Tensor, Tensor]:
        """Return weights, unknown and lost shares under one sample (m, d_a) of the actions of a backup."""
        values = torch.empty_like(self.candidates.log_psi)
        unknown, lost = self.candidates.shares(action, out=values, sample=sample)
        weights = SparseRows(self.pattern, values)
        if backup.others is None:
            return weights, unknown, lost
        where, values = backup.where, torch.empty_like(backup.others.log_psi)
        unknown[where], lost[where] = backup.others.shares(action[where], out=values, sample=sample)
        return ReplacedRows(weights, where, SparseRows(backup.others.pattern, values)), unknown, lost

    def _others(self, actions: Tensor, lost: Tensor) -> tuple[Tensor, CandidateWeights] | None:
        """Return the rows that lose too much under scaled actions (L, m, d_a), with other candidates."""
        model, search = self.model, self._search
        with torch.device("cpu"):  # whatever the default device is
            where = search.rows_to_search(lost.cpu())
            if len(where) == 0:
                return None
            there = where.to(model.device)
            states = model.bandwidths.state_kernel.scale(self._places[where]).expand(len(actions), -1, -1)
            queries = torch.cat([states, actions[:, there].double().cpu()], dim=2)
            most = max(self.graph.indices.numel() // 4, _MOST_ENTRIES)
            graph = search.find_for_actions(model.samples_by_action, queries, most_entries=most)
            candidates = self._weighted(graph, where)
            if search.num_kept is not None:
                kept, log_dropped = candidates.restricted(actions[:, there], search.num_kept)
                kept = kept.cpu()
                rows = sorted_rows(graph.indices.gather(1, kept), graph.log_psi.gather(1, kept))
                candidates = self._weighted(
                    CandidateGraph(*rows, log_dropped.cpu(), graph.num_samples), where
                )
        return there, candidates

    def _weighted(self, graph: CandidateGraph, where: Tensor) -> CandidateWeights:
        """Return the candidates of some rows, with ψ computed."""
        model, pattern = self.model, self.model.pattern(graph).to(self.model.device)
        return model.weighted(model.with_log_psi(graph, self._places[where]), pattern)


@dataclass(frozen=True)
class PaperBackup(Backup):
    """The weights of a backup, and the candidates of the rows that are replaced in it.

    Attributes:
        where: The rows that are replaced, shape (r,).
        others: Their candidates; None if no row is replaced.
    """

    where: Tensor = field(default_factory=lambda: torch.arange(0))
    others: CandidateWeights | None = None

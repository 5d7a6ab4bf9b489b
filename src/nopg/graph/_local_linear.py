"""A sharper transition model: local-linear regression places the next state, kernels carry its value.

Nadaraya-Watson answers a query with its neighbours' next states, so the offsets of the neighbours enter as
error. Local-linear regression (Fan 1992; Atkeson, Moore and Schaal 1997) removes that first-order error, but
its weights can be negative, and every certificate rests on weights that are not. So the two steps are split:
signed weights only place a point, non-negative ones interpolate the value there.
"""

from __future__ import annotations

import math

import torch

from nopg.data import Transitions
from nopg.errors import ArgumentError
from nopg.graph._candidates import CandidateGraph, tied_with_the_next
from nopg.graph._local_fit import LocalFit, best_neighborhood, fit_locally, moved
from nopg.graph._model import Backup, Queries, TransitionModel
from nopg.graph._prior_mass import check_prior_mass, known_and_unknown
from nopg.graph._rows import RowPattern, SparseRows
from nopg.kernels import GaussianKernel
from nopg.neighbors import NeighborTree

__all__ = ["LocalLinear"]

_STATES_AT_ONCE = 8_192
_MOST_PROBES = 41


class LocalLinear(TransitionModel):
    """x_z(a) = z + c_z + B_z a and r_z(a), fitted at every query z; P_zk ∝ exp(−½‖(x_z(a) − z_k)/h‖²).

    The nodes are the next states of the data. A node's value is γ times V there, 0 at a terminal one, so in
    the interface of `TransitionModel` the reward on the way is c = 0 and the reward of a query is predicted.

    Args:
        data: The transitions.
        metric: A kernel on state features; distances between states are measured in its bandwidths.
        num_neighbors: Samples that each fit rests on; if not given, what predicts rows best that are left
            out with their duplicates, or with their whole episode where there are episodes.
        ridge: Penalty on slopes, relative to the weight of the samples.
        interpolation: h in units of the metric; half the typical spacing of the nodes if not given.
        num_candidates: Nodes that can carry the value around each place an action may lead to.
        prior_mass: β, against which the mass of the nodes around a predicted state is weighed.
    """

    def __init__(
        self,
        data: Transitions,
        metric: GaussianKernel,
        *,
        num_neighbors: int | None = None,
        ridge: float = 1e-3,
        interpolation: float | None = None,
        num_candidates: int = 16,
        prior_mass: float = 0.0,
    ) -> None:
        for name, value in (("num_neighbors", num_neighbors), ("interpolation", interpolation)):
            if value is not None and not value > 0:
                raise ArgumentError(f"{name} is {value}; give a positive number, or None for the rule")
        if not ridge > 0 or num_candidates < 1:
            raise ArgumentError(f"ridge = {ridge}, num_candidates = {num_candidates}; both must be positive")
        if len(metric.bandwidth) != len(data.schema.features):
            raise ArgumentError(
                f"the metric has {len(metric.bandwidth)} bandwidths, the data have the features "
                f"{list(data.schema.features)}; give one each"
            )
        self.data, self.metric, self.ridge = data, metric, ridge
        self.prior_mass = check_prior_mass(prior_mass)
        self.num_nodes, self.num_actions = data.actions.shape
        self.samples = NeighborTree(metric.scale(data.features))
        self.num_neighbors = min(
            num_neighbors or best_neighborhood(data, metric, self.samples, ridge=ridge), len(data)
        )
        self.num_candidates = min(num_candidates, self.num_nodes)
        self.group_size = 1
        self.node_rewards = torch.zeros(self.num_nodes, dtype=torch.float64)
        self.continues = (~data.terminated).double()

        self.nodes = metric.scale(data.next_features)
        self.node_tree = NeighborTree(self.nodes)
        self.interpolation = interpolation or 0.5 * self._node_spacing()
        self.action_low, self.action_high = data.actions.amin(dim=0), data.actions.amax(dim=0)
        self.node_queries = self.bind(data.next_features)

    def bind(self, features: torch.Tensor) -> LocalLinearQueries:
        """Return queries at any state features (m, d_f)."""
        return LocalLinearQueries(self, features)

    def default_unknown_value(self, discount: float) -> float:
        """Return γ times the worst reward for ever, or 0 if nothing is worse than the end of the task."""
        worst = discount * float(self.data.rewards.min()) / (1.0 - discount)
        return min(worst, 0.0) if bool((self.continues == 0).any()) else worst

    def _node_spacing(self) -> float:
        """Return the median distance from a node to its 2ᵈ-th nearest, in units of the metric."""
        count = min(2 ** len(self.data.schema.states) + 1, self.num_nodes)
        distances, _ = self.node_tree.nearest(self.nodes, count)
        positive = distances[:, -1][distances[:, -1] > 0]
        return float(positive.median()) if len(positive) else 1.0


class LocalLinearQueries(Queries):
    """Query states with their fits and the nodes that can carry their value."""

    def __init__(self, model: LocalLinear, features: torch.Tensor) -> None:
        self.model, self.features = model, features
        parts = [self._fit(rows) for rows in features.split(_STATES_AT_ONCE)]
        self.fit = LocalFit(
            torch.cat([part.shift for part in parts]), torch.cat([part.slope for part in parts])
        )
        self.graph = self._candidates()
        self.pattern = RowPattern(self.graph.indices, model.num_nodes, self.graph.present)
        self._indices = self.graph.indices.long()  # (m, K)
        self._nodes = model.nodes[self._indices]  # (m, K, d_f)

    def backup(self, actions: torch.Tensor) -> Backup:
        """Return weights, unknown mass and predicted reward under actions (L, m, d_a)."""
        L, m, _ = actions.shape
        weights, unknown = torch.zeros_like(self.graph.log_psi), actions.new_zeros(m)
        reward = actions.new_zeros(m)
        for sample in actions:
            predicted = self.fit.at(sample)
            eps, mass = self._weights(self._moved(predicted[:, :-1]))
            weights += eps / L
            unknown += mass / L
            reward += predicted[:, -1] / L
        return Backup(SparseRows(self.pattern, weights), unknown, reward)

    def action_gradient(
        self, actions: torch.Tensor, backup: Backup, x: torch.Tensor, unknown_value: float
    ) -> torch.Tensor:
        """Return ∂V/∂a = ∂r/∂a + Σₖ Pₖ (xₖ − V)(zₖ − x(a))/h² ∂x/∂a, shape (L, m, d_a)."""
        gradient = torch.empty_like(actions)
        x_k = x[self._indices]  # (m, K)
        for sample, action in enumerate(actions):
            displacement = self.fit.at(action)[:, :-1]
            place = self._moved(displacement)
            eps, unknown = backup.weights.values, backup.unknown
            if len(actions) > 1:
                eps, unknown = self._weights(place)
            V = (eps * x_k).sum(dim=1) + unknown * unknown_value
            pull = torch.einsum("mk,mkf->mf", eps * (x_k - V[:, None]), self._nodes - place[:, None])
            by_state = self._pulled_back(displacement, pull / self.model.interpolation**2)  # (m, d_s)
            gradient[sample] = self.fit.slope[:, -1] + torch.einsum(
                "ms,msa->ma", by_state, self.fit.slope[:, :-1]
            )
        return gradient / len(actions)

    def support(self) -> torch.Tensor:
        """Return Σⱼ exp(−½ d²) over the samples of the fit, d in bandwidths of the metric, shape (m,)."""
        distances, _ = self.model.samples.nearest(
            self.model.metric.scale(self.features), self.model.num_neighbors
        )
        return (-0.5 * distances.square()).exp().sum(dim=1)

    def _fit(self, features: torch.Tensor) -> LocalFit:
        model = self.model
        distances, near = model.samples.nearest(model.metric.scale(features), model.num_neighbors)
        return fit_locally(model.data, model.metric, features, near.long(), distances, ridge=model.ridge)

    def _weights(self, place: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the weights (m, K) of the candidates and the unknown mass (m,) at places in the metric."""
        if not bool(place.isfinite().all()):
            raise ArgumentError(
                "predicted states are NaN or infinite; look at the parameters of the policy, "
                "or at rows that lie far from all others"
            )
        squared = ((self._nodes - place[:, None]) / self.model.interpolation).square().sum(dim=2)
        logits = self.graph.log_psi - 0.5 * squared  # log ψ is 0 at a candidate and −∞ at padding
        known, unknown = known_and_unknown(torch.logsumexp(logits, dim=1), self.model.prior_mass)
        return torch.softmax(logits, dim=1) * known[:, None], unknown

    def _moved(self, displacement: torch.Tensor) -> torch.Tensor:
        """Return the features, in units of the metric, of the queries moved by raw displacements (m, d_s)."""
        return self.model.metric.scale(moved(self.model.data.schema, self.features, displacement))

    def _pulled_back(self, displacement: torch.Tensor, by_place: torch.Tensor) -> torch.Tensor:
        """Return derivatives by the raw displacement (m, d_s) from those by the place (m, d_f)."""
        displacement = displacement.detach().requires_grad_()
        (derivative,) = torch.autograd.grad(self._moved(displacement), displacement, by_place)
        return derivative

    def _candidates(self) -> CandidateGraph:
        """Find the nodes nearest to where the actions can lead, no gap between one search and the next."""
        model, m = self.model, len(self.features)
        found = []
        for action in self._probes():
            place = self._moved(self.fit.at(action.expand(m, -1))[:, :-1])
            distances, indices = model.node_tree.nearest(place, model.num_candidates + 1)
            if indices.shape[1] > model.num_candidates:
                # A tie for the last place is left out, lest the order of the rows decide it.
                tied = tied_with_the_next(distances.square())
                indices = torch.where(tied, indices[:, :1], indices[:, :-1])
            found.append(indices)
        indices = torch.cat(found, dim=1).sort(dim=1).values
        repeated = torch.zeros_like(indices, dtype=torch.bool)
        repeated[:, 1:] = indices[:, 1:] == indices[:, :-1]

        # Repeats last, then cut where every row has come to its repeats.
        order = repeated.to(torch.int8).argsort(dim=1, stable=True)[:, : int((~repeated).sum(dim=1).max())]
        repeated, indices = repeated.gather(1, order), indices.gather(1, order)
        indices, order = torch.where(repeated, indices[:, :1], indices).sort(dim=1, stable=True)
        log_psi = torch.zeros(indices.shape, dtype=torch.float64)
        log_psi = log_psi.masked_fill(repeated.gather(1, order), -math.inf)
        unbounded = torch.full((m,), math.nan, dtype=torch.float64)
        return CandidateGraph(indices.contiguous(), log_psi, unbounded, model.num_nodes)

    def _probes(self) -> torch.Tensor:
        """Return the actions (p, d_a) around whose outcomes nodes are sought: a lattice over all actions.

        Neighbouring outcomes are at most about two interpolation bandwidths apart, for all but one query
        in a hundred.
        """
        low, high = self.model.action_low, self.model.action_high
        m, axes = len(self.features), []
        middle = self._moved(self.fit.at(((low + high) / 2).expand(m, -1))[:, :-1])
        for k in range(self.model.num_actions):
            end = (low + high) / 2
            end[k] = high[k]
            reach = (self._moved(self.fit.at(end.expand(m, -1))[:, :-1]) - middle).square().sum(dim=1).sqrt()
            steps = math.ceil(float(torch.quantile(reach, 0.99)) / (2.0 * self.model.interpolation))
            count = min(2 * max(steps, 1) + 1, _MOST_PROBES)
            axes.append(torch.linspace(0.0, 1.0, count, dtype=torch.float64) * (high[k] - low[k]) + low[k])
        return torch.cartesian_prod(*axes).reshape(-1, self.model.num_actions)

"""The paper's transition model: Nadaraya-Watson regression (`definition:npbe`)."""

from __future__ import annotations

import math

import torch

from nopg.data import Transitions
from nopg.errors import ArgumentError
from nopg.graph._candidates import CandidateGraph, CandidateSearch
from nopg.graph._integration import IntegrationRule, KernelMean
from nopg.graph._model import Backup, Queries, TransitionModel
from nopg.graph._prior_mass import check_prior_mass, known_and_unknown
from nopg.graph._rows import RowPattern, SparseRows
from nopg.kernels import Bandwidths
from nopg.neighbors import NeighborTree

__all__ = ["NadarayaWatson"]


class NadarayaWatson(TransitionModel):
    """εⱼ(s, a) = ψ(s, sⱼ) φ(a, aⱼ) / (β + Σₖ ψ(s, sₖ) φ(a, aₖ)), m = β / (β + Σ …).

    The nodes are the samples: qⱼ = rⱼ + γ V(s′ⱼ). With β = 0, the paper's choice, the weights always
    sum to 1 and a query far from all data is answered by the nearest sample; with β > 0 the mass that
    the data cannot account for goes to an unknown state. Kernels have peak 1, so β counts samples.

    Args:
        data: The transitions.
        bandwidths: Of the kernels on states, actions and next states.
        prior_mass: β.
        integration: How ∫ϕᵢ(s′) … ds′ is computed; the paper's default is the mean of the kernel.
        search: How candidates are found.
    """

    node_queries: NadarayaWatsonQueries

    def __init__(
        self,
        data: Transitions,
        bandwidths: Bandwidths,
        *,
        prior_mass: float = 0.0,
        integration: IntegrationRule | None = None,
        search: CandidateSearch | None = None,
    ) -> None:
        _check_sizes(data, bandwidths)
        self.data, self.bandwidths, self.prior_mass = data, bandwidths, check_prior_mass(prior_mass)
        self.integration = integration or KernelMean()
        self.search = search or CandidateSearch()

        self.num_nodes, self.num_actions = data.actions.shape
        self.group_size = self.integration.num_samples
        self.node_rewards = data.rewards
        self.continues = (~data.terminated).double()

        # Actions enter the gradient as products; from their mean they lose no digits to an offset.
        self.action_origin = data.actions.mean(dim=0)
        self.scaled_actions = bandwidths.action_kernel.scale(data.actions - self.action_origin)  # (n, d_a)
        if not bool(self.scaled_actions.square().sum(dim=1).isfinite().all()):
            raise ArgumentError(
                f"bandwidths.actions is {bandwidths.actions.tolist()}: the actions lie over 1e150 bandwidths "
                "apart, beyond what numbers can hold; give a wider one"
            )
        self._tree = NeighborTree(bandwidths.state_kernel.scale(data.features))
        points = self.integration.points(data.next_states, self._next_state_spread())
        self.node_queries = self.bind(data.schema.encode(points))

    def bind(self, features: torch.Tensor) -> NadarayaWatsonQueries:
        """Return queries at any state features (m, d_f)."""
        graph = self.search.find(self._tree, self.bandwidths.state_kernel, features)
        return NadarayaWatsonQueries(self, features, graph)

    def default_unknown_value(self, discount: float) -> float:
        """Return the worst reward for ever, or once where the task can end and that is worse."""
        worst = float(self.node_rewards.min())
        for_ever = worst / (1.0 - discount)
        return min(worst, for_ever) if bool((self.continues == 0).any()) else for_ever

    def _next_state_spread(self) -> torch.Tensor:
        """Return h_ϕ per raw state column; a feature of an angle moves by one radian of its period."""
        schema, h = self.data.schema, self.bandwidths.next_states
        spread = torch.empty(len(schema.states), dtype=torch.float64)
        for feature, column in enumerate(schema.feature_columns):
            period = schema.angles.get(schema.states[column], 2 * math.pi)
            spread[column] = h[feature] * period / (2 * math.pi)
        return spread


class NadarayaWatsonQueries(Queries):
    """Query states with their candidates and the actions of these."""

    def __init__(self, model: NadarayaWatson, features: torch.Tensor, graph: CandidateGraph) -> None:
        self.model, self.features, self.graph = model, features, graph
        self.pattern = RowPattern(graph.indices, graph.num_samples, graph.present)

        # aⱼ in units of h, gathered once for all updates.
        flat = graph.indices.view(-1)
        self._candidate_actions = [
            column.index_select(0, flat).view_as(graph.log_psi) for column in model.scaled_actions.T
        ]  # d_a × (m, K)

    def backup(self, actions: torch.Tensor) -> Backup:
        """Return the responsibilities under actions (L, m, d_a): the mean of the ratios over the samples."""
        # The ratio of the means, as in the authors' code, would be another estimator.
        L, m, _ = actions.shape
        weights, unknown = self._responsibilities(actions[0])
        for sample in actions[1:]:
            eps, mass = self._responsibilities(sample)
            weights += eps
            unknown += mass
        if L > 1:
            weights /= L
            unknown /= L
        return Backup(SparseRows(self.pattern, weights), unknown, actions.new_zeros(m))

    def action_gradient(
        self, actions: torch.Tensor, backup: Backup, x: torch.Tensor, unknown_value: float
    ) -> torch.Tensor:
        """Return ∂V/∂a = Σⱼ εⱼ (xⱼ − V)(aⱼ − a)/h² for every query and sample, shape (L, m, d_a)."""
        # One sparse product gives Σε, Σεx, Σεa and Σεxa; centred values lose no digits to an offset.
        center = float(x.mean())
        x_c, v_c = (x - center)[:, None], unknown_value - center
        a_n = self.model.scaled_actions
        columns = torch.cat([torch.ones_like(x_c), x_c, a_n, x_c * a_n], dim=1)  # (n, 2 + 2 d_a)
        d_a = a_n.shape[1]

        gradient = torch.empty_like(actions)
        for sample, action in enumerate(actions):
            rows, unknown = backup.weights, backup.unknown
            if len(actions) > 1:
                eps, unknown = self._responsibilities(action)
                rows = SparseRows(self.pattern, eps)
            mass, eps_x, eps_a, eps_xa = rows.apply(columns).split([1, 1, d_a, d_a], dim=1)
            V = eps_x + unknown[:, None] * v_c
            a = self._scaled(action)
            gradient[sample] = eps_xa - V * eps_a - a * (eps_x - V * mass)
        return gradient / (self.model.bandwidths.actions * len(actions))

    def support(self) -> torch.Tensor:
        """Return Σⱼ ψ(s, sⱼ): how many samples' worth of data stand at each query, shape (m,)."""
        return self.graph.log_psi.exp().sum(dim=1)

    def _scaled(self, actions: torch.Tensor) -> torch.Tensor:
        return self.model.bandwidths.action_kernel.scale(actions - self.model.action_origin)

    def _responsibilities(self, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return ε (m, K) and m (m,) for one action per query (m, d_a)."""
        a = self._scaled(actions)
        logits = self.graph.log_psi
        for k, column in enumerate(self._candidate_actions):
            offset = column - a[:, k, None]
            logits = torch.addcmul(logits, offset, offset, value=-0.5)

        highest = logits.amax(dim=1, keepdim=True)
        if not bool(highest.isfinite().all()):
            wrong = int((~highest.isfinite()).sum())
            raise ArgumentError(
                f"{wrong} of {len(actions)} actions are NaN, infinite or over 1e150 bandwidths away from the "
                "data; look at the parameters of the policy"
            )
        eps = logits.sub_(highest).exp_()
        total = eps.sum(dim=1)
        known, unknown = known_and_unknown(total.log() + highest[:, 0], self.model.prior_mass)
        return eps.mul_((known / total)[:, None]), unknown


def _check_sizes(data: Transitions, bandwidths: Bandwidths) -> None:
    for name, h, columns in (
        ("states", bandwidths.states, data.schema.features),
        ("actions", bandwidths.actions, data.schema.actions),
        ("next_states", bandwidths.next_states, data.schema.features),
    ):
        if len(h) != len(columns):
            raise ArgumentError(
                f"bandwidths.{name} has {len(h)} numbers, the data have {len(columns)} columns there: "
                f"{list(columns)}; give one each"
            )

"""A sharper transition model: local-linear regression places the next state, centred weights carry its value.

Nadaraya-Watson answers a query with its neighbours' next states, so the offsets of the neighbours enter as
error. Local-linear regression (Fan 1992; Atkeson, Moore and Schaal 1997) removes that first-order error, but
its weights can be negative, and every certificate rests on weights that are not. So the two steps are split:
signed weights only place a point, non-negative ones interpolate the value there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import torch

from nopg.data import Transitions
from nopg.errors import ArgumentError, DataError
from nopg.graph._candidates import CandidateGraph, tied_with_the_next
from nopg.graph._cover import uncovered
from nopg.graph._interpolation import centered_weights, slope_of_mean
from nopg.graph._local_dynamics import LocalDynamics
from nopg.graph._local_fit import FitShape, LocalFit, raw_states
from nopg.graph._model import Backup, Queries, TransitionModel
from nopg.graph._rows import RowPattern, SparseRows
from nopg.kernels import GaussianKernel
from nopg.neighbors import neighbor_search

__all__ = ["LocalLinear"]

# Of a lattice along one action, and of the whole where more than three along each make it so.
_MOST_PROBES, _LARGEST_LATTICE, _MOST_WIDER = 41, 128, 16
# Of so many samples of the actions the weights are kept from answer to gradient.
_SAMPLES_KEPT = 4
# In spacings of the next states: the bandwidth of the interpolation, and how far from all of them a place
# must lie to become a node.
_INTERPOLATION, _COVER = 0.35, 1.0


class LocalLinear(LocalDynamics, TransitionModel):
    """x_z(a) = z + c_z + B_z a and r_z(a), fitted at every query z; V there by centred weights on the nodes.

    The nodes are the next states of the data, and places one step away that no sample covers. A node's value
    is γ times V there, 0 at a terminal one, so in the interface of `TransitionModel` the reward on the way is
    c = 0 and the reward of a query is predicted. A query that few samples stand at is unknown to the share
    m = β/(β + S), S being its support.

    Args:
        data: The transitions.
        metric: A kernel on state features; distances between states are measured in its bandwidths.
        shape: Of the local fits; by default what predicts held-out rows best.
        interpolation: h in units of the metric; .35 of the typical spacing of the nodes if not given.
        slack: ρ, how far weights may be off centre; see `centered_weights`.
        num_candidates: Nodes that can carry the value around each place an action may lead to.
        prior_mass: β; by default from the rule of `StateSupport.prior_mass`.
        cover: Whether places one step away that no sample covers become nodes.
        hold: Steps that an action lasts. The value then is that of decisions so many steps apart, the
            discount of the equation γ to the power of `hold`.
        discount: γ of one step, for the rewards while an action is held.
    """

    def __init__(
        self,
        data: Transitions,
        metric: GaussianKernel,
        *,
        shape: FitShape | None = None,
        interpolation: float | None = None,
        slack: float = 1e-2,
        num_candidates: int = 16,
        prior_mass: float | None = None,
        cover: bool = True,
        hold: int = 1,
        discount: float = 1.0,
    ) -> None:
        if interpolation is not None and not interpolation > 0:
            raise ArgumentError(f"interpolation is {interpolation}; give a positive number, or None")
        if not slack > 0 or num_candidates < 1:
            raise ArgumentError(f"slack = {slack}, num_candidates = {num_candidates}; both must be positive")
        super().__init__(data, metric, shape=shape, prior_mass=prior_mass, hold=hold, discount=discount)
        self.slack, self.cover = slack, cover
        self.num_actions, self.num_candidates, self.group_size = data.actions.shape[1], num_candidates, 1
        self.action_low, self.action_high = data.actions.amin(dim=0), data.actions.amax(dim=0)
        spacing = self.state_support.spacing
        self.interpolation = interpolation or _INTERPOLATION * spacing

        fit, extra = self.fit_at(data.next_features), data.next_features[:0]
        if cover:
            extra = self._uncovered_places(fit, _COVER * spacing)
            fit = LocalFit.joined([fit, self.fit_at(extra)]) if len(extra) else fit
        self.node_features = torch.cat([data.next_features, extra])
        self.node_states = raw_states(data.schema, self.node_features)
        self.periods = [data.schema.angles.get(name) for name in data.schema.states]
        self.num_nodes = len(self.node_features)
        self.node_rewards = torch.zeros(self.num_nodes, dtype=torch.float64)
        self.continues = torch.cat([(~data.terminated).double(), 1.0 - self.ended_share(extra)])
        self.node_tree = neighbor_search(metric.scale(self.node_features))
        self.node_queries = LocalLinearQueries(self, self.node_features, fit)

    @property
    def node_places(self) -> torch.Tensor:
        """The nodes in units of the metric, shape (n, d_f)."""
        return self.metric.scale(self.node_features)

    def bind(self, features: torch.Tensor) -> LocalLinearQueries:
        """Return queries at any state features (m, d_f)."""
        return LocalLinearQueries(self, features, self.fit_at(features))

    def default_unknown_value(self, discount: float) -> float:
        """Return the worst reward for ever, or 0 if nothing is worse than the end of the task."""
        worst = self.reward_low / (1.0 - discount)
        return min(worst, 0.0) if bool(self.data.terminated.any()) else worst

    def holding(self, steps: int, discount: float) -> LocalLinear:
        """Return this model with actions that last so many steps; γ is that of one step."""
        return self._again(self.data, hold=steps, discount=discount)

    def earning(self, rewards: torch.Tensor) -> LocalLinear:
        """Return this model with other rewards (n,) on the rows of its data."""
        return self._again(replace(self.data, rewards=rewards), hold=self.hold, discount=self.discount)

    def _again(self, data: Transitions, *, hold: int, discount: float) -> LocalLinear:
        """Return this model, built anew with what may differ."""
        return LocalLinear(
            data,
            self.metric,
            shape=self.shape,
            interpolation=self.interpolation,
            slack=self.slack,
            num_candidates=self.num_candidates,
            prior_mass=self.prior_mass,
            cover=self.cover,
            hold=hold,
            discount=discount,
        )

    def _uncovered_places(self, fit: LocalFit, radius: float) -> torch.Tensor:
        """Return features of the places that the ends and the middle of the actions lead to, if uncovered."""
        nodes, low, high = self.data.next_features, self.action_low, self.action_high
        corners = torch.cartesian_prod(*torch.stack([low, (low + high) / 2, high], dim=1))
        actions = corners.reshape(-1, self.num_actions)
        places = torch.cat([self.outcomes(nodes, fit, a.expand(len(nodes), -1)) for a in actions])
        chosen = uncovered(
            self.metric.scale(places), self.metric.scale(nodes), radius=radius, most=len(nodes)
        )
        return places[chosen]


class LocalLinearQueries(Queries):
    """Query states with their fits and the nodes that can carry their value."""

    def __init__(self, model: LocalLinear, features: torch.Tensor, fit: LocalFit) -> None:
        self.model, self.features, self.fit = model, features, fit
        # The residual of the fit widens the interpolation: a noisy plant spreads over the nodes around.
        self.widths = ((model.interpolation * model.units).square() + fit.variance).sqrt()  # (m, d_s)
        self.known, self.unknown = model.state_support.split(features, model.prior_mass)
        self.graph = self._candidates()
        self.pattern = RowPattern(self.graph.indices, model.num_nodes, self.graph.present)
        self._indices = self.graph.indices.long()  # (m, K)
        self._states = raw_states(model.data.schema, features)  # (m, d_s)
        self._nodes = [column[self._indices] for column in model.node_states.unbind(1)]  # d_s times (m, K)
        self._tilts: dict[int, torch.Tensor] = {}  # of the last actions, by sample
        self._last: tuple[Backup, list[torch.Tensor]] | None = None  # with the weights of each sample

    def backup(self, actions: torch.Tensor, *, instead_of: Backup | None = None) -> Backup:
        """Return weights, unknown mass and predicted reward under actions (L, m, d_a)."""
        weights, reward = torch.zeros_like(self.graph.log_psi), torch.zeros_like(self.known)
        kept = []
        for sample, action in enumerate(actions):
            step, _ = self.model.displacements(self.features, self.fit, action)
            P = self._centered(self._offsets(step), sample)
            weights += P
            reward += self.model.rewards(self.fit, action)
            if len(actions) <= _SAMPLES_KEPT:
                kept.append(P)
        weights *= self.known[:, None] / len(actions)
        answer = Backup(SparseRows(self.pattern, weights), self.unknown, reward * self.known / len(actions))
        self._last = (answer, kept)
        return answer

    def action_gradient(
        self, actions: torch.Tensor, backup: Backup, x: torch.Tensor, unknown_value: float
    ) -> torch.Tensor:
        """Return ∂V/∂a = (1 − m)(∂r/∂a + ∂(Σ Pₖxₖ)/∂place · ∂place/∂a), shape (L, m, d_a)."""
        gradient, model = torch.empty_like(actions), self.model
        x_k = x[self._indices]  # (m, K)
        kept = self._last[1] if self._last is not None and self._last[0] is backup else []
        for sample, action in enumerate(actions):
            step, free = model.displacements(self.features, self.fit, action)
            away = self._offsets(step)
            P = kept[sample] if kept else self._centered(away, sample)
            by_place = slope_of_mean(away, P, x_k, model.slack) / self.widths * free  # (m, d_s)

            reward, slope = self.fit.at(action)[:, -1], self.fit.slope_at(action)
            inside = ((reward > model.reward_low) & (reward < model.reward_high)).double()
            gradient[sample] = inside[:, None] * slope[:, -1] + torch.einsum(
                "ms,msa->ma", by_place, slope[:, :-1]
            )
        return gradient * self.known[:, None] / len(actions)

    def _centered(self, away: torch.Tensor, sample: int) -> torch.Tensor:
        """Return the weights (m, K) for offsets (m, K, d_s) of one sample of the actions.

        The tilt is sought from that of the sample's last actions, which are near; it is solved to rounding
        each time, so where it starts does not show.
        """
        weights, self._tilts[sample] = centered_weights(
            away, self.graph.log_psi, self.model.slack, self._tilts.get(sample)
        )
        return weights

    def memory(self) -> dict[str, torch.Tensor]:
        """Return the tilts of the last actions, by sample."""
        return {f"tilt.{sample}": tilt for sample, tilt in self._tilts.items()}

    def remember(self, memory: Mapping[str, torch.Tensor]) -> None:
        """Seek the next tilts from these; see `Queries.remember`."""
        shape = (len(self.features), len(self.model.data.schema.states))
        for name, tilt in memory.items():
            if tilt.shape != shape:
                raise DataError(f"{name} has shape {tuple(tilt.shape)}; these queries have {shape}")
        self._tilts = {int(name.removeprefix("tilt.")): tilt.clone() for name, tilt in memory.items()}
        self._last = None

    def support(self) -> torch.Tensor:
        """Return S, how many samples' worth of data stand at each query, shape (m,)."""
        return self.model.state_support.log_mass(self.features).exp()

    def _offsets(self, step: torch.Tensor) -> torch.Tensor:
        """Return the offsets (m, K, d_s) of the candidates from where a step (m, d_s) leads, in widths."""
        columns = []
        for k, (nodes, period) in enumerate(zip(self._nodes, self.model.periods, strict=True)):
            away = nodes - (self._states[:, k] + step[:, k])[:, None]
            if period is not None:
                away -= period * (away / period).round()
            columns.append(away / self.widths[:, k, None])
        return torch.stack(columns).movedim(0, 2)  # column by column in memory

    def _candidates(self) -> CandidateGraph:
        """Find the nodes nearest to where the actions can lead, no gap between one search and the next."""
        model, m = self.model, len(self.features)
        # Where residuals widen the weights, as many more nodes as the wider kernel holds.
        wider = (self.widths / (model.interpolation * model.units)).prod(dim=1)
        wider = wider.median().round().clamp(1, _MOST_WIDER) if m else torch.ones(())
        count = min(model.num_candidates * int(wider), model.num_nodes)
        found = []
        for action in self._probes():
            place = model.outcomes(self.features, self.fit, action.expand(m, -1))
            distances, indices = model.node_tree.nearest(model.metric.scale(place), count + 1)
            if indices.shape[1] > count:
                # A tie for the last place is left out, lest the order of the rows decide it.
                tied = tied_with_the_next(distances.square())
                indices = torch.where(tied, indices[:, :1], indices[:, :-1])
            found.append(indices)
        indices = torch.cat(found, dim=1).sort(dim=1).values
        repeated = torch.zeros_like(indices, dtype=torch.bool)
        repeated[:, 1:] = indices[:, 1:] == indices[:, :-1]

        # Repeats last, then cut where every row has come to its repeats.
        longest = int((~repeated).sum(dim=1).max()) if m else 0
        order = repeated.to(torch.int8).argsort(dim=1, stable=True)[:, :longest]
        repeated, indices = repeated.gather(1, order), indices.gather(1, order)
        indices, order = torch.where(repeated, indices[:, :1], indices).sort(dim=1, stable=True)
        log_psi = torch.zeros(indices.shape, dtype=torch.float64)
        log_psi = log_psi.masked_fill(repeated.gather(1, order), -math.inf)
        unbounded = torch.full((m,), math.nan, dtype=torch.float64)
        return CandidateGraph(indices.contiguous(), log_psi, unbounded, model.num_nodes)

    def _probes(self) -> torch.Tensor:
        """Return the actions (p, d_a) around whose outcomes nodes are sought: a lattice over all actions.

        Neighbouring outcomes are at most about two spacings of the interpolation apart, for all but one query
        in a hundred. Where that takes too large a lattice, because a few wild rows span the range, half of
        each axis follows the actions that were taken.
        """
        model, m = self.model, len(self.features)
        low, high = model.action_low, model.action_high
        middle, counts = (low + high) / 2, []
        center = model.metric.scale(model.outcomes(self.features, self.fit, middle.expand(m, -1)))
        for k in range(model.num_actions):
            end = middle.clone()
            end[k] = high[k]
            reached = model.metric.scale(model.outcomes(self.features, self.fit, end.expand(m, -1)))
            reach = torch.quantile((reached - center).square().sum(dim=1).sqrt(), 0.99)
            steps = math.ceil(float(reach) / (2.0 * model.interpolation))
            counts.append(min(2 * max(steps, 1) + 1, _MOST_PROBES))

        fitting = _shrunk(counts, _LARGEST_LATTICE)
        axes = [
            _axis(model.data.actions[:, k], count, by_rank=fitting != counts)
            for k, count in enumerate(fitting)
        ]
        return torch.cartesian_prod(*axes).reshape(-1, model.num_actions)


def _shrunk(counts: list[int], most: int) -> list[int]:
    """Return the sizes of a lattice of at most so many points, the largest shortened first, none below 3."""
    sizes = list(counts)
    while math.prod(sizes) > most and max(sizes) > 3:
        sizes[sizes.index(max(sizes))] -= 1
    return sizes


def _axis(column: torch.Tensor, count: int, *, by_rank: bool) -> torch.Tensor:
    """Return so many values of an action between its ends: evenly spaced, or half of them evenly ranked."""
    low, high = column.amin(), column.amax()
    ranked = count // 2 if by_rank else 0
    even = torch.linspace(0.0, 1.0, count - ranked, dtype=torch.float64) * (high - low) + low
    if not ranked:
        return even
    rows = ((torch.arange(ranked) + 0.5) / ranked * len(column)).long()
    return torch.cat([even, column.sort().values[rows]]).sort().values

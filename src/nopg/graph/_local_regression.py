"""Local polynomials in state and action together: what one step does at any (s, a), and what is missed."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch

from nopg.data import Transitions, held_out_groups, spread_rows
from nopg.graph._local_fit import offsets, raw_units, sample_weights
from nopg.kernels import Bandwidths
from nopg.neighbors import neighbor_search

__all__ = ["LocalRegression", "RegressionShape", "StepEstimate", "Subsets"]

# What is tried: samples per coefficient, ridges, degrees.
_SIZES, _RIDGES, _DEGREES = (1.5, 2, 3, 4, 6, 9, 14, 20, 30), (1e-6, 1e-4, 1e-2), (1, 2)
_ROWS_SAMPLED = 400
# More would cost more time than they gain.
_MOST_NEIGHBORS = 100
# Of its own group a held-out row is looked past so many.
_MOST_OF_A_GROUP = 1_000
# An error so near the least, or so near nothing, is as good; then the cheapest is taken.
_NEAR_LEAST, _NEXT_TO_NOTHING = 1.05, 1e-8
# A target that varies by less than this share of its size varies by rounding.
_ROUNDING = 1e-9
# So many times as many neighbours are looked at, so that half of them are of the query's own half.
_SUBSET_REACH = 2.6
_QUERIES_AT_ONCE = 1_024
# Among so few all distances are computed sooner than a tree is searched.
_FEW_SAMPLES = 4_096
_LARGEST_CORRECTION = 10.0


@dataclass(frozen=True, slots=True)
class Subsets:
    """Parts of the samples, and which of them each query is answered from.

    Attributes:
        kept: Whether a part holds a sample, shape (B, n).
        part: The part of each query, shape (m,).
    """

    kept: torch.Tensor
    part: torch.Tensor


@dataclass(frozen=True, slots=True)
class RegressionShape:
    """What a local polynomial looks like.

    Attributes:
        num_neighbors: Samples that it rests on.
        ridge: Penalty on all coefficients but the level, relative to the weight of the samples.
        degree: 1 or 2; of degree 2 all products of two columns are regressors.
    """

    num_neighbors: int
    ridge: float
    degree: int


@dataclass(frozen=True, slots=True)
class StepEstimate:
    """What one step does at some (s, a).

    Attributes:
        displacement: Raw, shape (m, d_s).
        reward: Shape (m,).
        missed: By how much the plant may miss the displacement: a residual of one of the samples, (m, d_s).
        leverage: Σⱼ lⱼ² with l the weights of the samples in the prediction: 1/K amid the data, more at their
            edge; shape (m,).
    """

    displacement: torch.Tensor
    reward: torch.Tensor
    missed: torch.Tensor
    leverage: torch.Tensor


class LocalRegression:
    """s′ − s and r at any (s, a) by weighted least squares over the nearest samples in state and action.

    Displacement and reward have a shape each, the one that predicts held-out rows best: a plant may be noisy
    and straight where its reward is exact and curved.

    Args:
        data: The samples.
        bandwidths: The units of states and actions.
    """

    def __init__(self, data: Transitions, bandwidths: Bandwidths) -> None:
        self.data = data
        schema = data.schema
        self._units = raw_units(schema, bandwidths.state_kernel)
        self._states, self._actions = bandwidths.state_kernel, bandwidths.action_kernel
        self._features = data.features
        self._steps = offsets(schema, self._features, data.next_features)
        self._samples = self._places(self._features, data.actions)
        self._tree = neighbor_search(self._samples)
        self.step_shape, self.reward_shape = self._shapes()

    def at(
        self,
        features: torch.Tensor,
        actions: torch.Tensor,
        *,
        subsets: Subsets | None = None,
        pick: torch.Tensor | None = None,
    ) -> StepEstimate:
        """Return the estimates at state features (m, d_f) and actions (m, d_a).

        Args:
            features: The states.
            actions: The actions.
            subsets: Of the samples, if every query has its own.
            pick: Numbers in [0, 1) that pick the residual of each query, shape (m,); without them it is 0.
        """
        parts = []
        for rows in torch.arange(len(features)).split(_QUERIES_AT_ONCE):
            mine = None if subsets is None else Subsets(subsets.kept, subsets.part[rows])
            parts.append(
                self._some(features[rows], actions[rows], mine, None if pick is None else pick[rows])
            )
        names = StepEstimate.__slots__
        return StepEstimate(*(torch.cat([getattr(part, name) for part in parts]) for name in names))

    def _some(
        self,
        features: torch.Tensor,
        actions: torch.Tensor,
        subsets: Subsets | None,
        pick: torch.Tensor | None,
    ) -> StepEstimate:
        most = max(self.step_shape.num_neighbors, self.reward_shape.num_neighbors)
        distances, near = self._nearest(self._places(features, actions), most, subsets)
        away = self._away(features, actions, near)
        K = self.step_shape.num_neighbors
        level, missed, leverage = _fit(
            away[:, :K], self._steps[near[:, :K]], distances[:, :K], self.step_shape, pick
        )
        K = self.reward_shape.num_neighbors
        targets = self.data.rewards[near[:, :K]][:, :, None]
        reward, _, _ = _fit(away[:, :K], targets, distances[:, :K], self.reward_shape, None)
        return StepEstimate(level, reward[:, 0], missed, leverage)

    def _nearest(
        self, places: torch.Tensor, count: int, subsets: Subsets | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return distances and numbers (m, K) of the nearest samples, infinite where a part has no more."""
        if len(self.data) <= _FEW_SAMPLES:
            distances = torch.cdist(places, self._samples)
            if subsets is not None:
                distances = distances.masked_fill(~subsets.kept[subsets.part], math.inf)
            return distances.topk(min(count, len(self.data)), dim=1, largest=False)
        if subsets is None:
            distances, near = self._tree.nearest(places, count)
            return distances, near.long()
        reach = min(math.ceil(_SUBSET_REACH * count), len(self.data))
        distances, near = self._tree.nearest(places, reach)
        own = subsets.kept[subsets.part[:, None], near.long()]
        distances, order = distances.masked_fill(~own, math.inf).sort(dim=1, stable=True)
        return distances[:, :count], near.long().gather(1, order)[:, :count]

    def _places(self, features: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        return torch.cat([self._states.scale(features), self._actions.scale(actions)], dim=1)

    def _away(self, features: torch.Tensor, actions: torch.Tensor, near: torch.Tensor) -> torch.Tensor:
        """Return the offsets (m, K, d_s + d_a) of samples from their query, in bandwidths."""
        states = offsets(self.data.schema, features[:, None], self._features[near]) / self._units
        return torch.cat([states, self._actions.scale(self.data.actions[near] - actions[:, None])], dim=2)

    def _shapes(self) -> tuple[RegressionShape, RegressionShape]:
        """Return the shapes that predict held-out displacements, and held-out rewards, best."""
        data = self.data
        groups = held_out_groups(data)
        columns = data.states.shape[1] + data.actions.shape[1]
        longest = min(
            int(torch.unique(groups, return_counts=True)[1].max()), len(data) // 2, _MOST_OF_A_GROUP
        )
        shapes = sorted(
            (
                RegressionShape(math.ceil(size * _num_coefficients(columns, degree)), ridge, degree)
                for size, ridge, degree in itertools.product(_SIZES, _RIDGES, _DEGREES)
            ),
            key=lambda shape: (shape.num_neighbors * _num_coefficients(columns, shape.degree), -shape.ridge),
        )
        # A half of the data must hold as many.
        largest = min((len(data) - longest) // 2, _MOST_NEIGHBORS)
        shapes = [shape for shape in shapes if shape.num_neighbors <= largest]
        simple = RegressionShape(min(4 * _num_coefficients(columns, 1), len(data)), _RIDGES[-1], 1)
        if not shapes:
            return simple, simple
        most = max(shape.num_neighbors for shape in shapes)
        rows = spread_rows(data, _ROWS_SAMPLED, purpose="held-out rows of local regression")
        distances, near = self._tree.nearest(
            self._places(self._features[rows], data.actions[rows]), most + longest
        )
        distances = distances.masked_fill(groups[near.long()] == groups[rows][:, None], math.inf)
        distances, order = distances.sort(dim=1, stable=True)
        # Rows whose own group fills the neighbourhood have nobody to be predicted from.
        asked = distances[:, most - 1].isfinite()
        if not bool(asked.any()):
            return simple, simple
        rows, distances = rows[asked], distances[asked]
        near = near.long().gather(1, order)[asked, :most]
        away = self._away(self._features[rows], data.actions[rows], near)
        targets = torch.cat([self._steps, data.rewards[:, None]], dim=1)
        truth, spread = targets[rows], targets.std(dim=0, correction=0)
        varies = spread > _ROUNDING * targets.abs().amax(dim=0)

        misses = []
        for shape in shapes:
            K = shape.num_neighbors
            level, _, _ = _fit(away[:, :K], targets[near[:, :K]], distances[:, :K], shape, None)
            miss = torch.where(varies, ((level - truth) / torch.where(varies, spread, 1.0)).square(), 0.0)
            # Of each row, so that a few wild extrapolations do not decide.
            misses.append(
                (
                    float(miss[:, :-1].mean(dim=1).clamp(max=1.0).mean()),
                    float(miss[:, -1].clamp(max=1.0).mean()),
                )
            )
        steps, rewards = zip(*misses, strict=True)
        return _cheapest(shapes, steps), _cheapest(shapes, rewards)


def _cheapest(shapes: list[RegressionShape], errors: tuple[float, ...]) -> RegressionShape:
    """Return the first shape whose error is near the least, or next to nothing."""
    enough = max(_NEAR_LEAST * min(errors), _NEXT_TO_NOTHING)
    return next(shape for shape, error in zip(shapes, errors, strict=True) if error <= enough)


def _num_coefficients(columns: int, degree: int) -> int:
    return 1 + columns + (columns * (columns + 1) // 2 if degree == 2 else 0)


def _fit(
    away: torch.Tensor,
    targets: torch.Tensor,
    distances: torch.Tensor,
    shape: RegressionShape,
    pick: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the level (m, t) at each query, a residual (m, t), and the leverage (m,).

    Args:
        away: Offsets of the samples, shape (m, K, d).
        targets: Shape (m, K, t).
        distances: Infinite for a sample that must not count, shape (m, K).
        shape: Of the polynomial.
        pick: What picks the residual, shape (m,).
    """
    columns = [torch.ones_like(distances)[:, :, None], away]
    if shape.degree == 2:
        one, other = torch.triu_indices(away.shape[2], away.shape[2])
        columns.append(away[:, :, one] * away[:, :, other])
    design = torch.cat(columns, dim=2)  # (m, K, p)
    w = sample_weights(distances)
    total = w.sum(dim=1, keepdim=True)
    weighted = design * w[:, :, None]
    penalty = torch.full((design.shape[2],), shape.ridge, dtype=torch.float64)
    penalty[0] = 1e-12  # the level is free
    gram = weighted.mT @ design + torch.diag_embed(penalty * total)
    first = torch.zeros(len(gram), design.shape[2], 1, dtype=torch.float64)
    first[:, 0] = 1.0
    both = torch.linalg.solve(gram, torch.cat([weighted.mT @ targets, first], dim=2))
    coefficients, inverse = both[:, :, :-1], both[:, :, -1:]
    level = coefficients[:, 0]
    weights = (weighted @ inverse)[:, :, 0]  # of the samples in the level
    leverage = weights.square().sum(dim=1)
    if pick is None:
        return level, torch.zeros_like(level), leverage

    chance = (w / total).cumsum(dim=1)
    chosen = torch.searchsorted(chance, pick[:, None].contiguous()).clamp(max=w.shape[1] - 1)
    missed = targets.gather(1, chosen[:, :, None].expand(-1, -1, targets.shape[2]))[:, 0] - torch.einsum(
        "mp,mpt->mt", design.gather(1, chosen[:, :, None].expand(-1, -1, design.shape[2]))[:, 0], coefficients
    )
    # The fit has taken up a part of what was missed.
    effective = total[:, 0].square() / w.square().sum(dim=1)
    correction = effective / (effective - design.shape[2]).clamp(min=effective / _LARGEST_CORRECTION)
    return level, missed * correction.sqrt()[:, None], leverage

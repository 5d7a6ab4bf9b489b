"""Local-linear regression of displacement and reward on action and state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch

from nopg.data import Schema, Transitions, held_out_groups, spread_rows
from nopg.kernels import GaussianKernel
from nopg.neighbors import NeighborSearch

__all__ = [
    "FitShape",
    "LocalFit",
    "best_shape",
    "fit_at",
    "fit_locally",
    "moved",
    "offsets",
    "raw_states",
    "raw_units",
    "sample_weights",
]

# What is tried: samples per coefficient, ridges.
_SIZES = (3, 4, 6, 9, 14, 20)
_RIDGES = (1e-6, 1e-4, 1e-3, 1e-2, 1e-1)
_RIDGE = 1e-3
# More coefficients must earn their keep: a fit is only preferred to a simpler one that is this much worse.
_WORTH_IT = 0.95
_ROWS_SAMPLED = 1_000
_STATES_AT_ONCE = 8_192
_EDGE = 1e-6


@dataclass(frozen=True, slots=True)
class FitShape:
    """What a local fit looks like.

    Attributes:
        num_neighbors: Samples that it rests on.
        ridge: Penalty on slopes, relative to the weight of the samples.
        quadratic: Whether the square of each action is a regressor too.
    """

    num_neighbors: int
    ridge: float = _RIDGE
    quadratic: bool = False


@dataclass(frozen=True, slots=True)
class LocalFit:
    """Displacement and reward of m queries as polynomials in the action.

    Attributes:
        shift: At action 0, shape (m, d_s + 1), the reward last.
        slope: At action 0, shape (m, d_s + 1, d_a).
        curvature: Coefficients of the squares of the actions, shape (m, d_s + 1, d_a); 0 where linear.
        variance: Of the displacement around the fit, shape (m, d_s).
        by_state: Slope by the state, shape (m, d_s + 1, d_s).
    """

    shift: torch.Tensor
    slope: torch.Tensor
    curvature: torch.Tensor
    variance: torch.Tensor
    by_state: torch.Tensor

    def at(self, actions: torch.Tensor) -> torch.Tensor:
        """Return displacement and reward (m, d_s + 1) for actions (m, d_a)."""
        return self.shift + torch.einsum(
            "mta,ma->mt", self.slope + self.curvature * actions[:, None], actions
        )

    def slope_at(self, actions: torch.Tensor) -> torch.Tensor:
        """Return the derivative (m, d_s + 1, d_a) of `at` by the actions (m, d_a)."""
        return self.slope + 2.0 * self.curvature * actions[:, None]

    def held(self, steps: int, discount: float) -> LocalFit:
        """Return displacement after, and discounted reward over, so many steps of one action.

        With d_j the displacement after j steps and u(a), r(a) those of one step, the fit itself says
        d_{j+1} = d_j + u(a) + A d_j and r_j = r(a) + α·d_j, so d_j = N_j u(a) with N_{j+1} = N_j + A N_j + I.
        Errors of the steps are independent of each other.
        """
        A, alpha = self.by_state[:, :-1], self.by_state[:, -1:]  # (m, d_s, d_s), (m, 1, d_s)
        eye = torch.eye(A.shape[1], dtype=A.dtype, device=A.device).expand_as(A)
        N, N_discounted, weight = torch.zeros_like(A), torch.zeros_like(A), 0.0
        grown, variance = eye, torch.zeros_like(self.variance)  # (I + A)ʲ
        for step in range(steps):
            N_discounted, weight = N_discounted + discount**step * N, weight + discount**step
            variance = variance + torch.einsum("mst,mt->ms", grown.square(), self.variance)
            N, grown = N + A @ N + eye, grown + A @ grown

        def after_all(one: torch.Tensor) -> torch.Tensor:  # (m, d_s + 1, ·)
            moved, reward = one[:, :-1], one[:, -1:]
            return torch.cat([N @ moved, weight * reward + alpha @ N_discounted @ moved], dim=1)

        return replace(
            self,
            shift=after_all(self.shift[:, :, None])[:, :, 0],
            slope=after_all(self.slope),
            curvature=after_all(self.curvature),
            variance=variance,
            by_state=after_all(self.by_state),
        )

    @classmethod
    def joined(cls, parts: Sequence[LocalFit]) -> LocalFit:
        """Return the fits of all queries, one part after the other."""
        names = [field.name for field in fields(cls)]
        return cls(*(torch.cat([getattr(part, name) for part in parts]) for name in names))


def fit_locally(
    data: Transitions,
    metric: GaussianKernel,
    features: torch.Tensor,
    near: torch.Tensor,
    distances: torch.Tensor,
    *,
    ridge: float = _RIDGE,
    quadratic: bool = False,
) -> LocalFit:
    """Fit s′ − s and r on (1, a, s − z), or (1, a, a², s − z), at every query z by weighted ridge regression.

    Args:
        data: The samples.
        metric: Its bandwidths are the units of s − z, so that one ridge fits all columns.
        features: The queries z, shape (m, d_f).
        near: Numbers of the samples each fit rests on, nearest first, shape (m, K).
        distances: How far they are; infinite for one that must not count, shape (m, K).
        ridge: Penalty on slopes, relative to the weight of the samples.
        quadratic: Whether the square of each action is a regressor.
    """
    d_a, d_s = data.actions.shape[1], len(data.schema.states)
    center, spread = data.actions.mean(dim=0), _action_spread(data)
    actions = (data.actions[near] - center) / spread
    away = offsets(data.schema, features[:, None], data.features[near]) / raw_units(data.schema, metric)
    squares = [actions.square()] if quadratic else []
    design = torch.cat([torch.ones_like(distances)[:, :, None], actions, *squares, away], dim=2)  # (m, K, p)
    steps = offsets(data.schema, data.features[near], data.next_features[near])
    targets = torch.cat([steps, data.rewards[near][:, :, None]], dim=2)  # (m, K, t)

    w = sample_weights(distances)
    if data.weights is not None:
        w = w * data.weights[near]
    weighted = design * w[:, :, None]
    penalty = torch.full((design.shape[2],), ridge, dtype=torch.float64)
    penalty[0] = 1e-10  # the level is free
    gram = torch.einsum("mkp,mkq->mpq", weighted, design)
    gram += torch.diag_embed(penalty * w.sum(dim=1, keepdim=True))
    coefficients = torch.linalg.solve(gram, torch.einsum("mkp,mkt->mpt", weighted, targets))  # (m, p, t)

    by_action = coefficients[:, 1 : 1 + d_a].transpose(1, 2) / spread  # (m, t, d_a)
    curvature = torch.zeros_like(by_action)
    if quadratic:
        curvature = coefficients[:, 1 + d_a : 1 + 2 * d_a].transpose(1, 2) / spread.square()
    slope = by_action - 2.0 * curvature * center
    shift = coefficients[:, 0] - torch.einsum("mta,a->mt", by_action - curvature * center, center)
    missed = (targets - design @ coefficients)[:, :, :d_s]
    variance = _residual_variance(missed, w, design.shape[2])
    by_state = coefficients[:, -d_s:].transpose(1, 2) / raw_units(data.schema, metric)
    return LocalFit(shift, slope, curvature, variance, by_state)


def fit_at(
    data: Transitions,
    metric: GaussianKernel,
    samples: NeighborSearch,
    features: torch.Tensor,
    shape: FitShape,
) -> LocalFit:
    """Return fits of a shape at any state features (m, d_f), over the nearest of the samples in a tree."""
    parts = []
    for some in features.split(_STATES_AT_ONCE):
        distances, near = samples.nearest(metric.scale(some), shape.num_neighbors)
        fit = fit_locally(
            data, metric, some, near.long(), distances, ridge=shape.ridge, quadratic=shape.quadratic
        )
        parts.append(fit)
    return LocalFit.joined(parts)


def best_shape(data: Transitions, metric: GaussianKernel, samples: NeighborSearch) -> FitShape:
    """Return the shape whose fits predict held-out rows best, in units of each target's spread.

    The number of samples is chosen first, then the ridge, then whether squares of the actions help.

    Args:
        data: The samples.
        metric: The unit of distance between states.
        samples: A tree over the states of the data, in units of the metric.
    """
    groups = held_out_groups(data)
    longest = min(int(torch.unique(groups, return_counts=True)[1].max()), _ROWS_SAMPLED)
    coefficients = 1 + data.actions.shape[1] + data.states.shape[1]
    sizes = [size * coefficients for size in _SIZES if size * coefficients + longest <= len(data)]
    if not sizes:
        return FitShape(min(4 * coefficients, len(data)))

    rows = spread_rows(data, _ROWS_SAMPLED, purpose="held-out rows of local fits")
    distances, near = samples.nearest(metric.scale(data.features[rows]), sizes[-1] + longest)
    distances = distances.masked_fill(groups[near.long()] == groups[rows][:, None], math.inf)
    distances, order = distances.sort(dim=1, stable=True)
    near = near.long().gather(1, order)
    # Rows whose own group fills the neighbourhood have nobody to be predicted from.
    asked = distances[:, sizes[-1] - 1].isfinite()
    if not bool(asked.any()):
        return FitShape(min(4 * coefficients, len(data)))
    rows, distances, near = rows[asked], distances[asked], near[asked]
    steps = offsets(data.schema, data.features[rows], data.next_features[rows])
    targets = torch.cat([steps, data.rewards[rows][:, None]], dim=1)
    spread = targets.std(dim=0, correction=0).clamp(min=1e-12)

    def error(shape: FitShape) -> float:
        K = shape.num_neighbors
        fit = fit_locally(
            data,
            metric,
            data.features[rows],
            near[:, :K],
            distances[:, :K],
            ridge=shape.ridge,
            quadratic=shape.quadratic,
        )
        # Of each row, so that a few wild extrapolations do not decide.
        miss = ((fit.at(data.actions[rows]) - targets) / spread).square().mean(dim=1)
        return float(miss.clamp(max=1.0).mean())

    best = min((FitShape(size) for size in sizes), key=error)
    best = min((replace(best, ridge=ridge) for ridge in _RIDGES), key=error)
    bent = replace(best, quadratic=True)
    return bent if error(bent) < _WORTH_IT * error(best) else best


def sample_weights(distances: torch.Tensor) -> torch.Tensor:
    """Return (1 − d²/d_K²)² (m, K), d_K the farthest.

    Weights all but vanish at the farthest, so it hardly matters which of several equally far ones that is;
    where all are equally far they count alike.
    """
    reach = (1.0 + _EDGE) * torch.where(distances.isfinite(), distances, 0.0).amax(dim=1, keepdim=True)
    share = torch.where(reach > 0, distances / reach, 0.0)
    return (1.0 - share.square()).clamp(min=0.0).square()


def _residual_variance(missed: torch.Tensor, weights: torch.Tensor, coefficients: int) -> torch.Tensor:
    """Return the variance (m, t) of weighted residuals (m, K, t), corrected for what the fit has absorbed.

    The correction is that of the effective number of samples, (Σw)²/Σw², and at most tenfold.
    """
    total = weights.sum(dim=1)
    effective = total.square() / weights.square().sum(dim=1)
    correction = effective / (effective - coefficients).clamp(min=0.1 * effective)
    return torch.einsum("mk,mkt->mt", weights, missed.square()) * (correction / total)[:, None]


def _action_spread(data: Transitions) -> torch.Tensor:
    """Return the deviation of each action, 1 where it never varies: rounding is no variation."""
    constant = data.actions.amin(dim=0) == data.actions.amax(dim=0)
    return torch.where(constant, 1.0, data.actions.std(dim=0, correction=0))


def moved(schema: Schema, features: torch.Tensor, displacement: torch.Tensor) -> torch.Tensor:
    """Return the features (m, d_f) moved by raw displacements (m, d_s); angles turn."""
    columns, feature = [], 0
    for k, name in enumerate(schema.states):
        step = displacement[:, k]
        if name in schema.angles:
            cos, sin = features[:, feature], features[:, feature + 1]
            turn = step / _radian(schema, name)
            columns += [cos * turn.cos() - sin * turn.sin(), sin * turn.cos() + cos * turn.sin()]
            feature += 2
        else:
            columns.append(features[:, feature] + step)
            feature += 1
    return torch.stack(columns, dim=-1)


def raw_states(schema: Schema, features: torch.Tensor) -> torch.Tensor:
    """Return the raw states (m, d_s) of features (m, d_f), angles within half a period of 0."""
    origin = schema.encode(torch.zeros(1, len(schema.states), dtype=features.dtype))
    return offsets(schema, origin, features)


def offsets(schema: Schema, start: torch.Tensor, end: torch.Tensor) -> torch.Tensor:
    """Return end − start in raw columns (…, d_s) from features (…, d_f), angles the short way round."""
    columns, feature = [], 0
    for name in schema.states:
        if name in schema.angles:
            c_0, s_0 = start[..., feature], start[..., feature + 1]
            c_1, s_1 = end[..., feature], end[..., feature + 1]
            turn = torch.atan2(s_1 * c_0 - c_1 * s_0, c_1 * c_0 + s_1 * s_0)
            columns.append(turn * _radian(schema, name))
            feature += 2
        else:
            columns.append(end[..., feature] - start[..., feature])
            feature += 1
    return torch.stack(columns, dim=-1)


def raw_units(schema: Schema, metric: GaussianKernel) -> torch.Tensor:
    """Return the metric's bandwidth of each raw state column, shape (d_s,)."""
    units = torch.empty(len(schema.states), dtype=torch.float64)
    for feature, column in enumerate(schema.feature_columns):
        units[column] = metric.bandwidth[feature] * _radian(schema, schema.states[column])
    return units


def _radian(schema: Schema, name: str) -> float:
    """Return what one radian is in the unit of the column; 1 if it is no angle."""
    period = schema.angles.get(name)
    return 1.0 if period is None else period / (2 * math.pi)

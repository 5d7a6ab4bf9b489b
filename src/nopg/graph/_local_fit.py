"""Local-linear regression of displacement and reward on action and state."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from nopg._seeding import generator
from nopg.data import Schema, Transitions, duplicate_groups
from nopg.kernels import GaussianKernel
from nopg.neighbors import NeighborTree

__all__ = ["LocalFit", "best_neighborhood", "fit_locally", "moved"]

# Samples per coefficient that are tried.
_SIZES = (3, 4, 6, 9, 14, 20)
_ROWS_SAMPLED = 1_000
_EDGE = 1e-6


@dataclass(frozen=True, slots=True)
class LocalFit:
    """Displacement and reward of m queries as affine functions of the action.

    Attributes:
        shift: At action 0, shape (m, d_s + 1), the reward last.
        slope: Shape (m, d_s + 1, d_a).
    """

    shift: torch.Tensor
    slope: torch.Tensor

    def at(self, actions: torch.Tensor) -> torch.Tensor:
        """Return displacement and reward (m, d_s + 1) for actions (m, d_a)."""
        return self.shift + torch.einsum("mta,ma->mt", self.slope, actions)


def fit_locally(
    data: Transitions,
    metric: GaussianKernel,
    features: torch.Tensor,
    near: torch.Tensor,
    distances: torch.Tensor,
    *,
    ridge: float,
) -> LocalFit:
    """Fit s′ − s and r on (1, a, s − z) at every query z, by weighted ridge regression.

    Args:
        data: The samples.
        metric: Its bandwidths are the units of s − z, so that one ridge fits all columns.
        features: The queries z, shape (m, d_f).
        near: Numbers of the samples each fit rests on, nearest first, shape (m, K).
        distances: How far they are; infinite for one that must not count, shape (m, K).
        ridge: Penalty on slopes, relative to the weight of the samples.
    """
    center, spread = data.actions.mean(dim=0), _action_spread(data)
    actions = (data.actions[near] - center) / spread
    offsets = _offsets(data.schema, features[:, None], data.features[near]) / _units(data.schema, metric)
    design = torch.cat([torch.ones_like(distances)[:, :, None], actions, offsets], dim=2)  # (m, K, p)
    steps = _offsets(data.schema, data.features[near], data.next_features[near])
    targets = torch.cat([steps, data.rewards[near][:, :, None]], dim=2)  # (m, K, t)

    # Weights all but vanish at the farthest, so it hardly matters which of several equally far ones that is;
    # where all are equally far they count alike.
    reach = (1.0 + _EDGE) * torch.where(distances.isfinite(), distances, 0.0).amax(dim=1, keepdim=True)
    share = torch.where(reach > 0, distances / reach, 0.0)
    w = (1.0 - share.square()).clamp(min=0.0).square()
    weighted = design * w[:, :, None]
    penalty = torch.full((design.shape[2],), ridge, dtype=torch.float64)
    penalty[0] = 1e-10  # the level is free
    gram = torch.einsum("mkp,mkq->mpq", weighted, design)
    gram += torch.diag_embed(penalty * w.sum(dim=1, keepdim=True))
    coefficients = torch.linalg.solve(gram, torch.einsum("mkp,mkt->mpt", weighted, targets))  # (m, p, t)

    slope = coefficients[:, 1 : 1 + data.actions.shape[1]].transpose(1, 2) / spread  # (m, t, d_a)
    return LocalFit(coefficients[:, 0] - torch.einsum("mta,a->mt", slope, center), slope)


def best_neighborhood(
    data: Transitions, metric: GaussianKernel, samples: NeighborTree, *, ridge: float
) -> int:
    """Return the number of samples whose fits predict held-out rows best, in units of each target's spread.

    Rows are left out with their duplicates, or with their whole episode where there is more than one.

    Args:
        data: The samples.
        metric: The unit of distance between states.
        samples: A tree over the states of the data, in units of the metric.
        ridge: As in `fit_locally`.
    """
    groups = duplicate_groups(data)
    if data.episodes is not None and bool((data.episodes != data.episodes[0]).any()):
        groups = data.episodes
    longest = int(torch.unique(groups, return_counts=True)[1].max())
    coefficients = 1 + data.actions.shape[1] + data.states.shape[1]
    sizes = [size * coefficients for size in _SIZES if size * coefficients + longest <= len(data)]
    if not sizes:
        return min(4 * coefficients, len(data))

    rows = torch.randperm(len(data), generator=generator(0, "held-out rows"))[:_ROWS_SAMPLED]
    distances, near = samples.nearest(metric.scale(data.features[rows]), sizes[-1] + longest)
    distances = distances.masked_fill(groups[near.long()] == groups[rows][:, None], math.inf)
    distances, order = distances.sort(dim=1, stable=True)
    near = near.long().gather(1, order)

    steps = _offsets(data.schema, data.features[rows], data.next_features[rows])
    targets = torch.cat([steps, data.rewards[rows][:, None]], dim=1)
    spread = targets.std(dim=0, correction=0).clamp(min=1e-12)
    errors = []
    for size in sizes:
        fit = fit_locally(data, metric, data.features[rows], near[:, :size], distances[:, :size], ridge=ridge)
        # Of each row, so that a few wild extrapolations do not decide.
        miss = ((fit.at(data.actions[rows]) - targets) / spread).square().mean(dim=1)
        errors.append(float(miss.clamp(max=1.0).mean()))
    return sizes[min(range(len(sizes)), key=errors.__getitem__)]


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


def _offsets(schema: Schema, start: torch.Tensor, end: torch.Tensor) -> torch.Tensor:
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


def _units(schema: Schema, metric: GaussianKernel) -> torch.Tensor:
    """Return the metric's bandwidth of each raw state column, shape (d_s,)."""
    units = torch.empty(len(schema.states), dtype=torch.float64)
    for feature, column in enumerate(schema.feature_columns):
        units[column] = metric.bandwidth[feature] * _radian(schema, schema.states[column])
    return units


def _radian(schema: Schema, name: str) -> float:
    """Return what one radian is in the unit of the column; 1 if it is no angle."""
    period = schema.angles.get(name)
    return 1.0 if period is None else period / (2 * math.pi)

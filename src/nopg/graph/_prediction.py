"""One-step predictions of both transition models, and which of the two predicts held-out rows better."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from nopg.data import Schema, Transitions, chains, duplicate_groups, held_out_groups, spread_rows
from nopg.errors import ArgumentError
from nopg.graph._candidates import tied_with_the_next
from nopg.graph._local_fit import FitShape, best_shape, fit_at, moved, offsets
from nopg.kernels import Bandwidths, GaussianKernel
from nopg.neighbors import neighbor_search

__all__ = [
    "LocalLinearPredictor",
    "ModelComparison",
    "NadarayaWatsonPredictor",
    "Predictor",
    "compare_models",
    "rolled_out_errors",
]

_LOCAL_LINEAR, _NADARAYA_WATSON = "local-linear", "nadaraya-watson"
_NEIGHBORS = 64
_FOLDS = 5
_FEWEST_ROWS = 20
_ROWS_SAMPLED = 1_000
# Errors that differ by less, in steps, differ by rounding.
_TIE = 1e-9
# A displacement that varies by less than this share of the column's size varies by rounding.
_ROUNDING = 1e-12


class Predictor(Protocol):
    """Where an action leads from a state, and for which reward."""

    def next(self, features: torch.Tensor, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return next features (m, d_f) and rewards (m,) for features (m, d_f) and actions (m, d_a)."""


class NadarayaWatsonPredictor:
    """s + Σⱼ εⱼ (s′ⱼ − s) and Σⱼ εⱼ rⱼ with εⱼ ∝ exp(−½‖((s, a) − (sⱼ, aⱼ))/h‖²).

    That is the mean of the neighbours' next states, as the paper's model has it, angles the short way round
    from s. The 64 nearest samples count.

    Args:
        data: The samples.
        bandwidths: Of the kernels on states and actions.
    """

    def __init__(self, data: Transitions, bandwidths: Bandwidths) -> None:
        self.data, self.bandwidths = data, bandwidths
        self._next_features = data.next_features
        self._tree = neighbor_search(self._scaled(data.features, data.actions))

    def next(self, features: torch.Tensor, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return next features (m, d_f) and rewards (m,) for features (m, d_f) and actions (m, d_a)."""
        near, eps = self._responsibilities(features, actions)
        steps = offsets(self.data.schema, features[:, None], self._next_features[near])  # (m, K, d_s)
        displacement = torch.einsum("mk,mks->ms", eps, steps)
        rewards = (eps * self.data.rewards[near]).sum(dim=1)
        return moved(self.data.schema, features, displacement), rewards

    def _responsibilities(
        self, features: torch.Tensor, actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the numbers (m, K) of the nearest samples and ε (m, K)."""
        distances, near = self._tree.nearest(self._scaled(features, actions), _NEIGHBORS + 1)
        squared = distances.square()
        logits = -0.5 * squared[:, :_NEIGHBORS]
        if squared.shape[1] > _NEIGHBORS:
            # A tie for the last place is left out, lest the order of the rows decide it.
            logits = logits.masked_fill(tied_with_the_next(squared), -math.inf)
        return near[:, :_NEIGHBORS].long(), torch.softmax(logits, dim=1)

    def _scaled(self, features: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        h = self.bandwidths
        return torch.cat([h.state_kernel.scale(features), h.action_kernel.scale(actions)], dim=1)


class LocalLinearPredictor:
    """s + c_s + B_s a and r_s(a), fitted at every query s on its nearest samples (`fit_locally`).

    Args:
        data: The samples.
        metric: The unit of distance between states.
        shape: Of the fits.
    """

    def __init__(self, data: Transitions, metric: GaussianKernel, shape: FitShape) -> None:
        self.data, self.metric, self.shape = data, metric, shape
        self._tree = neighbor_search(metric.scale(data.features))

    def next(self, features: torch.Tensor, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return next features (m, d_f) and rewards (m,) for features (m, d_f) and actions (m, d_a)."""
        fit = fit_at(self.data, self.metric, self._tree, features, self.shape)
        predicted = fit.at(actions)
        return moved(self.data.schema, features, predicted[:, :-1]), predicted[:, -1]


def rolled_out_errors(
    predictor: Predictor,
    features: torch.Tensor,
    actions: torch.Tensor,
    *,
    truth_features: torch.Tensor,
    schema: Schema,
    scale: torch.Tensor,
) -> torch.Tensor:
    """Return how far predictions fed back into the predictor are from the truth after 1, …, H steps, (H,).

    It is the median over the starts of the root mean square over the state columns.

    Args:
        predictor: What predicts.
        features: Of the m starts, shape (m, d_f).
        actions: Taken one after the other, shape (m, H, d_a).
        truth_features: Of the states that they led to, shape (m, H, d_f).
        schema: Of the features.
        scale: The unit of each raw state column, shape (d_s,).
    """
    errors = _errors(predictor, features, actions, truth_features=truth_features, schema=schema, scale=scale)
    return errors.median(dim=0).values


@dataclass(frozen=True, slots=True)
class ModelComparison:
    """Held-out errors of both models, in spreads of a step, and the model they speak for.

    Attributes:
        one_step: Median error after one step, by model; empty where there were too few rows to compare.
        rolled_out: Median error after `horizon` steps, by model; None where no unbroken run is that long.
        horizon: How many steps were rolled out.
        chosen: "local-linear" or "nadaraya-watson".
        num_distinct: How many distinct rows the data have.
        shape: Of the local-linear fits, chosen from all rows; None where nothing was compared.
    """

    one_step: Mapping[str, float]
    rolled_out: Mapping[str, float] | None
    horizon: int
    chosen: str
    num_distinct: int
    shape: FitShape | None = None

    def reason(self) -> str:
        """Return one sentence with the figures behind the choice."""
        if not self.one_step:
            return f"{self.chosen}: {self.num_distinct} distinct rows are too few to compare models on"
        other = _NADARAYA_WATSON if self.chosen == _LOCAL_LINEAR else _LOCAL_LINEAR
        mine, theirs = _figure(self.one_step[self.chosen]), _figure(self.one_step[other])
        text = f"{self.chosen}: held-out error {mine} of a step against {theirs} of {other}"
        if self.rolled_out is None:
            return text
        mine, theirs = _figure(self.rolled_out[self.chosen]), _figure(self.rolled_out[other])
        return f"{text} ({self.horizon} steps: {mine} against {theirs})"


def compare_models(data: Transitions, bandwidths: Bandwidths, *, horizon: int = 5) -> ModelComparison:
    """Ask both models about rows they have not seen, and choose the one whose states are nearer to the truth.

    Rows that are left out together (`held_out_groups`) are dealt into five folds, and each fold is predicted
    from the others. The error after `horizon` steps decides where the data have unbroken runs of that length
    within a fold, else that after one step; a tie goes to local-linear. With fewer than 20 distinct rows
    nothing is compared and the paper's model is chosen.

    The unit of every column is the standard deviation of its one-step displacement, or 1 where that never
    varies. Rewards play no part.

    Args:
        data: The transitions.
        bandwidths: Of the paper's model; those on states are the metric of the local-linear one.
        horizon: Steps to roll out, at least 1.
    """
    if horizon < 1:
        raise ArgumentError(f"horizon is {horizon}; give at least 1 step")
    copies = duplicate_groups(data)
    num_distinct = int(copies.max()) + 1
    if num_distinct < _FEWEST_ROWS:
        return ModelComparison({}, None, horizon, _NADARAYA_WATSON, num_distinct)

    models = _CrossFitted.from_data(data, bandwidths, held_out_groups(data, duplicates=copies))
    rows = spread_rows(data, _ROWS_SAMPLED, purpose="rows to compare models on")
    one_step = models.median_errors(rows, 1)
    starts = _starts(data, models.folds, horizon)
    rolled_out = models.median_errors(starts, horizon) if len(starts) else None
    chosen = _closer(rolled_out or one_step)
    return ModelComparison(one_step, rolled_out, horizon, chosen, num_distinct, models.shape)


@dataclass(frozen=True, slots=True)
class _CrossFitted:
    """Predictors of both models for every fold, built from the rows outside it."""

    data: Transitions
    folds: torch.Tensor  # of every row, (n,)
    shape: FitShape
    predictors: Mapping[int, Mapping[str, Predictor]]

    @classmethod
    def from_data(cls, data: Transitions, bandwidths: Bandwidths, groups: torch.Tensor) -> _CrossFitted:
        # Chosen once, from all rows, as the bandwidths were.
        metric = bandwidths.state_kernel
        shape = best_shape(data, metric, neighbor_search(metric.scale(data.features)))

        folds = _folds(data, groups)
        predictors: dict[int, dict[str, Predictor]] = {}
        for fold in folds.unique().tolist():
            others = data.take(folds != fold)
            predictors[fold] = {
                _LOCAL_LINEAR: LocalLinearPredictor(others, metric, shape),
                _NADARAYA_WATSON: NadarayaWatsonPredictor(others, bandwidths),
            }
        return cls(data, folds, shape, predictors)

    def median_errors(self, starts: torch.Tensor, horizon: int) -> dict[str, float]:
        """Return, by model, the median over start rows of the error after the last of `horizon` steps."""
        data, scale = self.data, _step_spread(self.data)
        features, next_features = data.features, data.next_features
        errors: dict[str, list[torch.Tensor]] = {_LOCAL_LINEAR: [], _NADARAYA_WATSON: []}
        for fold, predictors in self.predictors.items():
            first = starts[self.folds[starts] == fold]
            if len(first) == 0:
                continue
            rows = first[:, None] + torch.arange(horizon)
            for name, predictor in predictors.items():
                error = _errors(
                    predictor,
                    features[first],
                    data.actions[rows],
                    truth_features=next_features[rows],
                    schema=data.schema,
                    scale=scale,
                )
                errors[name].append(error[:, -1])
        return {name: float(torch.cat(parts).median()) for name, parts in errors.items()}


def _errors(
    predictor: Predictor,
    features: torch.Tensor,
    actions: torch.Tensor,
    *,
    truth_features: torch.Tensor,
    schema: Schema,
    scale: torch.Tensor,
) -> torch.Tensor:
    """Return the error (m, H) of every start after every step; infinite once a prediction is not finite."""
    errors = torch.empty(actions.shape[:2], dtype=torch.float64)
    lost = torch.zeros(len(features), dtype=torch.bool)
    for step in range(actions.shape[1]):
        predicted, _ = predictor.next(features, actions[:, step])
        lost |= ~predicted.isfinite().all(dim=1)
        features = torch.where(lost[:, None], features, predicted)
        miss = offsets(schema, truth_features[:, step], features) / scale
        errors[:, step] = torch.where(lost, math.inf, miss.square().mean(dim=1).sqrt())
    return errors


def _folds(data: Transitions, groups: torch.Tensor) -> torch.Tensor:
    """Deal the groups into folds, large ones first so that folds are of like size; shape (n,)."""
    order = spread_rows(data, len(data), purpose="folds of the comparison").numpy()
    _, first, group, counts = np.unique(
        groups.numpy()[order], return_index=True, return_inverse=True, return_counts=True
    )
    # Which of two groups of one size comes first depends on what their rows say, not on their numbers.
    fold_of = np.empty(len(counts), dtype=np.int64)
    fold_of[np.lexsort((first, -counts))] = np.arange(len(counts)) % _FOLDS
    folds = np.empty(len(data), dtype=np.int64)
    folds[order] = fold_of[group]
    return torch.as_tensor(folds)


def _starts(data: Transitions, folds: torch.Tensor, horizon: int) -> torch.Tensor:
    """Return some of the rows from which an unbroken run of `horizon` rows lies in one fold."""
    begins = torch.zeros(len(data), dtype=torch.bool)
    for run in chains(data):
        if run.stop - run.start >= horizon:
            begins[run.start : run.stop - horizon + 1] = True
    rows = spread_rows(data, len(data), purpose="starts to compare models on")
    rows = rows[begins[rows]]
    together = (folds[rows[:, None] + torch.arange(horizon)] == folds[rows][:, None]).all(dim=1)
    return rows[together][:_ROWS_SAMPLED]


def _step_spread(data: Transitions) -> torch.Tensor:
    """Return the deviation of the displacement of each raw column (d_s,), 1 where it never varies."""
    spread = offsets(data.schema, data.features, data.next_features).std(dim=0, correction=0)
    size = torch.maximum(data.states.abs(), data.next_states.abs()).amax(dim=0)
    return torch.where(spread > _ROUNDING * size, spread, 1.0)


def _closer(errors: Mapping[str, float]) -> str:
    """Return the model of the smaller error; a tie goes to local-linear."""
    return _LOCAL_LINEAR if errors[_LOCAL_LINEAR] <= errors[_NADARAYA_WATSON] + _TIE else _NADARAYA_WATSON


def _figure(value: float) -> str:
    text = f"{value:.2g}"
    return text[1:] if text.startswith("0.") else text

"""The plant as a local polynomial regression of displacement and reward in state and action."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nopg._seeding import generator
from nopg._typing import FloatArray, IntArray
from nopg.data import Transitions
from nopg.models._chart_selection import HeldOutFit, select_shapes
from nopg.models._charts import ChartFit, Charts, ChartShape
from nopg.models._config import LocalModelConfig
from nopg.models._regression_rows import RegressionRows
from nopg.models._termination import TerminationRule

__all__ = ["ColumnFit", "LocalModel", "Prediction", "RewardFunction"]

RewardFunction = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Rewards (m,) of raw states (m, d_s), actions (m, d_a) and next states (m, d_s), in torch."""

# Predicted rewards are at most by these shares of the logged range below and above it.
_WORSE, _BETTER = 1.0, 0.05
# A column whose held-out rows are predicted worse than this is predicted badly.
_LEAST_R_SQUARED = 0.5
# No path goes farther beyond the logged states than this share of their range.
_FARTHEST = 1.0
_NUM_HALVES = 8
# Log-odds of the unknown: at the centre of a chart, and by δ², the squared distance in radii of the nearest
# charts. Within a radius hardly anything is unknown, at three nearly everything.
_LOG_ODDS_INSIDE, _LOG_ODDS_RISE = math.log(1e-4), 2.0
# Beyond the logged range of an input, this share of it counts as one radius; and where nothing depends on it.
_MARGIN, _MARGIN_WITHOUT_EFFECT = 0.1, 1.0
# Rows from which the correlation of what is missed is found.
_ROWS_SAMPLED = 1_000


@dataclass(frozen=True, slots=True)
class ColumnFit:
    """How well one predicted column is fitted.

    Attributes:
        name: Of the state column, or "reward".
        inputs: Names of the inputs that it depends on.
        r_squared: Share of the held-out variance that is explained; 1 for a column that never varies.
        error: Root mean squared error on held-out rows, in standard deviations of the column.
        error_of_all_inputs: The same with every input.
        degree: Of the polynomials.
    """

    name: str
    inputs: tuple[str, ...]
    r_squared: float
    error: float
    error_of_all_inputs: float
    degree: int


@dataclass(frozen=True, slots=True)
class Prediction:
    """What one step does.

    Attributes:
        displacement: s′ − s, shape (m, d_s).
        reward: Shape (m,).
        noise: Standard deviation of the plant around the displacement, shape (m, d_s).
        unknown: Share of each (s, a) that the data do not account for, shape (m,).
        displacement_slope: Derivative of the displacement by (s, a), shape (m, d_s, d_s + d_a).
        reward_slope: Derivative of the reward, shape (m, d_s + d_a).
    """

    displacement: Tensor
    reward: Tensor
    noise: Tensor
    unknown: Tensor
    displacement_slope: Tensor
    reward_slope: Tensor


class LocalModel:
    """s′ − s and r at any (s, a) by charts, from all rows and from halves of them.

    Each predicted column has its own inputs and distances where that predicts held-out rows better. What the
    charts miss is noise of the plant. Part 0 of the model rests on all rows; the other parts rest on random
    halves of the groups of episodes, each followed by its complement.

    Args:
        data: The transitions.
        reward: The reward as a function, where it is known; fitted like a state column otherwise.
        costs: Further columns to predict, one number for each row, shape (n, k).
        seed: Of the halves.
    """

    Config = LocalModelConfig

    def __init__(
        self,
        data: Transitions,
        *,
        reward: RewardFunction | None = None,
        costs: Tensor | None = None,
        seed: int = 0,
    ) -> None:
        self.data, self.reward_function = data, reward
        self.num_costs = 0 if costs is None else costs.shape[1]
        self.rows = rows = RegressionRows.of(data, costs)
        self.num_states, self.num_actions = data.states.shape[1], data.actions.shape[1]
        d_s = self.num_states
        self.state_space = rows.space.first(d_s)
        self.fits = select_shapes(rows)
        self._blocks = [
            Charts(rows, columns, shape)
            for columns, shape in _shared(self.fits, None if reward is None else self.num_states)
        ]
        self._fit(_halves(rows.num_groups, seed))
        self.termination = TerminationRule.of(data, self.state_space)
        rewards = data.rewards
        if reward is not None:
            rewards = reward(data.states, data.actions, data.next_states).detach().double()
        self._rewards = rewards
        low, high = float(rewards.min()), float(rewards.max())
        self.reward_low, self.reward_high = low, high
        self.reward_clamp = (low - _WORSE * (high - low), _highest(rewards[rows.first], high - low))
        self.bounds = _bounds(data)
        self._range = _logged_range(rows, self._inputs_that_matter())
        self.noise_factor = self._noise_factor()

    def _fit(self, kept: Tensor) -> None:
        self.kept = kept
        self._chart_fits: list[ChartFit] = [charts.fit(kept) for charts in self._blocks]

    def _inputs_that_matter(self) -> Tensor:
        """Return which inputs some column that varies depends on, shape (d,)."""
        used = [fit.shape.used for k, fit in enumerate(self.fits) if self.rows.spread[k] > 0]
        nothing = torch.zeros(self.rows.inputs.shape[1], dtype=torch.bool)
        return torch.stack([nothing, *used]).any(dim=0) if self.reward_function is None else ~nothing

    def with_parts(self, kept: Tensor) -> LocalModel:
        """Return the same model fitted to other parts (P, G) of the groups."""
        model = copy.copy(self)
        model._fit(kept)  # noqa: SLF001 (a copy of this one)
        return model

    def steps_to_move(self, distance: float) -> float:
        """Return after how many steps a typical logged path has moved so many standard deviations."""
        steps = self.rows.targets[:, : self.num_states] / self.state_space.units
        step = float(steps.square().sum(dim=1).sqrt().median())
        return math.ceil(distance / step) if step > 0 else math.inf

    def worst_value(self, discount: float) -> float:
        """Return the worst that was logged over an effective horizon, for ever; 0 if the end is worse."""
        distinct, episodes = self.rows.first.sort().values, self.data.episodes
        numbers = None if episodes is None else episodes[distinct]
        worst = _worst_mean(self._rewards[distinct], numbers, discount) / (1.0 - discount)
        return worst if self.termination.never else min(worst, 0.0)

    @property
    def may_end(self) -> bool:
        """Whether some state ends the task."""
        return not self.termination.never

    def return_limits(self, discount: float) -> tuple[float, float]:
        """Return the lowest and the highest return that predicted rewards make possible."""
        if self.reward_function is not None:
            return -math.inf, math.inf
        low, high = (reward / (1.0 - discount) for reward in self.reward_clamp)
        return (low, high) if self.termination.never else (min(low, 0.0), max(high, 0.0))

    def return_range(self, discount: float) -> float:
        """Return how far returns may differ by the logged rewards."""
        low, high = self.reward_low / (1.0 - discount), self.reward_high / (1.0 - discount)
        return high - low if self.termination.never else max(high, 0.0) - min(low, 0.0)

    @property
    def num_parts(self) -> int:
        """How many sets of rows it is fitted to: all, and halves."""
        return len(self.kept)

    @property
    def num_charts(self) -> int:
        """Of all predicted columns."""
        return sum(len(charts.centers) for charts in self._blocks)

    @property
    def column_fits(self) -> tuple[ColumnFit, ...]:
        """How well each state column, and the reward last, is predicted on held-out rows."""
        schema = self.data.schema
        names = (*schema.states, *schema.actions)
        return tuple(
            ColumnFit(
                name,
                tuple(names[k] for k in fit.shape.used.nonzero()[:, 0].tolist()),
                fit.r_squared if self.rows.spread[k] > 0 else 1.0,
                fit.error**0.5,
                fit.error_of_all_inputs**0.5,
                max(fit.shape.degree, fit.shape.global_degree),
            )
            for k, (name, fit) in enumerate(zip((*schema.states, "reward"), self.fits, strict=False))
        )

    @property
    def poor_fits(self) -> tuple[ColumnFit, ...]:
        """The columns that have to be learned and are predicted badly on held-out rows."""
        learned = self.column_fits[: self.num_states + (self.reward_function is None)]
        return tuple(fit for fit in learned if fit.r_squared < _LEAST_R_SQUARED)

    @property
    def noise_share(self) -> float:
        """The largest share of a state column's one-step variance that is noise."""
        shares = [0.0]
        for charts in self._blocks:
            for place, column in enumerate(charts.columns):
                if column < self.num_states and self.rows.spread[column] > 0:
                    variance = float(charts.noise[:, place].square().mean())
                    shares.append(variance / float(self.rows.spread[column]) ** 2)
        return max(shares)

    def predict(self, states: Tensor, actions: Tensor, part: Tensor | None = None) -> Prediction:
        """Return what one step does at raw states (m, d_s) and actions (m, d_a).

        Args:
            states: Where.
            actions: What is done.
            part: Which part of the model each row asks, shape (m,); all rows of the log if not given.
        """
        inputs = torch.cat([states, actions], dim=1).T.numpy()
        out, slopes = self.step(inputs, None if part is None else part.numpy())
        d_s = self.num_states
        y, dy = torch.as_tensor(out.T), torch.as_tensor(slopes.transpose(2, 0, 1))
        return Prediction(
            displacement=y[:, :d_s],
            reward=y[:, d_s],
            noise=y[:, -1 - d_s : -1],
            unknown=torch.sigmoid(y[:, -1]),
            displacement_slope=dy[:, :d_s],
            reward_slope=dy[:, d_s],
        )

    def step(
        self, inputs: FloatArray, part: IntArray | None, *, slopes: bool = True, noise: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        """Return displacement, reward, costs, noise and log-odds of the unknown at inputs (d, m).

        They are rows of an array (2 d_s + k + 2, m) for k costs. The second is their derivative by the
        inputs, shape (2 d_s + k + 2, d, m). What is not asked for is 0, or empty.
        """
        d, m = inputs.shape
        d_s, first_noise = self.num_states, self.num_states + 1 + self.num_costs
        num_rows = first_noise + d_s + 1
        out, by_x = np.zeros((num_rows, m)), np.zeros((num_rows if slopes else 0, d, m))
        farthest, farthest_slope = np.zeros(m), np.zeros((d, m))
        for fit in self._chart_fits:
            found, slope = fit.predict(inputs, part, slopes=slopes, noise=noise)
            t = len(fit.columns)
            spread = [first_noise + column for column in fit.columns if column < d_s and noise]
            out[fit.columns], out[spread] = found[:t], found[t : t + len(spread)]  # states come first
            farther = found[-1] > farthest
            farthest = np.where(farther, found[-1], farthest)
            if slope is not None:
                by_x[fit.columns], by_x[spread] = slope[:t], slope[t : t + len(spread)]
                farthest_slope = np.where(farther, slope[-1], farthest_slope)
        low, high, margin = self._range
        beyond = (inputs - np.clip(inputs, low, high)) / margin
        out[-1] = _LOG_ODDS_INSIDE + _LOG_ODDS_RISE * (farthest + np.square(beyond).sum(axis=0))
        if slopes:
            by_x[-1] = _LOG_ODDS_RISE * (farthest_slope + 2.0 * beyond / margin)
        return out, by_x

    def _noise_factor(self) -> FloatArray:
        """Return the Cholesky factor of the correlation of what is missed of the state columns."""
        rows, d_s = self.rows, self.num_states
        some = rows.sample[:_ROWS_SAMPLED]
        out = torch.as_tensor(self.step(rows.inputs[some].T.numpy(), None, slopes=False, noise=False)[0].T)
        scale = torch.where(rows.spread > 0, rows.spread, 1.0)[:d_s]
        left = (rows.targets[some, :d_s] - out[:, :d_s]) / scale
        covariance = left.T @ left / len(some)
        deviation = covariance.diagonal().sqrt()
        known = deviation > 1e-9
        outer = deviation[:, None] * deviation
        both = known[:, None] & known
        correlation = torch.where(both, covariance / outer.clamp(min=1e-300), 0.0)
        correlation.fill_diagonal_(1.0)
        eye = torch.eye(d_s, dtype=torch.float64)
        factor: FloatArray = torch.linalg.cholesky((1.0 - 1e-6) * correlation + 1e-6 * eye).numpy()
        return factor


def _bounds(data: Transitions) -> tuple[FloatArray, FloatArray]:
    """Return where paths may go, shape (d_s, 1) each: declared bounds, else one range beyond the log."""
    schema = data.schema
    seen = torch.cat([data.states, data.next_states])
    low, high = seen.amin(dim=0), seen.amax(dim=0)
    reach = _FARTHEST * (high - low)
    low, high = low - reach, high + reach
    for column, name in enumerate(schema.states):
        if name in schema.angles:
            low[column], high[column] = -math.inf, math.inf
        elif name in schema.bounds:
            low[column], high[column] = schema.bounds[name]
    return low[:, None].numpy(), high[:, None].numpy()


def _logged_range(rows: RegressionRows, matters: Tensor) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the lowest and highest of each input and the margin beyond them; an angle has no end."""
    low, high = rows.inputs.amin(dim=0), rows.inputs.amax(dim=0)
    share = torch.where(matters, _MARGIN, _MARGIN_WITHOUT_EFFECT)
    margin = torch.where(high > low, share * (high - low), rows.space.units)
    angle = rows.space.periods > 0
    low, high = torch.where(angle, -math.inf, low), torch.where(angle, math.inf, high)
    return low[:, None].numpy(), high[:, None].numpy(), margin[:, None].numpy()


def _halves(num_groups: int, seed: int) -> Tensor:
    """Return all groups, then random halves of them, each followed by its complement, shape (P, G)."""
    rng = generator(seed, "halves")
    parts = [torch.ones(num_groups, dtype=torch.bool)]
    for _ in range(_NUM_HALVES // 2 if num_groups > 1 else 0):
        half = torch.zeros(num_groups, dtype=torch.bool)
        half[torch.randperm(num_groups, generator=rng)[: num_groups // 2]] = True
        parts += [half, ~half]
    return torch.stack(parts)


def _highest(rewards: Tensor, spread: float) -> float:
    """Return the most that a reward may be, by those of distinct rows.

    With the two highest r₁ ≥ r₂ that is the upper limit r₁ + 19·(r₁ − r₂) of 95 % confidence by Robson and
    Whitlock (1964), at most a share of the range above r₁: a reward that rows share is not exceeded.
    """
    if len(rewards) == 1:
        return float(rewards[0])
    first, second = (float(reward) for reward in rewards.topk(2).values)
    return first + min(19.0 * (first - second), _BETTER * spread)


def _worst_mean(rewards: Tensor, episodes: Tensor | None, discount: float) -> float:
    """Return the lowest mean reward over an effective horizon, or over an episode that is shorter."""
    if episodes is None:
        return float(rewards.min())
    window, found = max(round(1.0 / (1.0 - discount)), 1), math.inf
    order = torch.argsort(episodes, stable=True)
    for episode in rewards[order].split(torch.unique(episodes, return_counts=True)[1].tolist()):
        length = min(window, len(episode))
        sums = torch.cat([episode.new_zeros(1), episode.cumsum(dim=0)])
        found = min(found, float((sums[length:] - sums[:-length]).min()) / length)
    return found


def _shared(fits: list[HeldOutFit], left_out: int | None) -> list[tuple[list[int], ChartShape]]:
    """Return the targets that share a shape, with it; one that need not be predicted is left out."""
    found: dict[tuple[object, ...], tuple[list[int], ChartShape]] = {}
    for target, fit in enumerate(fits):
        if target != left_out:
            found.setdefault(fit.shape.key, ([], fit.shape))[0].append(target)
    return list(found.values())

"""The plant as a local polynomial regression of displacement and reward in state and action."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from nopg._seeding import generator
from nopg._typing import FloatArray, IntArray
from nopg.data import Transitions
from nopg.models._chart_fit import ChartFit
from nopg.models._chart_selection import HeldOutFit, select_shapes
from nopg.models._charts import Charts, ChartShape
from nopg.models._column_fit import ColumnFit
from nopg.models._config import LocalModelConfig
from nopg.models._excitation import Excitation, GlobalUncertainty
from nopg.models._limits import highest_reward, input_range, lowest_mean_reward, state_bounds
from nopg.models._model import RewardFunction
from nopg.models._regression_rows import RegressionRows
from nopg.models._residuals import ResidualCheck
from nopg.models._termination import TerminationRule

__all__ = ["LocalModel", "Prediction"]

# Predicted rewards are below the lowest logged one by at most this multiple of the logged range.
_REWARD_MARGIN_BELOW = 1.0
# A column with a lower R² on held-out rows is fitted poorly.
_LEAST_R_SQUARED = 0.5
_NUM_HALVES = 8
# Log-odds of the unknown share: at the centre of a chart, and their slope by δ², δ the distance to the
# nearest charts in radii. Within a radius almost nothing is unknown, at three radii almost everything. The
# variance of a prediction, where slopes are uncertain, adds to δ².
_LOG_ODDS_INSIDE, _LOG_ODDS_SLOPE = math.log(1e-4), 2.0
# Rows from which the correlation of the residuals is estimated.
_ROWS_SAMPLED = 1_000


@dataclass(frozen=True, slots=True)
class Prediction:
    """The prediction of one step.

    Attributes:
        displacement: s′ − s, shape (m, d_s).
        reward: r, shape (m,).
        noise: Standard deviation of the plant around the displacement, shape (m, d_s).
        unknown: Share of each (s, a) outside the support of the data, shape (m,).
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

    Each predicted column has its own inputs and distances if these predict held-out rows better. The residual
    of the charts is the noise of the plant. Part 0 of the model is fitted to all rows, the other parts to
    random halves of the groups of episodes, each followed by its complement.

    Args:
        data: The transitions.
        reward: The reward function, if it is known; otherwise it is fitted like a state column.
        costs: Further columns to predict, shape (n, k).
        seed: Random seed of the halves.
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
        self.state_space = rows.space.first(self.num_states)
        self.fits = select_shapes(rows)
        excitation = Excitation.of(rows)
        self._blocks = [
            Charts(rows, columns, shape, excitation)
            for columns, shape in _by_shape(self.fits, None if reward is None else self.num_states)
        ]
        self._fit(_halves(rows.num_groups, seed))
        self.termination = TerminationRule.of(data, self.state_space)
        rewards = data.rewards
        if reward is not None:
            rewards = reward(data.states, data.actions, data.next_states).detach().double()
        self._rewards = rewards
        low, high = float(rewards.min()), float(rewards.max())
        self.reward_low, self.reward_high = low, high
        self.reward_clamp = (
            low - _REWARD_MARGIN_BELOW * (high - low),
            highest_reward(rewards[rows.first], high - low),
        )
        self.bounds = state_bounds(data)
        self._range = input_range(rows, self._relevant_inputs())
        linear = [charts for charts in self._blocks if not charts.shape.is_local]
        self._unsure = GlobalUncertainty(rows, [(one.shape.global_degree, one.unexplained) for one in linear])
        self.noise_factor = self._noise_factor()

    def _fit(self, kept: Tensor) -> None:
        self.kept = kept
        self._chart_fits: list[ChartFit] = [ChartFit(charts, kept) for charts in self._blocks]

    def _relevant_inputs(self) -> Tensor:
        """Return whether a column that varies depends on an input, shape (d,)."""
        used = [fit.shape.used for k, fit in enumerate(self.fits) if self.rows.spread[k] > 0]
        nothing = torch.zeros(self.rows.inputs.shape[1], dtype=torch.bool)
        return torch.stack([nothing, *used]).any(dim=0) if self.reward_function is None else ~nothing

    def with_parts(self, kept: Tensor) -> LocalModel:
        """Return a copy of the model, fitted to other parts (P, G) of the groups."""
        model = copy.copy(self)
        model._fit(kept)  # noqa: SLF001 (a copy of this one)
        return model

    def steps_to_move(self, distance: float) -> float:
        """Return the number of steps in which the median logged step moves this many standard deviations."""
        step = float((self.rows.targets[:, : self.num_states] / self.state_space.units).norm(dim=1).median())
        return math.ceil(distance / step) if step > 0 else math.inf

    def worst_value(self, discount: float) -> float:
        """Return the value of the lowest logged mean reward over a horizon; ≤ 0 if the task can end."""
        distinct, episodes = self.rows.first.sort().values, self.data.episodes
        numbers = None if episodes is None else episodes[distinct]
        worst = lowest_mean_reward(self._rewards[distinct], numbers, discount) / (1.0 - discount)
        return worst if self.termination.never else min(worst, 0.0)

    @property
    def may_end(self) -> bool:
        """Whether a state can end the task."""
        return not self.termination.never

    def return_limits(self, discount: float) -> tuple[float, float]:
        """Return the lowest and the highest return of predicted rewards."""
        if self.reward_function is not None:
            return -math.inf, math.inf
        low, high = (reward / (1.0 - discount) for reward in self.reward_clamp)
        return (low, high) if self.termination.never else (min(low, 0.0), max(high, 0.0))

    def return_range(self, discount: float) -> float:
        """Return the difference of the highest and the lowest return of logged rewards."""
        low, high = self.reward_low / (1.0 - discount), self.reward_high / (1.0 - discount)
        return high - low if self.termination.never else max(high, 0.0) - min(low, 0.0)

    @property
    def num_parts(self) -> int:
        """Number of fits: one to all rows, and those to halves."""
        return len(self.kept)

    @property
    def num_charts(self) -> int:
        """Number of charts of all predicted columns."""
        return sum(len(charts.centers) for charts in self._blocks)

    @property
    def column_fits(self) -> tuple[ColumnFit, ...]:
        """The fit of each state column, and of the reward last, on held-out rows."""
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
        """The learned columns whose R² on held-out rows is low."""
        learned = self.num_states + (self.reward_function is None)
        return tuple(fit for fit in self.column_fits[:learned] if fit.r_squared < _LEAST_R_SQUARED)

    @cached_property
    def residual_check(self) -> ResidualCheck:
        """What residuals are, if not the noise of the plant."""
        return ResidualCheck.of(self.data, self.predict, self.rows.spread[: self.num_states])

    @property
    def noise_share(self) -> float:
        """The largest share of noise in the one-step variance of a state column."""
        shares = [0.0]
        for charts in self._blocks:
            for place, column in enumerate(charts.columns):
                if column < self.num_states and self.rows.spread[column] > 0:
                    variance = float(charts.noise[:, place].square().mean())
                    shares.append(variance / float(self.rows.spread[column]) ** 2)
        return max(shares)

    def predict(self, states: Tensor, actions: Tensor, part: Tensor | None = None) -> Prediction:
        """Return the prediction of one step from raw states (m, d_s) under actions (m, d_a).

        Args:
            states: Raw states.
            actions: Actions.
            part: Part of the model for each row, shape (m,); part 0, all rows of the log, if not given.
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
        """Return displacement, reward, costs, noise and log-odds of the unknown share at inputs (d, m).

        They are rows of an array (2 d_s + k + 2, m) for k costs. The second is their derivative by the
        inputs, shape (2 d_s + k + 2, d, m). Noise is 0 and slopes are empty if not requested.
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
        unsure, unsure_slope = self._unsure.at(inputs, slopes=slopes)
        out[-1] = _LOG_ODDS_INSIDE + _LOG_ODDS_SLOPE * (farthest + np.square(beyond).sum(axis=0) + unsure)
        if slopes:
            by_x[-1] = _LOG_ODDS_SLOPE * (farthest_slope + 2.0 * beyond / margin + unsure_slope)
        return out, by_x

    def _noise_factor(self) -> FloatArray:
        """Return the Cholesky factor of the correlation of the residuals of the state columns."""
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


def _halves(num_groups: int, seed: int) -> Tensor:
    """Return masks (P, G) of all groups, then of random halves, each followed by its complement."""
    rng = generator(seed, "halves")
    parts = [torch.ones(num_groups, dtype=torch.bool)]
    for _ in range(_NUM_HALVES // 2 if num_groups > 1 else 0):
        half = torch.zeros(num_groups, dtype=torch.bool)
        half[torch.randperm(num_groups, generator=rng)[: num_groups // 2]] = True
        parts += [half, ~half]
    return torch.stack(parts)


def _by_shape(fits: list[HeldOutFit], left_out: int | None) -> list[tuple[list[int], ChartShape]]:
    """Return the targets of each shape, with the shape; the target `left_out` is not predicted."""
    found: dict[tuple[object, ...], tuple[list[int], ChartShape]] = {}
    for target, fit in enumerate(fits):
        if target != left_out:
            found.setdefault(fit.shape.key, ([], fit.shape))[0].append(target)
    return list(found.values())

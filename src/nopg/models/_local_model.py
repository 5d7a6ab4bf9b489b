"""The plant as a local polynomial regression of displacement and reward in state and action."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from nopg._seeding import generator
from nopg._support import Support
from nopg._typing import RewardFunction
from nopg.bundles._fields import Fields
from nopg.data import Transitions
from nopg.data._bounds import action_limits
from nopg.data._derive import RewardFormula
from nopg.models._additive_reward import AdditiveReward
from nopg.models._chart_selection import LARGEST_ERROR, HeldOutFit, select_shapes
from nopg.models._known_columns import KnownColumns
from nopg.models._limits import (
    TerminationRule,
    highest_reward,
    logged_turns,
    lowest_mean_reward,
    state_bounds,
)
from nopg.models._log_summary import LogSummary, OwnRows, Statistics
from nopg.models._noise import Noise
from nopg.models._one_step import OneStep, Prediction
from nopg.models._regression_rows import RegressionRows, StateCoordinates
from nopg.models._residuals import HeldOutRows, Memory, Residuals, memory_of


@dataclass(frozen=True, slots=True)
class ColumnFit:
    """The quality of the fit of one predicted column.

    Attributes:
        name: State column, or "reward".
        inputs: Names of the inputs that it depends on.
        r_squared: R² on held-out rows, the noise of sensors aside; 1 for a constant column.
        error: Root mean squared error on held-out rows, in standard deviations of the column.
        error_of_all_inputs: The same with all inputs in use.
        degree: Degree of the polynomials.
    """

    name: str
    inputs: tuple[str, ...]
    r_squared: float
    error: float
    error_of_all_inputs: float
    degree: int


class ModelConfig(ABC):
    """What every config of a model has.

    Attributes:
        name: Of the model.
        has_rollouts: Whether its paths can evaluate a controller.
        unknown_value: v, the value of leaving the data.
    """

    __slots__ = ()

    name: ClassVar[str]
    has_rollouts: ClassVar[bool]
    unknown_value: float | None

    @abstractmethod
    def identity(self) -> dict[str, object]:
        """Return the settings that the numbers of a training depend on."""

    @classmethod
    @abstractmethod
    def from_settings(cls, settings: Fields) -> ModelConfig:
        """Return the config that a file has; see `ControlProblem.settings`."""


@dataclass(frozen=True, slots=True)
class LocalModelConfig(ModelConfig):
    """Settings of the local model.

    Attributes:
        reward: The reward as a function of states (m, d_s), actions (m, d_a) and next states (m, d_s) in
            torch, where it is known; fitted by default.
        unknown_value: v, the value of leaving the data; the worst that was logged, for ever, by default.
        summary: Of a large log, of which the data are a sample.
    """

    reward: RewardFunction | None = None
    unknown_value: float | None = None
    summary: LogSummary | None = None

    name: ClassVar[str] = "local"
    has_rollouts: ClassVar[bool] = True

    def identity(self) -> dict[str, object]:
        """Return the settings that the numbers of a training depend on."""
        return {
            "model": self.name,
            "reward": None if self.reward is None else "a function",
            "unknown_value": self.unknown_value,
            **({} if self.summary is None else {"rows of the log": self.summary.statistics.num_rows}),
        }

    @classmethod
    def from_settings(cls, settings: Fields) -> LocalModelConfig:
        """Return the config that a file has."""
        return cls(unknown_value=settings.number("unknown_value"))


# Predicted rewards are below the lowest logged one by at most this multiple of the logged range.
_REWARD_MARGIN_BELOW = 1.0
# A column with a lower R² on held-out rows is fitted poorly.
_LEAST_R_SQUARED = 0.5
# Halves of the groups that the uncertainty of answers comes from, in pairs of complements.
_NUM_HALVES = 8


class LocalModel:
    """s′ − s and r at any (s, a) by charts, from all rows and from halves of them.

    Each predicted column has its own inputs and distances if these predict held-out rows better. The residual
    of the charts is the noise of the plant. Part 0 of the model is fitted to all rows, the other parts to
    random halves of the groups of episodes, each followed by its complement.

    Args:
        data: The transitions.
        reward: The reward function, if it is known and no formula of the data; else it is fitted like a
            state column.
        costs: Further columns to predict, shape (n, k).
        seed: Random seed of the halves.
        groups: The group of each row, shape (n,), where it is given, as in a sample of a large log.
        whole: Sums over the log that the data are a sample of.
        own_rows: Rows of the plant itself, by which fits are judged, where the data are a sample of several
            plants.

    Attributes:
        steps: One step of the plant, by all parts.
        state_space: Units and angles of the states; all lags of a column together count as one.
        coordinates: In which values of states are interpolated.
        squares: What a regulator makes small: the stated reward, or squares that stand for a learned one;
            None where there is neither.
        is_sample: Whether the data are a sample of a log whose rows all count.
    """

    Config = LocalModelConfig

    def __init__(
        self,
        data: Transitions,
        *,
        reward: RewardFunction | None = None,
        costs: Tensor | None = None,
        seed: int = 0,
        groups: Tensor | None = None,
        whole: Statistics | None = None,
        own_rows: OwnRows | None = None,
    ) -> None:
        reward = data.reward_function if reward is None else reward
        self.data, self.reward_function, self.own_rows = data, reward, own_rows
        self.num_costs = 0 if costs is None else costs.shape[1]
        rows = RegressionRows.of(data, costs, groups)
        self.num_states, self.num_actions = data.states.shape[1], data.actions.shape[1]
        known = KnownColumns.of(data)
        space = rows.space.first(self.num_states)
        self.state_space = replace(space, units=known.weighted_units(space.units))
        distinct = data.take(rows.first[rows.sample])  # in an order that no log decides
        self.coordinates = StateCoordinates.of(distinct, space, known.derived.lags)
        left_out = [*np.flatnonzero(known.all).tolist(), *([] if reward is None else [self.num_states])]
        derived = range(known.num_measured, self.num_states)
        self.fits = select_shapes(rows, left_out, derived)
        charts, additive, self.squares = self.fits[self.num_states], None, data.reward_function
        if reward is None:
            additive = AdditiveReward.of(data, rows, charts.error)
        if additive is not None:
            self.fits[self.num_states] = additive.instead_of(charts)
            self.squares = additive.squares(data.schema)
        self.steps = OneStep(
            data,
            rows,
            self.fits,
            known,
            _halves(rows.num_groups, seed),
            additive=additive,
            knows_reward=reward is not None or additive is not None,
        )
        self.is_sample = whole is not None
        if whole is not None:
            self.steps.set_statistics(whole)
        self.termination = TerminationRule.of(distinct, self.state_space)
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
        self.bounds, self.turns = state_bounds(data), logged_turns(data)
        if own_rows is not None:
            self.fits = self._judged(own_rows)

    def _judged(self, own: OwnRows) -> list[HeldOutFit]:
        """Return the fits with their errors on the plant's own rows, each without its group."""
        held_out, d_s = self.held_out, self.num_states
        missed = torch.cat(
            [held_out.next_states - held_out.predicted, held_out.reward_errors[:, None]], dim=1
        )
        spread = own.targets.std(dim=0, correction=0)
        shares = (missed / torch.where(spread > 0, spread, 1.0)).square()[:, : d_s + 1]
        errors, missing = shares.clamp(max=1.0).mean(dim=0), shares.clamp(max=LARGEST_ERROR).mean(dim=0)
        return [
            replace(fit, error=float(errors[k]), r_squared=1.0 - float(missing[k]))
            for k, fit in enumerate(self.fits)
        ]

    @property
    def rows(self) -> RegressionRows:
        """Rows of the steps: distinct rows of the log, states filtered where sensors are noisy."""
        return self.steps.rows

    @property
    def support(self) -> Support:
        """Which states and actions the data know."""
        return self.steps.support

    @property
    def action_limits(self) -> Tensor:
        """Lowest and highest actions of a controller, shape (2, d_a).

        Declared bounds, up to a margin beyond the logged range, where little is unknown. Without bounds
        the logged range.
        """
        d_s, support = self.num_states, self.support
        logged = torch.stack([self.data.actions.amin(dim=0), self.data.actions.amax(dim=0)])
        declared, margin = torch.stack(action_limits(self.data)), torch.as_tensor(support.margin[d_s:])
        return torch.stack(
            [
                torch.maximum(declared[0], logged[0] - margin),
                torch.minimum(declared[1], logged[1] + margin),
            ]
        )

    @property
    def noise(self) -> Noise:
        """The noise of the plant and of its sensors."""
        return self.steps.noise

    def with_parts(self, kept: Tensor) -> LocalModel:
        """Return a copy of the model, fitted to other parts (P, G) of the groups."""
        model = copy.copy(self)
        model.__dict__.pop("held_out", None)
        model.steps = self.steps.with_parts(kept)
        return model

    def without_groups(self) -> LocalModel:
        """Return a copy whose part 0 is fitted to all rows and part 1 + g to all but group g."""
        G = self.rows.num_groups
        return self.with_parts(
            torch.cat([torch.ones(1, G, dtype=torch.bool), ~torch.eye(G, dtype=torch.bool)])
        )

    @property
    def exogenous_moves(self) -> dict[str, int]:
        """Number of rows in which each exogenous column that moves as in the log does so, by name."""
        steps = self.data.schema.difference(self.data.states, self.data.next_states)
        moved = (steps != 0).sum(dim=0).tolist()
        return {self.data.schema.states[k]: moved[k] for k in self.steps.known.moving}

    def steps_to_move(self, distance: float) -> float:
        """Return the number of steps in which the median logged step moves this many standard deviations."""
        step = float(self.coordinates.steps(self.rows.targets[:, : self.num_states]).median())
        return math.ceil(distance / step) if step > 0 else math.inf

    def worst_value(self, discount: float) -> float:
        """Return the value of the lowest logged mean reward over a horizon; ≤ 0 if the task can end."""
        distinct, episodes = self.rows.first.sort().values, self.data.episodes
        numbers = None if episodes is None else episodes[distinct]
        worst = lowest_mean_reward(self._rewards[distinct], numbers, discount) / (1.0 - discount)
        return worst if self.termination.never else min(worst, 0.0)

    def return_limits(self, discount: float) -> tuple[float, float]:
        """Return the lowest and the highest return of predicted rewards, or of a formula by its limits."""
        rewards = self.reward_clamp
        if isinstance(self.reward_function, RewardFormula):
            rewards = self.reward_function.limits
        elif self.reward_function is not None:
            rewards = -math.inf, math.inf
        low, high = (reward / (1.0 - discount) for reward in rewards)
        return (low, high) if self.termination.never else (min(low, 0.0), max(high, 0.0))

    def return_range(self, discount: float) -> float:
        """Return the difference of the highest and the lowest return of logged rewards."""
        low, high = self.reward_low / (1.0 - discount), self.reward_high / (1.0 - discount)
        return high - low if self.termination.never else max(high, 0.0) - min(low, 0.0)

    @property
    def num_parts(self) -> int:
        """Number of fits: one to all rows, and those to halves."""
        return len(self.steps.kept)

    @property
    def num_charts(self) -> int:
        """Number of charts of all predicted columns."""
        return sum(len(charts.centers) for charts in self.steps.blocks)

    @property
    def column_fits(self) -> tuple[ColumnFit, ...]:
        """The fit of each state column, and of the reward last, on held-out rows."""
        schema = self.data.schema
        names = (*schema.states, *schema.actions)
        return tuple(
            ColumnFit(
                name,
                tuple(names[k] for k in fit.shape.used.nonzero()[:, 0].tolist()),
                self._r_squared(k),
                fit.error**0.5,
                fit.error_of_all_inputs**0.5,
                max(fit.shape.degree, fit.shape.global_degree),
            )
            for k, (name, fit) in enumerate(zip((*schema.states, "reward"), self.fits, strict=False))
        )

    @property
    def learned_fits(self) -> tuple[ColumnFit, ...]:
        """The fits of the columns that are learned: neither formulas nor exogenous."""
        known = [*self.steps.known.all, self.reward_function is not None]
        return tuple(fit for fit, one in zip(self.column_fits, known, strict=True) if not one)

    def _r_squared(self, column: int) -> float:
        variance = float(self.rows.spread[column]) ** 2
        of_sensors = float(self.noise.in_steps[column]) if column < self.num_states else 0.0
        if variance <= of_sensors:
            return 1.0
        share = of_sensors / variance
        return 1.0 - max((1.0 - self.fits[column].r_squared) - share, 0.0) / (1.0 - share)

    @property
    def poor_fits(self) -> tuple[ColumnFit, ...]:
        """The learned columns whose R² on held-out rows is low."""
        return tuple(fit for fit in self.learned_fits if fit.r_squared < _LEAST_R_SQUARED)

    @cached_property
    def held_out(self) -> HeldOutRows:
        """Rows of the log, predicted without their group of episodes."""
        return HeldOutRows.of(self)

    @cached_property
    def residuals(self) -> Residuals | None:
        """Errors on held-out rows; None where there is a single group, or rows of other plants."""
        return None if self.rows.num_groups < 2 or self.own_rows is not None else Residuals.of(self)

    @cached_property
    def memory(self) -> tuple[Memory, ...]:
        """How far errors on held-out rows are predicted by what is not in these rows."""
        return () if self.residuals is None else memory_of(self.residuals)

    @cached_property
    def coarse(self) -> dict[str, float]:
        """Steps of columns that are logged more coarsely than they change; see `Residuals.coarse`."""
        return {} if self.residuals is None else self.residuals.coarse

    @property
    def noise_share(self) -> float:
        """The largest share of noise, sensors included, in the one-step variance of a state column."""
        return self.steps.noise_share

    def predict(self, states: Tensor, actions: Tensor, part: Tensor | None = None) -> Prediction:
        """Return the prediction of one step; see `OneStep.predict`."""
        return self.steps.predict(states, actions, part)


def _halves(num_groups: int, seed: int) -> Tensor:
    """Return masks (P, G) of all groups, then of random halves, each followed by its complement."""
    rng = generator(seed, "halves")
    parts = [torch.ones(num_groups, dtype=torch.bool)]
    for _ in range(_NUM_HALVES // 2 if num_groups > 1 else 0):
        half = torch.zeros(num_groups, dtype=torch.bool)
        half[torch.randperm(num_groups, generator=rng)[: num_groups // 2]] = True
        parts += [half, ~half]
    return torch.stack(parts)

"""One step of the plant: charts of all columns, the noise around them and the unknown share."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from nopg._support import Support, unknown_share
from nopg._typing import FloatArray, IntArray
from nopg.data import Transitions
from nopg.models._additive_reward import AdditiveReward
from nopg.models._chart_fit import ChartFit
from nopg.models._chart_selection import HeldOutFit
from nopg.models._charts import Charts
from nopg.models._excitation import Excitation, fit_variances
from nopg.models._known_columns import ExogenousPaths, KnownColumns
from nopg.models._limits import input_range
from nopg.models._log_summary import Statistics
from nopg.models._noise import Noise, filtered_states
from nopg.models._reach import LEAST_GROWTH, growth_of, growth_of_reward
from nopg.models._regression_rows import RegressionRows, RowBatch
from nopg.models._sums import ChartShape

# How often states are filtered and steps fitted again, and how far from the second time on: a stiff fit leads
# to a filter after which the next is loose, and the reverse.
_FILTERINGS, _DAMPING = 3, 0.5


@dataclass(frozen=True, slots=True)
class Prediction:
    """The prediction of one step.

    Attributes:
        displacement: s′ − s, shape (m, d_s).
        reward: r, shape (m,).
        noise: Standard deviation of the measured displacement, sensors included, shape (m, d_s).
        unknown: Share of each (s, a) outside the data, by `Support`, shape (m,).
        displacement_slope: Derivative of the displacement by (s, a), shape (m, d_s, d_s + d_a).
        reward_slope: Derivative of the reward, shape (m, d_s + d_a).
    """

    displacement: Tensor
    reward: Tensor
    noise: Tensor
    unknown: Tensor
    displacement_slope: Tensor
    reward_slope: Tensor


class OneStep:
    """Displacement, reward and costs at any (s, a) by charts, from all rows and from parts of them.

    Where sensors are noisy, steps are fitted from filtered states. Rewards and costs are those of measured
    states.

    Args:
        data: The log.
        rows: Its rows, as measured.
        fits: Shapes of all columns.
        known: State columns that are not learned.
        kept: Parts (P, G) of the groups.
        additive: The reward as a sum, where it is learned so.
        knows_reward: Whether charts do not predict the reward.

    Attributes:
        rows: Rows of the steps: states as measured, or filtered.
        blocks: Charts, by shape.
        noise: Of the plant and of its sensors.
        exogenous: Moves of columns that no action moves.
        reward: The reward as a sum, which depends on the next state; None where charts predict it.
        support: How far inputs are known.
    """

    def __init__(
        self,
        data: Transitions,
        rows: RegressionRows,
        fits: Sequence[HeldOutFit],
        known: KnownColumns,
        kept: Tensor,
        *,
        additive: AdditiveReward | None = None,
        knows_reward: bool = False,
    ) -> None:
        self.num_states = data.states.shape[1]
        self.num_costs = rows.targets.shape[1] - self.num_states - 1
        distinct = data.take(rows.first)
        self._data, self._fits, self.known = distinct, fits, known
        self._left_out = {*np.flatnonzero(known.all).tolist()}
        self._left_out |= {self.num_states} if knows_reward else set()
        self._additive, self._growth_of_reward = additive, 1.0
        self._place(rows)
        self.fit(kept)
        self._measure_noise(distinct)
        self._filter(distinct, kept)
        self._measure_growth()

    def _measure_growth(self) -> None:
        """Set how far beyond the rows the charts hold."""
        for charts in self.blocks:
            charts.growth = growth_of(charts, self._excitations[1], self.known.past)
        if self._additive is not None:
            self._growth_of_reward = growth_of_reward(self._additive, self.rows, self.known.past)
        self.support = self._support()
        self.fit(self.kept)

    def _place(self, rows: RegressionRows, others: list[Charts] | None = None) -> None:
        """Set the charts of the steps of some rows, and those of all other columns unless they are given."""
        self.rows, inert, shapes = rows, self._inert_inputs(rows), _by_shape(self._fits, self._left_out)
        degrees = {1, *(shape.global_degree for _, shape in shapes if not shape.is_local)}
        self._excitations: Mapping[int, Excitation]
        self._excitations = {degree: Excitation.of(rows, degree, inert) for degree in degrees}
        blocks = list(others or ())
        for columns, shape in shapes:
            placed = [column for column in columns if others is None or column < self.num_states]
            if placed:
                blocks.append(Charts(rows, placed, shape, self._excitations[1]))
        self.blocks = blocks
        self._extremes = rows.extremes
        self.support = self._support()
        self.noise = Noise.independent(self.num_states)
        self._of_sensors: FloatArray = np.zeros(self.num_states)

    def _support(self) -> Support:
        """Return how far inputs are known, by charts, by the logged range and by global fits."""
        linear = [(one.shape.global_degree, one.unexplained) for one in self.blocks if not one.shape.is_local]
        return Support(
            *input_range(self.rows.space, self._extremes, self._growth_by_input(), self.known.past),
            charts=tuple(one.support for one in self.blocks if len(one.centers)),
            fits=fit_variances(self._excitations, linear),
        )

    def statistics(self, data: Transitions, groups: Tensor) -> Statistics:
        """Return the sums over other rows, in groups (n,), that the predictions are a function of.

        Charts stay where they are, and states are filtered with the noise of these sensors; for that, rows
        follow each other.
        """
        steps = measured = RowBatch.of_log(data, groups, self.rows.num_groups)
        if self.noise.sensors.any():
            states = filtered_states(data, self.predict, self.noise, self.known)
            steps = RowBatch.of_log(replace(data, states=states), groups, self.rows.num_groups)
        return self.sums_of(steps, measured)

    def sums_of(self, steps: RowBatch, measured: RowBatch) -> Statistics:
        """Return the sums over rows of steps, which may be filtered, and over those of rewards and costs."""
        blocks = [
            charts.sums_of(steps if charts.columns[0] < self.num_states else measured)
            for charts in self.blocks
        ]
        excitations = {degree: one.of_rows(steps) for degree, one in self._excitations.items()}
        return Statistics(tuple(blocks), excitations, steps.extremes)

    @property
    def fitted_statistics(self) -> Statistics:
        """The sums that the predictions rest on."""
        blocks = tuple((charts.whole, charts.sums) for charts in self.blocks)
        return Statistics(blocks, self._excitations, self._extremes)

    def lean(self) -> OneStep:
        """Return a copy that predicts and sums but cannot be fitted again, for other processes."""
        one = copy.copy(self)
        one.blocks = [charts.without_sums() for charts in self.blocks]
        return one

    def fits_to(self, statistics: Statistics) -> list[ChartFit]:
        """Return the charts, fitted to sums over other rows, for `targets`."""
        everything = torch.ones(1, self.rows.num_groups, dtype=torch.bool)
        return [
            ChartFit(charts.with_sums(sums, None), everything)
            for charts, sums in zip(self.blocks, statistics.blocks, strict=True)
        ]

    def targets(self, fits: Sequence[ChartFit], inputs: Tensor) -> Tensor:
        """Return targets (m, t) at inputs (m, d) by `fits_to`; 0 in columns that are known."""
        out = torch.zeros(len(inputs), len(self._fits), dtype=torch.float64)
        for fit in fits:
            y, _ = fit.predict(inputs.T.contiguous().numpy(), None, slopes=False, noise=False)
            out[:, fit.columns] = torch.as_tensor(y[: len(fit.columns)].T)
        return out

    def set_statistics(self, statistics: Statistics) -> None:
        """Set everything that follows from sums over other rows, in place."""
        self._excitations, self._extremes = statistics.excitations, statistics.extremes
        self.blocks = [
            charts.with_sums(sums, statistics.excitations[1])
            for charts, sums in zip(self.blocks, statistics.blocks, strict=True)
        ]
        self.support = self._support()
        self.fit(self.kept)

    def _used_inputs(self, rows: RegressionRows) -> Tensor:
        """Return whether a column that is learned and varies depends on an input, shape (d,)."""
        learned = [k for k in range(len(self._fits)) if k not in self._left_out and rows.spread[k] > 0]
        nothing = torch.zeros(rows.inputs.shape[1], dtype=torch.bool)
        return torch.stack([nothing, *(self._fits[k].shape.used for k in learned)]).any(dim=0)

    def _inert_inputs(self, rows: RegressionRows) -> Tensor:
        """Return which inputs are derived ones that nothing depends on, shape (d,)."""
        derived = torch.zeros(rows.inputs.shape[1], dtype=torch.bool)
        derived[self.known.num_measured : self.num_states] = True
        return derived & ~self._used_inputs(rows)

    def _growth_by_input(self) -> Tensor:
        """Return the largest growth of the error of a column that depends on an input, shape (d,)."""
        least = LEAST_GROWTH if self._additive is None else self._growth_of_reward
        growth = torch.full((self.rows.inputs.shape[1],), least, dtype=torch.float64)
        for charts in self.blocks:
            if bool((self.rows.spread[charts.columns] > 0).any()):
                here = torch.where(charts.shape.used, charts.growth, LEAST_GROWTH)
                growth = torch.maximum(growth, here.double())
        return growth

    def _filter(self, data: Transitions, kept: Tensor) -> None:
        """Fit the steps from filtered states of the distinct rows of a log, where sensors are noisy."""
        if not self.noise.sensors.any():
            return
        measured, others, states = self.rows, self._others(), data.states
        for number in range(_FILTERINGS):
            filtered = filtered_states(data, self.predict, self.noise, self.known)
            apart = data.schema.difference(states, filtered)
            states = states + (apart if number == 0 else _DAMPING * apart)
            self._place(measured.filtered(data, states), others)
            self.fit(kept if number == _FILTERINGS - 1 else kept[:1])
            self._measure_noise(data)
            if not self.noise.sensors.any():
                break
        else:
            return
        self._place(measured)  # the sensors turned out to be good
        self.fit(kept)
        self._measure_noise(data)

    def _others(self) -> list[Charts]:
        """Return the charts of rewards and costs."""
        others = []
        for block in self.blocks:
            columns = [column for column in block.columns if column >= self.num_states]
            if columns == block.columns:
                others.append(block)
            elif columns:
                others.append(Charts(self.rows, columns, block.shape, self._excitations[1]))
        return others

    def _measure_noise(self, data: Transitions) -> None:
        """Set the noise of distinct rows, and take that of sensors off the residuals of the charts."""
        self.noise = Noise.of(data, self.predict, self.rows.spread[: self.num_states], self.known)
        if self.noise.sensors.any():
            left = np.diag(self.noise.disturbances)
            self._of_sensors = np.maximum(self._variances() - left, 0.0)
            self._subtract_sensors()

    def _variances(self) -> FloatArray:
        """Return the mean residual variance of the state columns, shape (d_s,)."""
        variances = np.zeros(self.num_states)
        for charts in self.blocks:
            for place, column in enumerate(charts.columns):
                if column < self.num_states:
                    variances[column] = float(charts.noise[:, place].square().mean())
        return variances

    def _subtract_sensors(self) -> None:
        for fit in self.chart_fits:
            fit.subtract_sensors(self._of_sensors)

    def fit(self, kept: Tensor) -> None:
        """Fit parts (P, G) of the groups."""
        self.kept = kept
        self.exogenous = ExogenousPaths(self._data, self.known, self.rows.groups, kept, self.rows.weights)
        self.chart_fits = [ChartFit(charts, kept) for charts in self.blocks]
        self.reward = None if self._additive is None else self._additive.fitted(kept)
        self._subtract_sensors()

    def with_parts(self, kept: Tensor) -> OneStep:
        """Return a copy, fitted to other parts (P, G) of the groups."""
        one = copy.copy(self)
        one.fit(kept)
        return one

    @property
    def noise_share(self) -> float:
        """The largest share of noise, sensors included, in the one-step variance of a state column."""
        spread = self.rows.spread[: self.num_states].numpy()
        shares = self._variances()[spread > 0] / spread[spread > 0] ** 2
        return float(shares.max(initial=1.0 if self.known.moving else 0.0))

    def predict(self, states: Tensor, actions: Tensor, part: Tensor | None = None) -> Prediction:
        """Return the prediction of one step from raw states (m, d_s) under actions (m, d_a).

        Each row has its part (m,) of the model; part 0, all rows of the log, by default.
        """
        inputs = torch.cat([states, actions], dim=1).T.numpy()
        out, slopes = self.step(inputs, None if part is None else part.numpy())
        d_s = self.num_states
        y, dy = torch.as_tensor(out.T), torch.as_tensor(slopes.transpose(2, 0, 1))
        return Prediction(
            displacement=y[:, :d_s],
            reward=y[:, d_s],
            noise=(y[:, -1 - d_s : -1].square() + torch.as_tensor(self.noise.in_steps)).sqrt(),
            unknown=torch.as_tensor(unknown_share(out[-1])),
            displacement_slope=dy[:, :d_s],
            reward_slope=dy[:, d_s],
        )

    def step(
        self,
        inputs: FloatArray,
        part: IntArray | None,
        *,
        measured: FloatArray | None = None,
        slopes: bool = True,
        noise: bool = True,
    ) -> tuple[FloatArray, FloatArray]:
        """Return displacement, reward, costs, disturbance and log-odds of the unknown share at inputs (d, m).

        They are rows of an array (2 d_s + k + 2, m) for k costs. The second is their derivative by the
        inputs, shape (2 d_s + k + 2, d, m). Disturbances are 0 and slopes are empty if not requested. Rewards
        and costs are those of measured inputs (d, m), where these differ.
        """
        d, m = inputs.shape
        d_s, first_noise = self.num_states, self.num_states + 1 + self.num_costs
        num_rows = first_noise + d_s + 1
        out, by_x = np.zeros((num_rows, m)), np.zeros((num_rows if slopes else 0, d, m))
        farthest, farthest_slope = np.zeros(m), np.zeros((d, m))
        for fit in self.chart_fits:
            y, slope = self._at(fit, inputs, measured, part, slopes=slopes, noise=noise)
            t = len(fit.columns)
            spread = [first_noise + column for column in fit.columns if column < d_s and noise]
            out[fit.columns], out[spread] = y[:t], y[t : t + len(spread)]  # states come first
            farther = y[-1] > farthest
            farthest = np.where(farther, y[-1], farthest)
            if slope is not None:
                by_x[fit.columns], by_x[spread] = slope[:t], slope[t : t + len(spread)]
                farthest_slope = np.where(farther, slope[-1], farthest_slope)
        around, around_slope = self.support.around(inputs, slopes=slopes)
        out[-1] = self.support.inside + self.support.slope * (farthest + around)
        if slopes:
            by_x[-1] = self.support.slope * (farthest_slope + around_slope)
        self._add_known(inputs, out, by_x if slopes else None)
        if self.reward is not None:
            seen, after = inputs if measured is None else measured, inputs[:d_s] + out[:d_s]
            out[d_s], by = self.reward.at(seen, after, part)
            if slopes:
                by_x[d_s] = by[:d] + (by[d:, None] * by_x[:d_s]).sum(axis=0)
                by_x[d_s, :d_s] += by[d:]
        return out, by_x

    def reward_slopes(self, inputs: FloatArray) -> FloatArray:
        """Return the derivative (d, m) of the predicted reward at inputs (d, m)."""
        if self.reward is not None:
            return np.asarray(self.step(inputs, None, noise=False)[1][self.num_states])
        [(fit, place)] = [
            (fit, fit.columns.index(self.num_states))
            for fit in self.chart_fits
            if self.num_states in fit.columns
        ]
        _, slopes = fit.predict(inputs, None, noise=False)
        assert slopes is not None
        by_x: FloatArray = slopes[place]
        return by_x

    def _add_known(self, inputs: FloatArray, out: FloatArray, by_x: FloatArray | None) -> None:
        """Set the displacement of derived columns, and its derivative, in place."""
        d_s, k = self.num_states, self.known.num_measured
        if k == d_s:
            return
        after = inputs[:d_s] + out[:d_s]
        self.known.complete(after, inputs[:d_s], inputs[d_s:])
        out[k:d_s] = after[k:] - inputs[k:d_s]
        if by_x is not None:
            own = np.arange(d_s)
            by_x[own, own] += 1.0
            self.known.complete_slopes(by_x[:d_s])
            by_x[own, own] -= 1.0

    def _at(
        self,
        fit: ChartFit,
        inputs: FloatArray,
        measured: FloatArray | None,
        part: IntArray | None,
        *,
        slopes: bool,
        noise: bool,
    ) -> tuple[FloatArray, FloatArray | None]:
        """Return `ChartFit.predict`, rewards and costs at measured inputs."""
        later = [place for place, column in enumerate(fit.columns) if column >= self.num_states]
        if measured is None or not later:
            return fit.predict(inputs, part, slopes=slopes, noise=noise)
        seen, seen_slope = fit.predict(measured, part, slopes=slopes, noise=noise)
        if len(later) == len(fit.columns):
            return seen, seen_slope
        y, slope = fit.predict(inputs, part, slopes=slopes, noise=noise)
        y[later] = seen[later]
        if slope is not None and seen_slope is not None:
            slope[later] = seen_slope[later]
        return y, slope


def _by_shape(fits: Sequence[HeldOutFit], left_out: set[int]) -> list[tuple[list[int], ChartShape]]:
    """Return the targets of each shape, with the shape; some targets are not predicted."""
    blocks: dict[tuple[object, ...], tuple[list[int], ChartShape]] = {}
    for target, fit in enumerate(fits):
        if target not in left_out:
            blocks.setdefault(fit.shape.key, ([], fit.shape))[0].append(target)
    return list(blocks.values())

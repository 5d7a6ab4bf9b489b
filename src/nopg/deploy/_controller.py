"""A saved controller in numpy: raw observations in, actions out, and points of raw inputs in its features."""

from __future__ import annotations

import math
import os
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nopg._columns import Columns
from nopg._stream import Streaming, as_numbers, check_states, wrong_shape
from nopg._support import ChartSupport, FirstFeatures
from nopg.bundles import SavedController, open_bundle, read_controller
from nopg.bundles._policies import Numbers, read_only
from nopg.errors import ObservationError

Whole = npt.NDArray[np.int64]
PLAIN, COSINE, SINE = range(3)


def load(path: str | os.PathLike[str]) -> RuntimeController:
    """Return the controller in the file that `TrainingResult.save` wrote.

    It needs numpy and safetensors only; data and solution are not read. An incomplete, changed or
    inconsistent file raises `BundleError`.
    """
    return RuntimeController(read_controller(open_bundle(path)))


class RuntimeController(Streaming):
    """A policy with its columns, its limits and where its training data are, as `load` returns it.

    Observations and actions are raw, in the units of the data. Every method takes one observation (d_s,) or
    several (m, d_s). An observation of another shape, or with a number that is not finite, raises
    `ObservationError`. Where the columns have a memory (derived columns, or missing values that are held),
    `stream` acts on measurements, and the other methods take whole states.

    Attributes:
        saved: The controller as it was read.
        columns: Names, angles, units and bounds.
        low: The lowest value of every action, shape (d_a,): its declared bound, else the end of the policy's
            range, else −∞.
        high: The highest value of every action.
        largest: The largest absolute value of every state column at which an angle has a direction; ∞ of
            other columns.
    """

    def __init__(self, saved: SavedController) -> None:
        self.saved, self.columns = saved, saved.columns
        self._features, self._policy = Embedding.of_columns(saved.columns), saved.law
        self.low, self.high = self._policy.limits(saved.columns)
        largest = {name: saved.columns.largest_angle(name) for name in saved.columns.angles}
        self.largest = read_only(np.array([largest.get(name, math.inf) for name in saved.columns.states]))

    def _observed(self) -> Columns:
        return self.columns

    def __call__(self, observation: npt.ArrayLike) -> Numbers:
        """Return the action (d_a,) at an observation (d_s,), or actions (m, d_a) at observations (m, d_s).

        The action of a stochastic policy is its mean. Actions lie between `low` and `high`.
        """
        actions = self._actions(self._states(observation))
        if not np.isfinite(actions).all():
            raise ObservationError("the observation is so large that the action of the policy is not finite")
        return actions.reshape(*np.shape(observation)[:-1], len(self.low))

    def unknown(self, observation: npt.ArrayLike) -> Numbers:
        """Return the unknown share of the state and its action at an observation, (), or at several, (m,)."""
        return self.action_and_unknown(observation)[1]

    def action_and_unknown(self, observation: npt.ArrayLike) -> tuple[Numbers, Numbers]:
        """Return the action and the unknown share; where the action is not finite, that is 1."""
        states = self._states(observation)
        actions = self._actions(states)
        finite = np.asarray(np.isfinite(actions).all(axis=1))
        inputs = np.concatenate([states, np.where(finite[:, None], actions, 0.0)], axis=1)
        unknown = np.where(finite, self.saved.support.unknown(inputs), 1.0)
        shape = np.shape(observation)[:-1]
        return actions.reshape(*shape, len(self.low)), unknown.reshape(shape)

    def _states(self, observation: npt.ArrayLike) -> Numbers:
        """Return raw states (m, d_s) on which a controller may act; others are refused."""
        values, size = as_numbers(observation), len(self.columns.states)
        if values is None:
            raise ObservationError(f"an observation is made of numbers, and {observation!r} is not")
        if values.ndim not in {1, 2} or values.shape[-1] != size:
            raise ObservationError(wrong_shape(self.columns, values.shape))
        states = values.reshape(-1, size)
        check_states(self.columns, states)
        return states

    def _actions(self, states: Numbers) -> Numbers:
        """Return the actions (m, d_a) within their limits at states (m, d_s); NaN where there is none."""
        with np.errstate(over="ignore", invalid="ignore"):
            actions = self._policy(self._features(states))
        return np.where(np.isfinite(actions), np.clip(actions, self.low, self.high), np.nan)

    def __repr__(self) -> str:
        columns = self.columns
        return f"RuntimeController({', '.join(columns.states)} → {', '.join(columns.actions)})"


class Embedding(NamedTuple):
    """Coordinates scale·wave((x − origin)/unit) of raw inputs x, all arrays of shape (e,)."""

    columns: Whole  # the input of each coordinate; an angle gives its cosine, then its sine
    origins: Numbers  # 0 of an angle
    units: Numbers  # one radian of an angle
    waves: Whole  # `PLAIN`, `COSINE` or `SINE`
    scales: Numbers

    @classmethod
    def of_columns(cls, columns: Columns) -> Embedding:
        """Return the features (d_f,) of states (d_s,)."""
        periods = np.array([columns.angles.get(name, 0.0) for name in columns.states])
        return cls._of(periods, np.ones(len(periods)))

    @classmethod
    def of_charts(cls, charts: ChartSupport) -> Embedding:
        """Return the points of states and actions (d,) in the metric of charts; one that is 0 if all are."""
        found = cls._of(charts.periods, charts.weights)
        found = found._replace(scales=found.scales * np.where(found.waves == PLAIN, 1.0, found.units))
        used = np.flatnonzero(found.scales) if charts.weights.any() else [0]
        waves, scales = found.waves[used], found.scales[used]
        return cls(found.columns[used], found.origins[used], found.units[used], waves, scales)

    @classmethod
    def of_fit(cls, first: FirstFeatures) -> Embedding:
        """Return the features of degree 1 of states and actions (d,)."""
        waves = np.zeros(len(first), np.int64)
        waves[first.sines - 1], waves[first.sines] = COSINE, SINE
        columns = first.columns.astype(np.int64)
        return cls(columns, first.origin[:, 0], first.units[:, 0], waves, np.ones(len(first)))

    @classmethod
    def _of(cls, periods: Numbers, scales: Numbers) -> Embedding:
        columns = np.repeat(np.arange(len(periods)), 1 + (periods > 0))
        is_angle, is_sine = periods[columns] > 0, np.diff(columns, prepend=-1) == 0
        units = np.where(is_angle, periods[columns] / (2 * math.pi), 1.0)
        waves = np.where(is_angle, np.where(is_sine, SINE, COSINE), PLAIN)
        return cls(columns, np.zeros(len(columns)), units, waves, scales[columns])

    def __call__(self, x: Numbers) -> Numbers:
        """Return the points (m, e) of raw inputs (m, d)."""
        points: Numbers = (x[:, self.columns] - self.origins) / self.units
        if self.waves.any():
            points = np.choose(self.waves, [points, np.cos(points), np.sin(points)])
        return points * self.scales

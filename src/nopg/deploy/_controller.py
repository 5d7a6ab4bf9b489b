"""A saved controller in numpy: raw observations in, actions out."""

from __future__ import annotations

import math
import os

import numpy as np
import numpy.typing as npt

from nopg._columns import Columns
from nopg._stream import Streaming, as_numbers, check_states, wrong_shape
from nopg.bundles import SavedController, open_bundle, read_controller
from nopg.bundles._policies import read_only
from nopg.deploy._embedding import Embedding, Numbers
from nopg.errors import ObservationError


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

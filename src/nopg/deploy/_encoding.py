"""The columns of a controller in numpy: observations to features, and the limits of the actions."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nopg._columns import Columns
from nopg._stream import as_numbers, check_states, wrong_shape
from nopg.errors import ObservationError

Numbers = npt.NDArray[np.float64]


class FeatureMap(NamedTuple):
    """For every feature, each (d_f,): its state column, whether that is an angle, and 2π/period and phase."""

    sources: npt.NDArray[np.int64]
    angular: npt.NDArray[np.bool_]
    turns: Numbers
    phases: Numbers


def feature_map(columns: Columns) -> FeatureMap:
    """Return the map x ↦ sin(turns·x + phase) of angles; the cosine comes first, as a sine with phase π/2."""
    sources = columns.feature_columns
    periods = [columns.angles.get(columns.states[k], math.inf) for k in sources]
    phases = [math.pi / 2 if sources.index(k) == at else 0.0 for at, k in enumerate(sources)]
    turns = [2 * math.pi / period for period in periods]
    return FeatureMap(np.array(sources), np.isfinite(periods), np.array(turns), np.array(phases))


class Encoding:
    """The map from raw observations to features: an angle θ of period T becomes cos 2πθ/T and sin 2πθ/T.

    Args:
        columns: Of the observations.
    """

    def __init__(self, columns: Columns) -> None:
        self._columns, self._names, self._map = columns, columns.states, feature_map(columns)
        self._without_angles = not columns.angles

    def states(self, observation: npt.ArrayLike) -> Numbers:
        """Return raw states (m, d_s); another shape or another type is refused."""
        values = as_numbers(observation)
        if values is None:
            raise ObservationError(f"an observation is made of numbers, and {observation!r} is not")
        if values.ndim not in {1, 2} or values.shape[-1] != len(self._names):
            raise ObservationError(wrong_shape(self._columns, values.shape))
        return values.reshape(-1, len(self._names))

    def features(self, states: Numbers) -> Numbers:
        """Return finite features (m, d_f) of raw states (m, d_s); a state that is not finite is refused."""
        check_states(self._columns, states)
        if self._without_angles:
            return states

        sources, angular, turns, phases = self._map
        raw = states.take(sources, axis=1)
        return np.where(angular, np.sin(raw * turns + phases), raw)


def wider_range(
    one: tuple[Numbers, Numbers] | None, other: tuple[Numbers, Numbers] | None
) -> tuple[Numbers, Numbers] | None:
    """Return the lowest and highest actions (d_a,) of two ranges; None if one of them has no limits."""
    if one is None or other is None:
        return None
    return np.minimum(one[0], other[0]), np.maximum(one[1], other[1])


def action_limits(columns: Columns, action_range: tuple[Numbers, Numbers] | None) -> tuple[Numbers, Numbers]:
    """Return the lowest and the highest value of every action, both (d_a,).

    They are the declared bounds of a column, else the range of the policy, else ∓∞ (linear policies).

    Args:
        columns: Names and bounds.
        action_range: The lowest and highest action of the policy, both (d_a,), or None.

    Example:
        >>> columns = Columns(("level",), ("valve", "pump"), bounds={"valve": (0.0, 1.0)})
        >>> low, high = action_limits(columns, (np.array([0.1, 1.0]), np.array([0.9, 3.0])))
        >>> low.tolist(), high.tolist()
        ([0.0, 1.0], [1.0, 3.0])
    """
    if action_range is None:
        low, high = np.full((2, len(columns.actions)), [[-math.inf], [math.inf]])
    else:
        low, high = action_range[0].copy(), action_range[1].copy()
    for k, name in enumerate(columns.actions):
        if name in columns.bounds:
            low[k], high[k] = columns.bounds[name]
    return low, high

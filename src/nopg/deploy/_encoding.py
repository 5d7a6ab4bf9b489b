"""What a sensor says, checked, and as the features that policy and support take."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from nopg._columns import Columns
from nopg.errors import ObservationError

__all__ = ["Encoding", "as_numbers"]

Numbers = npt.NDArray[np.float64]


class Encoding:
    """The map from raw observations to features: an angle θ of period T becomes cos 2πθ/T and sin 2πθ/T.

    Args:
        columns: Of the observations.
    """

    def __init__(self, columns: Columns) -> None:
        self._names, sources = columns.states, columns.feature_columns
        periods = [columns.angles.get(columns.states[k], math.inf) for k in sources]
        self._sources, self._angular = np.array(sources), np.isfinite(periods)
        self._without_angles = not columns.angles
        self._turns = np.array([2 * math.pi / period for period in periods])
        # Of the two features of an angle the cosine comes first: a sine a quarter of a turn ahead.
        self._phases = np.array(
            [math.pi / 2 if sources.index(k) == at else 0.0 for at, k in enumerate(sources)]
        )

    def states(self, observation: npt.ArrayLike) -> Numbers:
        """Return raw states (m, d_s); what has another shape, or is no number, is refused."""
        values = as_numbers(observation)
        if values is None:
            raise ObservationError(f"an observation is made of numbers, and {observation!r} is not")
        if values.ndim not in {1, 2} or values.shape[-1] != len(self._names):
            raise ObservationError(
                f"an observation has {len(self._names)} numbers ({', '.join(self._names)}), "
                f"this one has shape {values.shape}"
            )
        return values.reshape(-1, len(self._names))

    def features(self, states: Numbers) -> Numbers:
        """Return finite features (m, d_f) of raw states (m, d_s); a state without them is refused."""
        if not np.isfinite(states).all():
            row, column = np.argwhere(~np.isfinite(states))[0]
            raise ObservationError(
                f"{self._names[column]} is {states[row, column]}; no controller may act on that. Ask the "
                "sensor again, or fall back"
            )
        if self._without_angles:
            return states

        raw = states.take(self._sources, axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            features = np.where(self._angular, np.sin(raw * self._turns + self._phases), raw)
        if not np.isfinite(features).all():
            raise ObservationError("an angle is so large that it has no direction")
        return features


def as_numbers(values: npt.ArrayLike) -> Numbers | None:
    """Return an array of real numbers, or None if it is made of something else."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):  # rows of different lengths
        return None
    return array.astype(np.float64, copy=False) if array.dtype.kind in "fiu" else None

"""Checks of measurements and time stamps, step by step: what is missing, late or frozen."""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt

from nopg._columns import Columns
from nopg._stream import as_numbers
from nopg.deploy._encoding import Numbers
from nopg.deploy._guard_rules import GuardRules
from nopg.errors import ArgumentError

LARGEST_ANGLE = 1e15
"""An angle beyond it is no measurement: neighbouring float64 numbers are more than 0.1 apart."""


def largest_values(columns: Columns) -> npt.NDArray[np.float64]:
    """Return the largest usable absolute value of every measured column, shape (d_x,)."""
    most = sys.float_info.max
    return np.array([LARGEST_ANGLE if name in columns.angles else most for name in columns.measured])


class SensorChecks:
    """The faults of sensors and clock of one plant.

    Args:
        columns: Of the controller.
        rules: Deadline, and when a column is frozen.
    """

    def __init__(self, columns: Columns, rules: GuardRules) -> None:
        self._names, self._largest = columns.measured, largest_values(columns)
        self._limits, self._deadline = rules.frozen_limits(columns), rules.deadline
        self._checks_frozen = bool(np.isfinite(self._limits).any())
        self.reset()

    def reset(self) -> None:
        """Clear the memory."""
        self._time: float | None = None
        self._last, self._repeats = np.full(len(self._names), np.nan), np.zeros(len(self._names))

    def usable(self, observation: npt.ArrayLike) -> npt.ArrayLike:
        """Return measurements (d_x,) with NaN for what is masked, not finite, or too large for an angle.

        What has another shape or type is returned as it is.
        """
        if isinstance(observation, np.ma.MaskedArray) and observation.dtype.kind in "fiu":
            observation = np.where(np.ma.getmaskarray(observation), np.nan, observation.data)
        values = as_numbers(observation)
        if values is None or values.shape != self._largest.shape:
            return observation
        fits = np.abs(values) <= self._largest  # false for NaN
        return values if fits.all() else np.where(fits, values, np.nan)

    def fault(self, measured: Numbers, time: float | None, now: float | None) -> str | None:
        """Return what is wrong with usable measurements (d_x,) and their finite time, and remember both."""
        clock, frozen = self._clock_fault(time, now), self._frozen_fault(measured)
        return clock or frozen

    def _clock_fault(self, time: float | None, now: float | None) -> str | None:
        before, self._time = self._time, time
        if self._deadline is None:
            return None
        if time is None:
            return "no time stamp"
        if before is not None and time < before:
            return "the clock went back"
        if before is not None and time == before:
            return "the time does not advance"
        since = before if now is None else time
        until = time if now is None else now
        late = since is not None and until - since > self._deadline
        return "later than the deadline" if late else None

    def _frozen_fault(self, measured: Numbers) -> str | None:
        if not self._checks_frozen:
            return None
        given = ~np.isnan(measured)
        repeats = np.where(measured == self._last, self._repeats + 1.0, 0.0)
        self._repeats = np.where(given, repeats, self._repeats)
        self._last = np.where(given, measured, self._last)
        stuck = np.flatnonzero(self._repeats >= self._limits)
        return f"frozen: {self._names[stuck[0]]}" if len(stuck) else None

    def state_dict(self) -> dict[str, Numbers]:
        """Return the memory as arrays."""
        time = np.array(np.nan if self._time is None else self._time)
        return {"last_measured": self._last.copy(), "repeats": self._repeats.copy(), "last_time": time}

    def load_state_dict(self, values: dict[str, Numbers]) -> None:
        """Continue from the memory of other checks of the same columns."""
        for name, own in self.state_dict().items():
            if values[name].shape != own.shape:
                raise ArgumentError(f"{name} has shape {values[name].shape}; this guard needs {own.shape}")
        self._last, self._repeats = values["last_measured"].copy(), values["repeats"].copy()
        time = float(values["last_time"])
        self._time = time if np.isfinite(time) else None

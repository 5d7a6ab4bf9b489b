"""The axis of a path: time where the sampling interval is known, else steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nopg._typing import FloatArray
from nopg.inspect._wording import count_of, duration

_UNITS = {"d": 86_400.0, "h": 3_600.0, "min": 60.0, "s": 1.0, "ms": 1e-3}
# An axis has at least so many units.
_FEWEST = 2.0


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """Places of steps on an axis.

    Attributes:
        unit: Unit of time, None for steps.
        step: Length of a step in that unit.

    Example:
        >>> TimeAxis.of(15.0, 60), TimeAxis.of(None, 60)
        (TimeAxis(unit='min', step=0.25), TimeAxis(unit=None, step=1.0))
    """

    unit: str | None = None
    step: float = 1.0

    @classmethod
    def of(cls, interval: float | None, steps: int) -> TimeAxis:
        """Return the axis of so many steps of an interval in seconds, in the largest unit that suits."""
        if interval is None:
            return cls()
        unit = next((name for name, size in _UNITS.items() if steps * interval >= _FEWEST * size), "ms")
        return cls(unit, interval / _UNITS[unit])

    @property
    def label(self) -> str:
        """Label of the axis."""
        return "step" if self.unit is None else f"time [{self.unit}]"

    def places(self, steps: int) -> FloatArray:
        """Return the places of so many steps from 0."""
        return self.step * np.arange(steps, dtype=np.float64)

    def columns(self, steps: int) -> dict[str, FloatArray]:
        """Return the columns of a table by step: its number, and its time where that is known."""
        table: dict[str, FloatArray] = {"step": np.arange(steps, dtype=np.float64)}
        return table if self.unit is None else table | {f"time_{self.unit}": self.places(steps)}


def steps_text(steps: int, interval: float | None) -> str:
    """Return a number of steps, with their time where it is known.

    Example:
        >>> steps_text(90, 60.0), steps_text(1, None)
        ('90 steps (1.5 h)', '1 step')
    """
    text = count_of(steps, "step")
    return text if interval is None else f"{text} ({duration(steps * interval)})"

"""When a guard hands over between policy and fallback, and which measurements it distrusts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from nopg._columns import Columns
from nopg._numbers import is_number
from nopg._stream import as_numbers
from nopg.errors import ArgumentError

DWELL = 10
"""Default number of steps before the policy acts again. A loop is usually sampled 4 to 10 times per rise
time, so the fallback has moved the plant before the guard judges it anew."""
LOG_SIZE = 1_000
"""Default number of handovers that a guard keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardRules:
    """How a guard returns to the policy, and what counts as a fault of sensors, clock or fallback.

    Attributes:
        return_unknown: The largest unknown share at which the policy acts again after the fallback; half of
            `most_unknown` if None. With the default of 0.5 it is 0.25.
        dwell: The least number of steps without the policy after it handed over.
        transfer: Number of steps in which the action moves from the last one to that of the other controller
            after a handover, in equal parts. 1 changes over at once.
        deadline: The largest age of a measurement in seconds: `now` − `time`, or the time since the
            measurement before it where `now` is not given. Also refuses time stamps that are missing, go
            back or do not advance. None checks no time.
        frozen: Number of steps without any change after which a measured column counts as failed: by name,
            or one number for all but exogenous columns, since set-points are constant. None checks nothing.
        last_resort: The action to apply when the fallback fails; the last action if None.
        log_size: Number of handovers in `GuardedController.log`; older ones are dropped.
    """

    return_unknown: float | None = None
    dwell: int = DWELL
    transfer: int = 1
    deadline: float | None = None
    frozen: int | Mapping[str, int] | None = None
    last_resort: Sequence[float] | None = None
    log_size: int = LOG_SIZE

    def __post_init__(self) -> None:
        for name in ("dwell", "transfer", "log_size"):
            _require_count(name, getattr(self, name))
        if self.deadline is not None and not (is_number(self.deadline) and 0.0 < self.deadline < np.inf):
            raise ArgumentError(f"deadline is {self.deadline!r}; give seconds above 0, or None for no check")
        if isinstance(self.frozen, Mapping):
            for name, steps in self.frozen.items():
                _require_count(f"frozen of {name}", steps)
            object.__setattr__(self, "frozen", MappingProxyType(dict(self.frozen)))
        elif self.frozen is not None:
            _require_count("frozen", self.frozen)
        if self.last_resort is not None:
            object.__setattr__(self, "last_resort", _numbers("last_resort", self.last_resort))

    def return_limit(self, most_unknown: float) -> float:
        """Return the largest unknown share at which the policy acts again."""
        if self.return_unknown is None:
            return most_unknown / 2
        if not (is_number(self.return_unknown) and 0.0 <= self.return_unknown <= most_unknown):
            raise ArgumentError(
                f"return_unknown is {self.return_unknown!r}; give a share from 0 to {most_unknown:g}, "
                "which is most_unknown"
            )
        return float(self.return_unknown)

    def frozen_limits(self, columns: Columns) -> npt.NDArray[np.float64]:
        """Return the number of steps without change that is a fault, shape (d_x,); ∞ where it is none."""
        names, given = columns.measured, self.frozen
        if given is None:
            given = {}
        elif not isinstance(given, Mapping):
            given = dict.fromkeys((name for name in names if name not in columns.exogenous), given)
        if unknown := sorted({*given} - {*names}):
            raise ArgumentError(f"frozen names {unknown}, but measured columns are {list(names)}")
        return np.array([given.get(name, np.inf) for name in names], dtype=np.float64)


def _numbers(name: str, values: Sequence[float]) -> tuple[float, ...]:
    """Return numbers of a setting as floats; refuse what is none."""
    found = as_numbers(values)
    if found is None or found.ndim != 1:
        raise ArgumentError(f"{name} is {values!r}; give numbers, one per action")
    return tuple(found.tolist())


def _require_count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ArgumentError(f"{name} is {value!r}; give a whole number of at least 1")

"""The rules of a guard: limits, handover, and what counts as a fault."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nopg._checks import is_number
from nopg._columns import GAP_FACTOR
from nopg.deploy._controller import RuntimeController
from nopg.deploy._embedding import Numbers
from nopg.errors import ArgumentError


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardRules:
    """Limits of a guard, how it returns to the policy, and what counts as a fault.

    Attributes:
        most_unknown: The largest unknown share of a state and its action at which the policy acts.
        return_unknown: The largest one at which it acts again after the fallback; half of `most_unknown` if
            None.
        max_change: The largest change of an action per step, one number or one per action; it also holds for
            fallback and last resort, to protect the actuator. None limits nothing.
        dwell: The least number of steps without the policy after it handed over. A loop is usually sampled 4
            to 10 times per rise time, so the fallback has moved the plant before the guard judges it anew.
        transfer: Number of steps in which the action moves from the last one to that of the other controller
            after a handover, in equal parts. 1 changes over at once.
        deadline: The largest age of a measurement in seconds: `now` − `time`, or the time since the
            measurement before it where `now` is not given. Also refuses time stamps that are missing, go
            back or do not advance. None checks no time.
        frozen: Number of steps without any change after which a measured column counts as failed: by name,
            or one number for all but exogenous columns, since set-points are constant. None checks nothing.
        last_resort: The action to apply when the fallback fails; the last action if None.
        gap_factor: Number of sampling intervals after which the memory of derived columns starts anew.
        log_size: Number of handovers in `GuardedController.log`; older ones are dropped.
    """

    most_unknown: float = 0.5
    return_unknown: float | None = None
    max_change: float | Sequence[float] | None = None
    dwell: int = 10
    transfer: int = 1
    deadline: float | None = None
    frozen: int | Mapping[str, int] | None = None
    last_resort: float | Sequence[float] | None = None
    gap_factor: float = GAP_FACTOR
    log_size: int = 1_000

    def __post_init__(self) -> None:
        counts = {name: getattr(self, name) for name in ("dwell", "transfer", "log_size")}
        if isinstance(self.frozen, Mapping):
            counts |= {f"frozen of {name}": steps for name, steps in self.frozen.items()}
        elif self.frozen is not None:
            counts["frozen"] = self.frozen
        for name, value in counts.items():
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise ArgumentError(f"{name} is {value!r}; give a whole number of at least 1")
        _require("most_unknown", self.most_unknown, 0.0, 1.0)
        if self.return_unknown is not None:
            _require("return_unknown", self.return_unknown, 0.0, self.most_unknown)
        if self.deadline is not None:
            _require("deadline", self.deadline, sys.float_info.min, sys.float_info.max)


class Limits(NamedTuple):
    """The rules of a guard for the columns of its controller; arrays are read-only."""

    return_unknown: float
    max_change: Numbers  # (d_a,), ∞ where there is no limit
    frozen: Numbers  # number of steps (d_x,), ∞ where nothing is checked
    largest: Numbers  # largest usable absolute values (d_x,)
    last_resort: Numbers | None  # (d_a,)

    @classmethod
    def of(cls, rules: GuardRules, controller: RuntimeController) -> Limits:
        """Return the limits; rules that do not fit the controller are refused."""
        columns, low, high = controller.columns, controller.low, controller.high
        names, frozen = columns.measured, rules.frozen
        if columns.levels and (rules.max_change is not None or rules.transfer > 1):
            raise ArgumentError(
                f"max_change is {rules.max_change!r} and transfer {rules.transfer}, but "
                f"{list(columns.levels)} have levels and cannot change by less; leave both out"
            )
        if not isinstance(frozen, Mapping):
            checked = [] if frozen is None else [name for name in names if name not in columns.exogenous]
            frozen = dict.fromkeys(checked, frozen or 1)
        if unknown := sorted({*frozen} - {*names}):
            raise ArgumentError(f"frozen names {unknown}, but measured columns are {list(names)}")
        change = _per_action(math.inf if rules.max_change is None else rules.max_change, len(low))
        if change is None or not (change > 0).all():
            raise ArgumentError(
                f"max_change is {rules.max_change!r}; give a positive number, or {len(low)}, one per action"
            )
        resort = None if rules.last_resort is None else _per_action(rules.last_resort, len(low))
        if rules.last_resort is not None and (
            resort is None or not ((low <= resort) & (resort <= high) & np.isfinite(resort)).all()
        ):
            raise ArgumentError(
                f"last_resort is {rules.last_resort!r}; give {len(low)} numbers within {low.tolist()} and "
                f"{high.tolist()}"
            )
        most = sys.float_info.max
        return cls(
            rules.most_unknown / 2 if rules.return_unknown is None else float(rules.return_unknown),
            read_only(change),
            read_only(np.array([float(frozen.get(name, math.inf)) for name in names])),
            read_only(
                np.array([columns.largest_angle(one) if one in columns.angles else most for one in names])
            ),
            None if resort is None else read_only(resort),
        )


def _per_action(given: object, count: int) -> Numbers | None:
    """Return numbers (d_a,) of a setting, one for all or one per action; None for other values."""
    numbers = [given] * count if is_number(given) else [*given] if isinstance(given, Iterable) else []
    return (
        np.array(numbers, dtype=np.float64)
        if len(numbers) == count and all(map(is_number, numbers))
        else None
    )


def read_only(values: Numbers) -> Numbers:
    """Return a copy that cannot be written to."""
    found = values.copy()
    found.setflags(write=False)
    return found


def _require(name: str, value: object, low: float, high: float) -> None:
    if not (is_number(value) and low <= value <= high):  # NaN included
        raise ArgumentError(f"{name} is {value!r}; give a number from {low:g} to {high:g}")

"""A controller on a plant, with a rate limit, and a fallback outside the data and for failed sensors."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from nopg._checks import is_number
from nopg._stream import StateStream, as_numbers
from nopg.bundles._policies import Numbers, read_only
from nopg.deploy._controller import RuntimeController
from nopg.errors import ArgumentError, NoActionError, ObservationError

Fallback = Callable[[Numbers], npt.ArrayLike]
"""Maps an observation (d_x,) as it was measured, with NaN where a sensor failed, to an action (d_a,)."""

Source = Literal["learned", "fallback", "last resort"]
"""Who gave an action."""


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
    """

    most_unknown: float = 0.5
    return_unknown: float | None = None
    max_change: float | Sequence[float] | None = None
    dwell: int = 10
    transfer: int = 1
    deadline: float | None = None
    frozen: int | Mapping[str, int] | None = None
    last_resort: float | Sequence[float] | None = None


class Limits(NamedTuple):
    """The rules of a guard for the columns of its controller."""

    return_unknown: float
    max_change: Numbers  # (d_a,), ∞ where there is no limit
    frozen: Numbers  # number of steps (d_x,), ∞ where nothing is checked
    last_resort: Numbers | None  # (d_a,)

    @classmethod
    def of(cls, rules: GuardRules, controller: RuntimeController) -> Limits:
        """Return the limits; rules that do not fit the controller are refused."""
        columns, names, count = controller.columns, controller.columns.measured, len(controller.low)
        tiny, huge = sys.float_info.min, sys.float_info.max
        _numbers("most_unknown", rules.most_unknown, 0.0, 1.0)
        back = rules.most_unknown / 2 if rules.return_unknown is None else rules.return_unknown
        _numbers("return_unknown", back, 0.0, rules.most_unknown)
        _numbers("deadline", 1.0 if rules.deadline is None else rules.deadline, tiny, huge)
        if columns.levels and (rules.max_change is not None or rules.transfer > 1):
            raise ArgumentError(
                f"max_change is {rules.max_change!r} and transfer {rules.transfer}, but "
                f"{list(columns.levels)} have levels and cannot change by less; leave both out"
            )
        frozen = {} if rules.frozen is None else rules.frozen
        if not isinstance(frozen, Mapping):
            frozen = dict.fromkeys([name for name in names if name not in columns.exogenous], frozen)
        if unknown := sorted({*frozen} - {*names}):
            raise ArgumentError(f"frozen names {unknown}, but measured columns are {list(names)}")
        steps = {f"frozen of {name}": value for name, value in frozen.items()}
        for name, value in {"dwell": rules.dwell, "transfer": rules.transfer, **steps}.items():
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise ArgumentError(f"{name} is {value!r}; give a whole number of at least 1")
        change, resort = math.inf if rules.max_change is None else rules.max_change, rules.last_resort
        ends = np.maximum(controller.low, -huge), np.minimum(controller.high, huge)
        return cls(
            float(back),
            _numbers("max_change", change, tiny, math.inf, count=count),
            read_only(np.array([float(frozen.get(name, math.inf)) for name in names])),
            None if resort is None else _numbers("last_resort", resort, *ends, count=count),
        )


def _numbers(
    name: str, given: object, low: float | Numbers, high: float | Numbers, *, count: int = 1
) -> Numbers:
    """Return the numbers of a setting, shape (count,), one for all or one each; others are refused."""
    numbers = [given] * count if is_number(given) else [*given] if isinstance(given, Iterable) else []
    if len(numbers) == count and all(map(is_number, numbers)):
        found = np.array(numbers, dtype=np.float64)
        if ((low <= found) & (found <= high)).all():  # false for NaN
            return read_only(found)
    what = "a number" if count == 1 else f"a number, or {count}, one per action,"
    span = "above 0" if np.all(low == sys.float_info.min) else f"from {low} to {high}"
    raise ArgumentError(f"{name} is {given!r}; give {what} {span}")


@dataclass(frozen=True, slots=True)
class Decision:
    """The action to apply, and its origin.

    Attributes:
        action: Shape (d_a,).
        unknown: Unknown share of the state and the action of the policy; 1 if a number is not finite.
        source: The controller that gave the action, before the limits.
        reason: Why it is this one.
    """

    action: Numbers
    unknown: float
    source: Source
    reason: str


class GuardedController:
    """The learned controller where the data know the state and its action, a fallback elsewhere.

    Every action lies between the limits of the controller and changes by at most `max_change` per step. The
    guard hands over to the fallback at once, and back only after `dwell` steps and below a lower unknown
    share. A measurement that is masked, not finite, or an angle so large that it has no direction counts as
    missing and never reaches the policy. `docs/guides/guard.md` has the table of states.

    Whatever is measured, `act` raises nothing once there is an action to hold; before that it raises
    `NoActionError` if neither fallback nor last resort has an action. An argument of another shape always
    raises, as does a call of `act` during another one: a guard belongs to one control loop.

    The guard keeps the memory that derived columns and held values need in `states`; see `StateStream`.

    Args:
        controller: From `nopg.deploy.load`.
        fallback: A trusted controller, such as the one that logged the data: observation in, action out.
        rules: Limits, return to the policy, checks of sensors and clock, last resort.
    """

    def __init__(
        self,
        controller: RuntimeController,
        *,
        fallback: Fallback | None = None,
        rules: GuardRules | None = None,
    ) -> None:
        if fallback is not None and not callable(fallback):  # checked before it is needed
            raise ArgumentError(f"the fallback is {fallback!r}; give a function from observation to action")
        self.rules = GuardRules() if rules is None else rules
        self.controller, self.fallback = controller, fallback
        self.limits = Limits.of(self.rules, controller)
        self.low, self.high = controller.low, controller.high
        self.states = StateStream(controller.columns)
        self._lock = threading.Lock()
        self.reset()

    @property
    def applied(self) -> Numbers | None:
        """The last action (d_a,), the reference of max_change; None before the first."""
        return None if np.isnan(self._last).any() else self._last.copy()

    def reset(self, applied: npt.ArrayLike | None = None) -> None:
        """Clear the last action and the memory before a new run.

        Args:
            applied: The current action (d_a,) of the plant, with which lags of actions begin. Without it,
                max_change does not limit the first.
        """
        d_a, d_x = len(self.low), len(self.limits.frozen)
        last = np.full(d_a, np.nan) if applied is None else self._action(applied)
        if last is None or (applied is not None and np.isnan(last).any()):
            raise ArgumentError(f"the action applied is {applied!r}; give {d_a} finite numbers")
        self.states.reset(None if applied is None else last)
        self._last, self._measured, self._repeats = last, np.full(d_x, np.nan), np.zeros(d_x)
        self._acted: Source | None = None  # who acted last
        # Time of the last measurement, number of steps without the policy, and those left of a transfer.
        self._time, self._waited, self._left = math.nan, 0, 0

    def act(
        self,
        observation: npt.ArrayLike,
        applied: npt.ArrayLike | None = None,
        time: float | None = None,
        now: float | None = None,
    ) -> Decision:
        """Return the action to apply at an observation (d_x,), and store it as the last action.

        Args:
            observation: The measured columns, NaN where a value is missing.
            applied: The action (d_a,) that the plant received since the last step, where it is not the last
                one returned; also the reference of max_change. One that is not finite is a fault.
            time: When it was measured, in seconds on any clock; not finite counts as not given.
            now: The present time on the same clock, for `rules.deadline`.
        """
        if not self._lock.acquire(blocking=False):
            raise ArgumentError("act was called during another call of it; use one guard per control loop")
        times = (one if is_number(one) and math.isfinite(one) else None for one in (time, now))
        try:
            return self._act(observation, applied, *times)
        finally:
            self._lock.release()

    def _act(self, observation: Any, applied: Any, time: float | None, now: float | None) -> Decision:
        received = None if applied is None else self._action(applied)
        if applied is not None and received is None:
            raise ArgumentError(f"the action applied is {applied!r}; give {len(self.low)} numbers")
        measured = self.states.measured(observation)
        usable = np.isfinite(measured) & (np.abs(measured) <= self.controller.largest[: len(measured)])
        measured = np.where(usable, measured, np.nan)
        state = self.states.update(measured, received, time)
        self.states.record(None)  # if there is no action
        clock, frozen = self._clock_fault(time, now), self._frozen_fault(measured)
        fault = clock or frozen
        if received is not None and np.isnan(received).any():
            fault = "the action applied is not finite"
        elif received is not None:
            self._last = received
        unknown, action, reason = self._learned(state, fault)
        source: Source = "learned"
        if action is None:
            source, reason, action = self._without_policy(measured, reason)
        if action is None:
            raise NoActionError(
                f"no action is available at {state.tolist()} (unknown share {unknown:.3g}): {reason}. Give "
                "a fallback, a last resort, or reset(applied=…)"
            )
        return Decision(self._apply(action, source), unknown, source, reason)

    def _clock_fault(self, time: float | None, now: float | None) -> str | None:
        """Return what is wrong with the time of a measurement, and remember it."""
        before, deadline = self._time, self.rules.deadline
        self._time = math.nan if time is None else time
        if deadline is None:
            return None
        if time is None:
            return "no time stamp"
        if time <= before:
            return "the clock went back" if time < before else "the time does not advance"
        age = time - before if now is None else now - time
        return "later than the deadline" if age > deadline else None

    def _frozen_fault(self, measured: Numbers) -> str | None:
        """Return which measurement has not changed for too long, and remember all of them."""
        given = ~np.isnan(measured)
        repeats = np.where(measured == self._measured, self._repeats + 1.0, 0.0)
        self._repeats = np.where(given, repeats, self._repeats)
        self._measured = np.where(given, measured, self._measured)
        stuck = np.flatnonzero(self._repeats >= self.limits.frozen)
        return f"frozen: {self.controller.columns.measured[stuck[0]]}" if len(stuck) else None

    def _learned(self, state: Numbers, fault: str | None) -> tuple[float, Numbers | None, str]:
        """Return the unknown share, the action of the policy where it may act, and why it may or may not."""
        away = self._acted not in {None, "learned"}
        try:
            action, share = self.controller.action_and_unknown(state)
        except ObservationError:  # the shape was checked, so a number is not finite
            finite = zip(self.controller.columns.states, np.isfinite(state), strict=True)
            missing = [f"missing: {name}" for name, is_finite in finite if not is_finite]
            return 1.0, None, fault or [*missing, "outside the data"][0]
        unknown, why = float(share), fault
        if unknown > self.rules.most_unknown:
            why = why or "outside the data"
        elif away and (self._waited < self.rules.dwell or unknown > self.limits.return_unknown):
            why = why or "waiting to return"
        elif not np.isfinite(action).all():
            why = why or "the action of the policy is not finite"
        return unknown, None if why else action, why or "inside the data"

    def _without_policy(self, measured: Numbers, why: str) -> tuple[Source, str, Numbers | None]:
        """Return who acts instead of the policy, why, and its action if there is one."""
        action, failure = None, "no fallback"
        if self.fallback is not None:
            try:
                action, failure = self._action(self.fallback(measured)), "the fallback gave no finite action"
            except Exception as error:  # whatever it raises, the plant needs an action
                failure = f"the fallback raised {type(error).__name__}"
        if action is not None and np.isfinite(action).all():
            return "fallback", why, action
        resort = self.limits.last_resort
        return "last resort", f"{why}; {failure}", self.applied if resort is None else resort

    def _apply(self, action: Numbers, source: Source) -> Numbers:
        """Return the action within limits, and remember it and who gave it."""
        last = self.applied
        if source != self._acted:
            self._left = self.rules.transfer if self._acted else 1
        if last is not None:
            if self._left > 1:  # an equal part of the way
                share = 1.0 / self._left
                action = last * (1.0 - share) + action * share
            action = np.clip(action, last - self.limits.max_change, last + self.limits.max_change)
        self._last = np.clip(action, self.low, self.high)
        self._acted, self._left = source, max(self._left - 1, 0)
        self._waited = 0 if source == "learned" else self._waited + 1
        self.states.record(self._last)
        return self._last.copy()

    def _action(self, given: npt.ArrayLike) -> Numbers | None:
        """Return an action (d_a,), all NaN if a number in it is not finite; None for other values."""
        action = as_numbers(given)
        if action is None or action.shape != self.low.shape:
            return None
        return action.copy() if np.isfinite(action).all() else np.full(len(action), np.nan)

"""A controller on a plant, with a rate limit, and a fallback outside the data and for failed sensors."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from nopg._checks import is_number
from nopg._stream import StateStream, as_numbers, checked_memory
from nopg.bundles._policies import clipped, read_only
from nopg.deploy._controller import RuntimeController
from nopg.deploy._embedding import Numbers
from nopg.errors import ArgumentError, NoActionError, ObservationError

Fallback = Callable[[Numbers], npt.ArrayLike]
"""Maps an observation (d_x,) as it was measured, with NaN where a sensor failed, to an action (d_a,)."""

Source = Literal["learned", "fallback", "last resort"]
"""Who gave an action."""

_SOURCES: tuple[Source, ...] = ("learned", "fallback", "last resort")


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


@dataclass(slots=True)
class _Memory:
    """What a guard remembers besides the state."""

    last_action: Numbers  # (d_a,), NaN before the first
    last_measured: Numbers  # the last usable values (d_x,), NaN before the first
    repeats: Numbers  # number of steps (d_x,) without a change
    last_time: float = math.nan  # NaN without one
    acted: float = 0.0  # who acted last: 0 at a start, else 1 + the place in _SOURCES
    waited: float = 0.0  # number of steps without the policy
    left: float = 0.0  # number of steps that are left of a transfer


class GuardedController:
    """The learned controller where the data know the state and its action, a fallback elsewhere.

    Every action lies between the limits of the controller and changes by at most `max_change` per step. The
    guard hands over to the fallback at once, and back only after `dwell` steps and below a lower unknown
    share, so that noise at the edge of the data does not switch it in every step. A measurement that is
    masked, not finite, or an angle so large that it has no direction counts as missing and never reaches the
    policy. Where the fallback fails, the last resort acts: `last_resort`, or the last action.
    `docs/guides/guard.md` has the table of states.

    Whatever is measured, `act` raises nothing once there is an action to hold; before that it raises
    `NoActionError` if neither fallback nor last resort has an action. An argument of another shape always
    raises, as does a call of `act` during another one: a guard belongs to one control loop.

    The guard keeps the memory that derived columns and held values need in `states`; see `StateStream`.

    Args:
        controller: From `nopg.deploy.load`.
        fallback: A trusted controller, such as the one that logged the data: observation in, action out.
        rules: Limits, return to the policy, checks of sensors and clock, last resort.

    Example:
        >>> from nopg._columns import Columns
        >>> from nopg.bundles import SavedController
        >>> from nopg._support import Support
        >>> saved = SavedController(
        ...     Columns(("level",), ("valve",), bounds={"valve": (0.0, 1.0)}), {"kind": "linear"},
        ...     {"gain": np.array([[2.0]])},
        ...     Support(np.array([0.2, 0.0]), np.array([0.4, 1.0]), np.array([0.1, 0.1]), (), ()))
        >>> guard = GuardedController(RuntimeController(saved), fallback=lambda level: [0.5],
        ...                           rules=GuardRules(max_change=0.2, dwell=2))
        >>> guard.act([0.3]).action
        array([0.6])
        >>> guard.act([9.0])
        Decision(action=array([0.5]), unknown=1.0, source='fallback', reason='outside the data')
        >>> guard.act([0.4]).reason
        'waiting to return'
        >>> guard.act([0.4]).action    # 0.8 requested, but at most 0.2 more than before
        array([0.7])
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
        last = self._memory.last_action
        return None if np.isnan(last).any() else last.copy()

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
        self._memory = _Memory(last, np.full(d_x, np.nan), np.zeros(d_x))

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
        try:
            return self._act(observation, applied, _finite_time(time), _finite_time(now))
        finally:
            self._lock.release()

    def _act(
        self,
        observation: npt.ArrayLike,
        applied: npt.ArrayLike | None,
        time: float | None,
        now: float | None,
    ) -> Decision:
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
            self._memory.last_action = received
        unknown, action = self._learned(state, allowed=fault is None)
        source: Source = "learned"
        reason = "inside the data"
        if action is None:
            source, reason, action = self._without_policy(measured, self._why(fault, state, unknown))
        if action is None:
            raise NoActionError(
                f"nobody acts at {state.tolist()} (unknown share {unknown:.3g}): {reason}. Give a fallback, "
                "a last resort, or reset(applied=…)"
            )
        return Decision(self._apply(action, source), unknown, source, reason)

    def state_dict(self) -> dict[str, Numbers]:
        """Return the memory as arrays; the last action is NaN before the first."""
        own = {name: np.array(value, dtype=np.float64) for name, value in asdict(self._memory).items()}
        return {**self.states.state_dict(), **own}

    def load_state_dict(self, values: Mapping[str, npt.ArrayLike]) -> None:
        """Continue from the memory of another guard of the same controller; all of it, or nothing."""
        found = checked_memory(values, self.state_dict())
        for name, most in (("acted", len(_SOURCES)), ("waited", math.inf), ("left", math.inf)):
            if not (found[name] % 1 == 0 and 0 <= found[name] <= most):  # NaN included
                raise ArgumentError(f"{name} is {values[name]!r}; give a whole number of at least 0")
        if not (found["repeats"] >= 0).all():
            raise ArgumentError(f"repeats is {values['repeats']!r}; give numbers of steps")
        if np.isnan(last := found["last_action"]).any() and not (np.isnan(last).all() and not found["acted"]):
            raise ArgumentError(f"last_action is {values['last_action']!r}; give finite numbers after a step")
        self.states.load_state_dict({name: found.pop(name) for name in self.states.state_dict()})
        own: dict[str, Any] = {name: part if part.ndim else float(part) for name, part in found.items()}
        self._memory = _Memory(**own)

    def _clock_fault(self, time: float | None, now: float | None) -> str | None:
        """Return what is wrong with the time of a measurement, and remember it."""
        before, deadline = self._memory.last_time, self.rules.deadline
        self._memory.last_time = math.nan if time is None else time
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
        memory, given = self._memory, ~np.isnan(measured)
        repeats = np.where(measured == memory.last_measured, memory.repeats + 1.0, 0.0)
        memory.repeats = np.where(given, repeats, memory.repeats)
        memory.last_measured = np.where(given, measured, memory.last_measured)
        stuck = np.flatnonzero(memory.repeats >= self.limits.frozen)
        return f"frozen: {self.controller.columns.measured[stuck[0]]}" if len(stuck) else None

    def _learned(self, state: Numbers, *, allowed: bool) -> tuple[float, Numbers | None]:
        """Return the unknown share and the action of the policy, None where it may not act."""
        away = self._memory.acted > 1
        limit = self.limits.return_unknown if away else self.rules.most_unknown
        allowed = allowed and (not away or self._memory.waited >= self.rules.dwell)
        try:
            action, share = self.controller.action_and_unknown(state)
        except ObservationError:  # the shape was checked, so a number is not finite
            return 1.0, None
        unknown = float(share)
        acts = allowed and unknown <= limit and bool(np.isfinite(action).all())
        return unknown, action if acts else None

    def _why(self, fault: str | None, state: Numbers, unknown: float) -> str:
        """Return why the policy does not act."""
        if fault is not None:
            return fault
        if len(missing := np.flatnonzero(~np.isfinite(state))):
            return f"missing: {self.controller.columns.states[missing[0]]}"
        if unknown > self.rules.most_unknown:
            return "outside the data"
        return "waiting to return" if self._memory.acted > 1 else "the action of the policy is not finite"

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
        memory, last, acted = self._memory, self.applied, 1.0 + _SOURCES.index(source)
        if acted != memory.acted:
            memory.left = float(self.rules.transfer if memory.acted else 1)
        if last is not None:
            if memory.left > 1:  # an equal part of the way
                share = 1.0 / memory.left
                action = last * (1.0 - share) + action * share
            action = clipped(action, last - self.limits.max_change, last + self.limits.max_change)
        memory.last_action = clipped(action, self.low, self.high)
        memory.acted, memory.left = acted, max(memory.left - 1.0, 0.0)
        memory.waited = 0.0 if source == "learned" else memory.waited + 1.0
        self.states.record(memory.last_action)
        return memory.last_action.copy()

    def _action(self, given: npt.ArrayLike) -> Numbers | None:
        """Return an action (d_a,), all NaN if a number in it is not finite; None for other values."""
        action = as_numbers(given)
        if action is None or action.shape != self.low.shape:
            return None
        return action.copy() if np.isfinite(action).all() else np.full(len(action), np.nan)


def _finite_time(time: float | None) -> float | None:
    return time if is_number(time) and math.isfinite(time) else None

"""A controller on a plant, with a rate limit, and a fallback outside the data and for failed sensors."""

from __future__ import annotations

import math
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from nopg._checks import is_number
from nopg._stream import StateStream, as_numbers
from nopg.deploy._controller import RuntimeController
from nopg.deploy._embedding import Numbers
from nopg.deploy._policies import clipped
from nopg.deploy._rules import GuardRules, Limits, read_only
from nopg.errors import ArgumentError, NoActionError, ObservationError

Fallback = Callable[[Numbers], npt.ArrayLike]
"""Maps an observation (d_x,) as it was measured, with NaN where a sensor failed, to an action (d_a,)."""

Source = Literal["learned", "fallback", "last resort"]
"""Who gave an action."""

_SOURCES: tuple[Source, ...] = ("learned", "fallback", "last resort")


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


class Handover(NamedTuple):
    """A step at which another controller began to act; `time` is that of the measurement, if given."""

    step: int  # from 0 since the guard was made
    time: float | None
    before: Source | Literal["start"]
    after: Source
    reason: str
    unknown: float


class StepCounts(NamedTuple):
    """Numbers of steps since a guard was made: by who acted, and by why the policy did not."""

    by_source: dict[Source, int]
    by_reason: dict[str, int]


@dataclass(slots=True)
class _Memory:
    """What a guard remembers besides the state, all as arrays."""

    last_action: Numbers  # (d_a,), NaN before the first
    acted: Numbers  # who acted last: 0 at a start, else 1 + the place in _SOURCES
    waited: Numbers  # number of steps without the policy
    left: Numbers  # number of steps that are left of a transfer
    last_measured: Numbers  # the last usable values (d_x,), NaN before the first
    repeats: Numbers  # number of steps (d_x,) without a change
    last_time: Numbers  # NaN without one


class GuardedController:
    """The learned controller where the data know the state and its action, a fallback elsewhere.

    Every action lies between the limits of the controller and changes by at most `max_change` per step. The
    guard hands over to the fallback at once, and back only after `dwell` steps and below a lower unknown
    share, so that noise at the edge of the data does not switch it in every step. A measurement that is
    masked, not finite, or an angle so large that it has no direction counts as missing and never reaches the
    policy. Where the fallback raises, gives no finite action, or does not exist, the last resort acts:
    `last_resort`, or the last action. `docs/guides/deploying.md` has the table of states.

    Whatever is measured, `act` raises nothing once there is an action to hold; before that it raises
    `NoActionError` if neither fallback nor last resort has an action. An argument of another shape is a
    programming error and always raises.

    An observation has the measured columns; the guard keeps the memory that derived columns and held values
    need, with the actions after fallback and limits. `states` holds it: see `StateStream` for start-ups.

    A guard belongs to one control loop and is not thread-safe: a call of `act` during another one raises
    `ArgumentError` and changes nothing. Its limits do not change after it was made.

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
        ...     Support(np.array([0.2, 0.0]), np.array([0.4, 1.0]), np.array([0.1, 0.1]), (), ()), "here")
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
        >>> [(one.step, one.before, one.after) for one in guard.log]
        [(0, 'start', 'learned'), (1, 'learned', 'fallback'), (3, 'fallback', 'learned')]
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
        self._rules = GuardRules() if rules is None else rules
        self._controller, self._fallback = controller, fallback
        self._limits = Limits.of(self._rules, controller)
        self._low, self._high = read_only(controller.low), read_only(controller.high)
        self.states = StateStream(controller.columns, gap_factor=self._rules.gap_factor)
        self._log, self._steps = deque[Handover](maxlen=self._rules.log_size), 0
        self._sources, self._reasons = Counter[Source](dict.fromkeys(_SOURCES, 0)), Counter[str]()
        self._lock = threading.Lock()
        self.reset()

    @property
    def controller(self) -> RuntimeController:
        """The learned controller."""
        return self._controller

    @property
    def rules(self) -> GuardRules:
        """As given."""
        return self._rules

    @property
    def limits(self) -> Limits:
        """The rules for the columns of the controller, read-only."""
        return self._limits

    @property
    def low(self) -> Numbers:
        """The lowest actions (d_a,), read-only."""
        return self._low

    @property
    def high(self) -> Numbers:
        """The highest actions (d_a,), read-only."""
        return self._high

    @property
    def applied(self) -> Numbers | None:
        """The last action (d_a,), the reference of max_change; None before the first."""
        last = self._memory.last_action
        return None if np.isnan(last).any() else last.copy()

    @property
    def log(self) -> tuple[Handover, ...]:
        """The last handovers, oldest first; a reset keeps them."""
        return tuple(self._log)

    @property
    def counts(self) -> StepCounts:
        """Numbers of steps by who acted, and by why the policy did not; a reset keeps them."""
        return StepCounts(dict(self._sources), dict(self._reasons.most_common()))

    def reset(self, applied: npt.ArrayLike | None = None) -> None:
        """Clear the last action and the memory before a new run.

        Args:
            applied: The current action (d_a,) of the plant, with which lags of actions begin. Without it,
                max_change does not limit the first.
        """
        last = np.full(len(self._low), np.nan)
        if applied is not None:
            given = self._finite(applied)
            if given is None:
                raise ArgumentError(f"the action applied is {applied!r}; give {len(last)} finite numbers")
            last = given.copy()
        self.states.reset(None if applied is None else last)
        d_x, zero = len(self._limits.largest), np.zeros(())
        unknown, never = np.full(d_x, np.nan), np.array(np.nan)
        self._memory = _Memory(last, zero, zero, zero, unknown, np.zeros(d_x), never)

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
        received = None if applied is None else self._received(applied)
        usable = self._usable(observation)
        state = self.states.update(usable, received, time)
        self.states.record(None)  # if there is no action
        measured = np.array(usable, dtype=np.float64)
        faults = [self._clock_fault(time, now), self._frozen_fault(measured)]
        if received is not None and np.isfinite(received).all():
            self._memory.last_action = received
        elif received is not None:
            faults = ["the action applied is not finite"]
        fault = next(filter(None, faults), None)
        unknown, action = self._learned(state, allowed=fault is None)
        source: Source = "learned"
        reason = "inside the data"
        if action is None:
            source, reason, action = self._without_policy(measured, self._why(fault, state, unknown))
        self._count(None if action is None else source, reason, unknown, time)
        if action is None:
            raise NoActionError(
                f"nobody acts at {state.tolist()} (unknown share {unknown:.3g}): {reason}. Give a fallback, "
                "a last resort, or reset(applied=…)"
            )
        return Decision(self._apply(action, source), unknown, source, reason)

    def state_dict(self) -> dict[str, Numbers]:
        """Return the memory as arrays; the last action is NaN before the first. The log is not part of it."""
        own = {one.name: getattr(self._memory, one.name).copy() for one in fields(_Memory)}
        return {**self.states.state_dict(), **own}

    def load_state_dict(self, values: Mapping[str, npt.ArrayLike]) -> None:
        """Continue from the memory of another guard of the same controller; all of it, or nothing."""
        wanted, of_states = self.state_dict(), self.states.state_dict()
        if {*values} != {*wanted}:
            raise ArgumentError(f"the memory of a guard has {sorted(wanted)}, this one has {sorted(values)}")
        found = dict[str, Numbers]()
        for name in wanted.keys() - of_states.keys():
            part = as_numbers(values[name])
            if part is None or part.shape != wanted[name].shape or np.isinf(part).any():
                raise ArgumentError(f"{name} is {values[name]!r}; give numbers of shape {wanted[name].shape}")
            found[name] = part.copy()
        for name, most in (("acted", len(_SOURCES)), ("waited", None), ("left", None), ("repeats", None)):
            part = found[name]
            if not ((part >= 0) & (part % 1 == 0) & (part <= (math.inf if most is None else most))).all():
                raise ArgumentError(f"{name} is {values[name]!r}; give whole numbers from 0 to {most or '…'}")
        if np.isnan(last := found["last_action"]).any() and not (np.isnan(last).all() and not found["acted"]):
            raise ArgumentError(f"last_action is {values['last_action']!r}; give finite numbers after a step")
        self.states.load_state_dict({name: values[name] for name in of_states})
        self._memory = _Memory(**found)

    def _usable(self, observation: npt.ArrayLike) -> npt.ArrayLike:
        """Return measurements (d_x,) with NaN for what is masked, not finite, or too large for an angle.

        What has another shape or type is returned as it is.
        """
        if isinstance(observation, np.ma.MaskedArray) and observation.dtype.kind in "fiu":
            observation = np.where(np.ma.getmaskarray(observation), np.nan, observation.data)
        values = as_numbers(observation)
        if values is None or values.shape != self._limits.largest.shape:
            return observation
        return np.where(np.abs(values) <= self._limits.largest, values, np.nan)  # false for NaN

    def _clock_fault(self, time: float | None, now: float | None) -> str | None:
        """Return what is wrong with the time of a measurement, and remember it."""
        memory, deadline = self._memory, self._rules.deadline
        before = None if np.isnan(memory.last_time) else float(memory.last_time)
        memory.last_time = np.array(np.nan if time is None else time)
        if deadline is None:
            return None
        if time is None:
            return "no time stamp"
        if before is not None and time <= before:
            return "the clock went back" if time < before else "the time does not advance"
        since = before if now is None else time
        until = time if now is None else now
        return "later than the deadline" if since is not None and until - since > deadline else None

    def _frozen_fault(self, measured: Numbers) -> str | None:
        """Return which measurement has not changed for too long, and remember all of them."""
        memory, given = self._memory, ~np.isnan(measured)
        repeats = np.where(measured == memory.last_measured, memory.repeats + 1.0, 0.0)
        memory.repeats = np.where(given, repeats, memory.repeats)
        memory.last_measured = np.where(given, measured, memory.last_measured)
        stuck = np.flatnonzero(memory.repeats >= self._limits.frozen)
        return f"frozen: {self._controller.columns.measured[stuck[0]]}" if len(stuck) else None

    @property
    def _away(self) -> bool:
        """Whether another than the policy acted last."""
        return bool(self._memory.acted > 1)

    def _learned(self, state: Numbers, *, allowed: bool) -> tuple[float, Numbers | None]:
        """Return the unknown share and the action of the policy, None where it may not act."""
        rules, away = self._rules, self._away
        limit = self._limits.return_unknown if away else rules.most_unknown
        allowed = allowed and (not away or bool(self._memory.waited >= rules.dwell))
        try:
            action, share = self._controller.action_and_unknown(state)
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
            return f"missing: {self._controller.columns.states[missing[0]]}"
        if unknown > self._rules.most_unknown:
            return "outside the data"
        return "waiting to return" if self._away else "the action of the policy is not finite"

    def _without_policy(self, measured: Numbers, why: str) -> tuple[Source, str, Numbers | None]:
        """Return who acts instead of the policy, why, and its action if there is one."""
        action, failure = None, "no fallback"
        if self._fallback is not None:
            try:
                action, failure = self._finite(self._fallback(measured)), "the fallback gave no finite action"
            except Exception as error:  # whatever it raises, the plant needs an action
                failure = f"the fallback raised {type(error).__name__}"
        if action is not None:
            return "fallback", why, action
        resort = self._limits.last_resort
        return "last resort", f"{why}; {failure}", self.applied if resort is None else resort

    def _count(self, after: Source | None, reason: str, unknown: float, time: float | None) -> None:
        """Count a step, and log it if another controller begins to act; `after` is None if nobody acts."""
        acted = int(self._memory.acted)
        before = _SOURCES[acted - 1] if acted else None
        if after is not None:
            self._sources[after] += 1
            if after != before:
                self._log.append(Handover(self._steps, time, before or "start", after, reason, unknown))
        if after != "learned":
            self._reasons[reason] += 1
        self._steps += 1

    def _apply(self, action: Numbers, source: Source) -> Numbers:
        """Return the action within limits, and remember it and who gave it."""
        memory, last, acted = self._memory, self.applied, 1 + _SOURCES.index(source)
        left = float(memory.left)
        if acted != memory.acted:
            left = float(self._rules.transfer if memory.acted else 1)
        if last is not None:
            if left > 1:  # an equal part of the way
                share = 1.0 / left
                action = last * (1.0 - share) + action * share
            action = clipped(action, last - self._limits.max_change, last + self._limits.max_change)
        memory.last_action = clipped(action, self._low, self._high)
        memory.acted, memory.left = np.array(float(acted)), np.array(max(left - 1.0, 0.0))
        memory.waited = np.zeros(()) if source == "learned" else memory.waited + 1.0
        self.states.record(memory.last_action)
        return memory.last_action.copy()

    def _received(self, applied: npt.ArrayLike) -> Numbers:
        """Return the action of the plant (d_a,), all NaN if a number in it is not finite."""
        action = as_numbers(applied)
        if action is None or action.shape != self._low.shape:
            raise ArgumentError(f"the action applied is {applied!r}; give {len(self._low)} numbers")
        return action.copy() if np.isfinite(action).all() else np.full(len(action), np.nan)

    def _finite(self, values: npt.ArrayLike) -> Numbers | None:
        """Return finite numbers (d_a,), or None for other values."""
        action = as_numbers(values)
        fits = action is not None and action.shape == self._low.shape and np.isfinite(action).all()
        return action if fits else None


def _finite_time(time: float | None) -> float | None:
    return time if is_number(time) and math.isfinite(time) else None

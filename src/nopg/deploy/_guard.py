"""A controller on a plant, with a rate limit, and a fallback outside the data and for failed sensors."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nopg._columns import GAP_FACTOR
from nopg._numbers import is_number
from nopg._stream import StateStream, as_numbers
from nopg.deploy._controller import RuntimeController
from nopg.deploy._encoding import Numbers
from nopg.deploy._guard_rules import GuardRules
from nopg.deploy._guard_trace import GuardTrace, Handover, Source, StepCounts
from nopg.deploy._sensor_checks import SensorChecks
from nopg.errors import ArgumentError, NoActionError, ObservationError

MOST_UNKNOWN = 0.5
"""Default limit on the unknown share of a state and the action of the policy there."""

Fallback = Callable[[Numbers], npt.ArrayLike]
"""Maps an observation (d_x,) as it was measured, with NaN where a sensor failed, to an action (d_a,)."""

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


class GuardedController:
    """The learned controller where the data know the state and its action, a fallback elsewhere.

    Every action lies between the limits of the controller and changes by at most `max_change` per step. The
    guard hands over to the fallback at once, and back only after `rules.dwell` steps and below a lower
    unknown share, so that noise at the edge of the data does not switch it in every step. A measurement that
    is masked, not finite, or an angle beyond 10¹⁵ counts as missing and never reaches the policy. Where the
    fallback raises, gives no finite action, or does not exist, the last resort acts: `rules.last_resort`, or
    the last action. `docs/guides/deploying.md` has the table of states.

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
        most_unknown: The largest unknown share at which the learned controller acts.
        max_change: The largest change of an action per step: one number, or one per action. It also holds
            for fallback and last resort, to protect the actuator.
        gap_factor: Number of sampling intervals after which the memory of derived columns starts anew.
        rules: Return to the policy, checks of sensors and clock, last resort.

    Example:
        >>> from nopg._columns import Columns
        >>> from nopg.bundles import SavedController
        >>> from nopg._support import Support
        >>> saved = SavedController(
        ...     Columns(("level",), ("valve",), bounds={"valve": (0.0, 1.0)}), {"kind": "linear"},
        ...     {"gain": np.array([[2.0]])},
        ...     Support(np.array([0.2, 0.0]), np.array([0.4, 1.0]), np.array([0.1, 0.1]), (), ()), "here")
        >>> guard = GuardedController(RuntimeController(saved), fallback=lambda level: [0.5], max_change=0.2,
        ...                           rules=GuardRules(dwell=2))
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
        most_unknown: float = MOST_UNKNOWN,
        max_change: npt.ArrayLike | None = None,
        gap_factor: float = GAP_FACTOR,
        rules: GuardRules | None = None,
    ) -> None:
        rules, columns = GuardRules() if rules is None else rules, controller.columns
        if not (is_number(most_unknown) and 0.0 <= most_unknown <= 1.0):
            raise ArgumentError(f"most_unknown is {most_unknown!r}; it is a share, give a number in [0, 1]")
        if fallback is not None and not callable(fallback):  # checked before it is needed
            raise ArgumentError(f"the fallback is {fallback!r}; give a function from observation to action")
        if columns.levels and (max_change is not None or rules.transfer > 1):
            raise ArgumentError(
                f"max_change is {max_change!r} and transfer {rules.transfer}, but {list(columns.levels)} "
                "have levels, which cannot change by less than a level; leave both out"
            )
        self._controller, self._fallback, self._rules = controller, fallback, rules
        self._most_unknown, self._return_unknown = float(most_unknown), rules.return_limit(most_unknown)
        self._low, self._high = (_constant(ends) for ends in (controller.low, controller.high))
        self.states = StateStream(columns, gap_factor=gap_factor)
        self._sensors, self._trace = SensorChecks(columns, rules), GuardTrace(rules.log_size)
        self._count = len(columns.actions)
        self._max_change = None if max_change is None else self._changes(max_change)
        self._last_resort = None if rules.last_resort is None else self._resort(rules.last_resort)
        self._lock = threading.Lock()
        self.reset()

    @property
    def controller(self) -> RuntimeController:
        """The learned controller."""
        return self._controller

    @property
    def rules(self) -> GuardRules:
        """The rules of handover and checks."""
        return self._rules

    @property
    def most_unknown(self) -> float:
        """The largest unknown share at which the learned controller acts."""
        return self._most_unknown

    @property
    def return_unknown(self) -> float:
        """The largest unknown share at which it acts again after the fallback."""
        return self._return_unknown

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
        return None if self._applied is None else self._applied.copy()

    @property
    def max_change(self) -> Numbers | None:
        """The largest change of an action per step, () or (d_a,); None if there is no limit."""
        return None if self._max_change is None else self._max_change.copy()

    @property
    def log(self) -> tuple[Handover, ...]:
        """The last handovers, oldest first; a reset keeps them."""
        return self._trace.log

    @property
    def counts(self) -> StepCounts:
        """Numbers of steps by who acted, and by why the policy did not; a reset keeps them."""
        return self._trace.counts

    def reset(self, applied: npt.ArrayLike | None = None) -> None:
        """Clear the last action and the memory before a new run.

        Args:
            applied: The current action (d_a,) of the plant, with which lags of actions begin. Without it,
                max_change does not limit the first.
        """
        self._applied = None if applied is None else self._checked(applied)
        self.states.reset(self._applied)
        self._sensors.reset()
        self._source: Source | None = None
        self._waited = self._left = 0

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
            return self._act(observation, applied, _finite(time), _finite(now))
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
        measured = self._sensors.usable(observation)
        state = self.states.update(measured, received, time)
        self.states.record(None)  # if there is no action
        measured = np.array(measured, dtype=np.float64)
        fault = self._sensors.fault(measured, time, now)
        if received is not None and np.isfinite(received).all():
            self._applied = received
        elif received is not None:
            fault = "the action applied is not finite"
        unknown, action = self._learned(state, allowed=fault is None)
        source: Source = "learned"
        reason = "inside the data"
        if action is None:
            source, reason, action = self._without_policy(measured, self._why(fault, state, unknown))
        after = None if action is None else source
        self._trace.add(self._source, after, reason=reason, unknown=unknown, time=time)
        if action is None:
            raise NoActionError(
                f"nobody acts at {state.tolist()} (unknown share {unknown:.3g}): {reason}. Give a fallback, "
                "a last resort, or reset(applied=…)"
            )
        return Decision(self._apply(action, source), unknown, source, reason)

    def state_dict(self) -> dict[str, Numbers]:
        """Return the memory as arrays; the last action is NaN before the first. The log is not part of it."""
        last = np.full(self._count, np.nan) if self._applied is None else self._applied.copy()
        source = 0 if self._source is None else 1 + _SOURCES.index(self._source)
        handover = np.array([source, self._waited, self._left], dtype=np.float64)
        own = {"last_action": last, "handover": handover, **self._sensors.state_dict()}
        return {**self.states.state_dict(), **own}

    def load_state_dict(self, values: Mapping[str, npt.ArrayLike]) -> None:
        """Continue from the memory of another guard of the same controller."""
        own, of_states = self.state_dict(), self.states.state_dict()
        if {*values} != {*own}:
            raise ArgumentError(f"the memory of a guard has {sorted(own)}, this one has {sorted(values)}")
        found = {}
        for name in own.keys() - of_states.keys():
            part = as_numbers(values[name])
            if part is None or part.shape != own[name].shape:
                raise ArgumentError(f"{name} is {values[name]!r}; give numbers of shape {own[name].shape}")
            found[name] = part
        source, waited, left = found["handover"].tolist()
        if source not in range(1 + len(_SOURCES)):
            raise ArgumentError(f"handover begins with {source}; give 0 to {len(_SOURCES)}, who acted last")
        self.states.load_state_dict({name: values[name] for name in of_states})
        self._sensors.load_state_dict(found)
        last = found["last_action"]
        self._applied = last.copy() if np.isfinite(last).all() else None
        self._source = (None, *_SOURCES)[int(source)]
        self._waited, self._left = int(waited), int(left)

    @property
    def _away(self) -> bool:
        """Whether another than the policy acted last."""
        return self._source not in {None, "learned"}

    def _learned(self, state: Numbers, *, allowed: bool) -> tuple[float, Numbers | None]:
        """Return the unknown share and the action of the policy, None where it may not act."""
        limit = self._return_unknown if self._away else self._most_unknown
        allowed = allowed and (not self._away or self._waited >= self._rules.dwell)
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
        if unknown > self._most_unknown:
            return "outside the data"
        return "waiting to return" if self._away else "the action of the policy is not finite"

    def _without_policy(self, measured: Numbers, why: str) -> tuple[Source, str, Numbers | None]:
        """Return who acts instead of the policy, why, and its action if there is one."""
        action, failure = self._fallback_action(measured)
        if action is not None:
            return "fallback", why, action
        held = self._applied if self._last_resort is None else self._last_resort
        return "last resort", f"{why}; {failure}", held

    def _fallback_action(self, measured: Numbers) -> tuple[Numbers | None, str]:
        """Return the action of the fallback, or None and what failed."""
        if self._fallback is None:
            return None, "no fallback"
        try:
            action = self._action(self._fallback(measured))
        except Exception as error:  # whatever it raises, the plant needs an action
            return None, f"the fallback raised {type(error).__name__}"
        return action, "the fallback gave no finite action"

    def _apply(self, action: Numbers, source: Source) -> Numbers:
        """Return the action within limits, and remember it and who gave it."""
        if source != self._source:
            self._left = 1 if self._source is None else self._rules.transfer
        self._applied = self._limited(self._blended(action))
        self._source, self._left = source, max(self._left - 1, 0)
        self._waited = 0 if source == "learned" else self._waited + 1
        self.states.record(self._applied)
        return self._applied.copy()

    def _blended(self, action: Numbers) -> Numbers:
        """Return the action, after a handover an equal part of the way from the last one to it."""
        if self._left <= 1 or self._applied is None:
            return action
        share = 1.0 / self._left
        return self._applied * (1.0 - share) + action * share

    def _limited(self, action: Numbers) -> Numbers:
        if self._applied is not None and self._max_change is not None:
            low, high = self._applied - self._max_change, self._applied + self._max_change
            action = np.minimum(np.maximum(action, low), high)
        return np.minimum(np.maximum(action, self._low), self._high)

    def _checked(self, applied: npt.ArrayLike) -> Numbers:
        action = self._action(applied)
        if action is None:
            raise ArgumentError(f"the action applied is {applied!r}; give {self._count} finite numbers")
        return action.copy()

    def _received(self, applied: npt.ArrayLike) -> Numbers:
        """Return the action of the plant (d_a,), all NaN if a number in it is not finite."""
        action = as_numbers(applied)
        if action is None or action.shape != (self._count,):
            raise ArgumentError(f"the action applied is {applied!r}; give {self._count} numbers")
        return action.copy() if np.isfinite(action).all() else np.full(self._count, np.nan)

    def _action(self, values: npt.ArrayLike) -> Numbers | None:
        """Return finite numbers (d_a,), or None for other values."""
        action = as_numbers(values)
        fits = action is not None and action.shape == (self._count,) and np.isfinite(action).all()
        return action if fits else None

    def _changes(self, max_change: npt.ArrayLike) -> Numbers:
        changes = as_numbers(max_change)
        if changes is None or changes.shape not in {(), (self._count,)} or not (changes > 0).all():
            raise ArgumentError(
                f"max_change is {max_change!r}; give a positive number, or {self._count}, one per action"
            )
        return changes.copy()

    def _resort(self, given: npt.ArrayLike) -> Numbers:
        action = self._action(given)
        if action is None or (action < self._low).any() or (action > self._high).any():
            raise ArgumentError(
                f"last_resort is {given!r}; give {self._count} numbers within {self._low.tolist()} and "
                f"{self._high.tolist()}"
            )
        return action.copy()


def _constant(values: Numbers) -> Numbers:
    """Return a copy that cannot be written to."""
    found = values.copy()
    found.setflags(write=False)
    return found


def _finite(time: float | None) -> float | None:
    return time if is_number(time) and math.isfinite(time) else None

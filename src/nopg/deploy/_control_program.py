"""One step of a guarded controller as a program: measurements in, an action and its origin out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nopg._columns import Columns
from nopg._state_step import StateStep, has_memory
from nopg.deploy._encoding import feature_map
from nopg.deploy._guard import GuardedController
from nopg.deploy._policies import policy_of
from nopg.deploy._policy_program import add_policy, clipped
from nopg.deploy._program import Array, Builder, Expression, Item, Number, Statement, Variable, call
from nopg.deploy._sensor_checks import largest_values
from nopg.deploy._support_program import add_support

LEARNED, FALLBACK, LAST_RESORT, NO_ACTION = range(4)
"""Who acted in a step: the policy, the fallback, the last resort, or nobody."""

_LARGEST = sys.float_info.max
_ACTED = 1
"""Added to who acted last in the memory, where 0 is a start."""

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ControlProgram:
    """A guarded controller without Python.

    Inputs are `measured` (d_x,), NaN where a value is missing; `applied` (d_a,), the actions since the last
    step, `fallback` (d_a,), and the times `measured_at` and `now`, each with a flag `…_given`. Outputs are
    `actions` (d_a,), `status` and `unknown`. Zeros and false flags are the memory before the first step. No
    name is a word of C or of its library, as `time` is.

    Attributes:
        columns: Names and units.
        low: Lowest actions, shape (d_a,).
        high: Highest actions.
        most_unknown: Largest unknown share at which the policy acts.
        constants: Values by name.
        variables: Inputs, outputs, memory and locals.
        step: The statements.
        bundle: SHA-256 of the manifest of the saved controller; None if it comes from none.
    """

    columns: Columns
    low: Numbers
    high: Numbers
    most_unknown: float
    constants: dict[str, Numbers]
    variables: tuple[Variable, ...]
    step: tuple[Statement, ...]
    bundle: str | None

    def of_role(self, role: str) -> list[Variable]:
        """Return the variables of a role."""
        return [one for one in self.variables if one.role == role]


def control_program(guard: GuardedController) -> ControlProgram:
    """Return the step of a guarded controller; its decisions are those of `GuardedController.act`.

    The fallback is an input of the step, in place of the function that the guard may have.

    Args:
        guard: The controller with its limits.
    """
    build = Builder()
    _Step(guard, build).add()
    return ControlProgram(
        guard.controller.columns,
        guard.low,
        guard.high,
        guard.most_unknown,
        build.constants,
        tuple(build.variables),
        build.statements,
        guard.controller.saved.bundle,
    )


class _Step:
    """The parts of a step, added in order."""

    def __init__(self, guard: GuardedController, build: Builder) -> None:
        columns = guard.controller.columns
        self.guard, self.build, self.columns = guard, build, columns
        self.saved, self.rule, self.keeps = guard.controller.saved, StateStep.of(columns), has_memory(columns)
        d_x, d_s, d_a = len(columns.measured), len(columns.states), len(columns.actions)
        self.measured = build.array("measured", "input", d_x)
        self.given_action, self.has_action = self._optional("applied", d_a)
        self.given_fallback, self.has_fallback = self._optional("fallback", d_a)
        (self.given_time, self.has_time), (self.given_now, self.has_now) = (
            (build.scalar(name, "input"), build.scalar(f"{name}_given", "input", "flag"))
            for name in ("measured_at", "now")
        )
        self.actions = build.array("actions", "output", d_a)
        self.status = build.scalar("status", "output", "code")
        self.unknown = build.scalar("unknown", "output")
        self.low, self.high = (
            build.constant(name, np.clip(ends, -_LARGEST, _LARGEST))
            for name, ends in (("low", guard.low), ("high", guard.high))
        )
        self.state = build.array("state", "memory" if self.keeps else "local", d_s)
        self.known = build.scalar("state_known", "memory" if self.keeps else "local", "flag")
        self.features = build.array("features", "local", len(columns.features))
        self.asked = build.array("asked", "local", d_a)
        self.absent = build.array("absent", "local", d_x, "flag")
        self.learned, self.acts, self.fault, self.action_received = (
            build.scalar(name, "local", "flag") for name in ("learned", "acts", "fault", "action_received")
        )
        self.acted, self.waited = build.scalar("acted", "memory", "code"), build.scalar("waited", "memory")
        self.away = self.acted > _ACTED + LEARNED
        if self.keeps:
            self.age = build.array("age", "memory", d_x)
            self.seen = build.array("seen", "memory", d_x, "flag")
        self.needs_last = bool(self.rule.needs_actions or (self.rule.lagged >= 0).any())
        self.remembered: list[tuple[Array, Item]] = []
        if self.needs_last:
            self.last, self.last_known = self._remembered("last_applied", d_a)
        self.origin, self.origin_known = self._remembered("change_origin", d_a)

    def _optional(self, name: str, size: int) -> tuple[Array, Item]:
        return self.build.array(name, "input", size), self.build.scalar(f"{name}_given", "input", "flag")

    def _remembered(self, name: str, size: int) -> tuple[Array, Item]:
        """Declare an action in the memory, and whether it is known."""
        found = self.build.array(name, "memory", size)
        self.remembered.append((found, self.build.scalar(f"{name}_known", "memory", "flag")))
        return self.remembered[-1]

    def add(self) -> None:
        """Add all parts."""
        build = self.build
        build.comment("an action or a time that is not finite counts as not known")
        build.set(self.fault, False)
        build.set(self.action_received, self.has_action)
        with build.when(self.has_action), build.each(self.given_action.size) as i:
            self._clear_unless(self.action_received, call("is_finite", self.given_action[i]))
        self._mark_absent()
        if self.keeps or self.guard.rules.deadline is not None:
            self._check_time()
        if self.guard.rules.frozen is not None:
            self._check_frozen()
        self._take_applied()
        self._next_state()
        self._decide()
        self._act()

    def _mark_absent(self) -> None:
        """Set which measurements are missing: not finite, or angles so large that they have no direction."""
        build = self.build
        largest = largest_values(self.columns)
        has_angles = bool((largest < _LARGEST).any())
        limits = build.constant("largest", largest) if has_angles else None
        with build.each(self.measured.size) as i:
            value = self.measured[i]
            usable: Expression = call("is_finite", value)
            if limits is not None:
                usable = usable & (value <= limits[i]) & (-limits[i] <= value)
            build.set(self.absent[i], ~usable)

    def _clear_unless(self, flag: Item, condition: Expression) -> None:
        with self.build.when(~condition):
            self.build.set(flag, False)

    def _check_time(self) -> None:
        """Start anew after a gap, and find a clock that fails and measurements beyond the deadline."""
        build, gap, deadline = self.build, self.guard.states.gap, self.guard.rules.deadline
        time, time_known = (
            build.scalar("last_measured_at", "memory"),
            build.scalar("last_measured_at_known", "memory", "flag"),
        )
        timed, passed = build.scalar("timed", "local", "flag"), self.given_time - time
        build.set(timed, self.has_time & call("is_finite", self.given_time))
        if self.keeps:
            build.comment("the memory starts anew after a gap in time, and where a clock goes back")
            late = passed < 0.0
            if np.isfinite(gap):
                late = late | (passed > float(gap))
            with build.when(timed & time_known & late):
                self._forget()
        if deadline is not None:
            build.comment("time stamps advance, and measurements are not older than the deadline")
            with build.when(~timed):
                build.set(self.fault, True)
            aged = self.has_now & call("is_finite", self.given_now)
            with build.when(timed & time_known & ((passed <= 0.0) | (~aged & (passed > float(deadline))))):
                build.set(self.fault, True)
            with build.when(timed & aged & ((self.given_now - self.given_time) > float(deadline))):
                build.set(self.fault, True)
        build.set(time_known, timed)
        with build.when(timed):
            build.set(time, self.given_time)

    def _forget(self) -> None:
        build = self.build
        build.set(self.known, False)
        build.fill(self.age, 0.0)
        build.fill(self.seen, False)
        if self.needs_last:
            build.set(self.last_known, False)

    def _check_frozen(self) -> None:
        build, limits = self.build, self.guard.rules.frozen_limits(self.columns)
        build.comment("a value that has not changed for many steps is a fault")
        most = build.constant("frozen", np.minimum(limits, _LARGEST))
        last, repeats = (build.array(name, "memory", most.size) for name in ("last_measured", "repeats"))
        known = build.array("last_measured_known", "memory", most.size, "flag")
        with build.each(most.size) as i:
            value = self.measured[i]
            with build.when(~self.absent[i]):
                with build.when(known[i] & (last[i] <= value) & (value <= last[i])):
                    build.set(repeats[i], repeats[i] + 1.0)
                with build.otherwise():
                    build.set(repeats[i], 0.0)
                build.set(last[i], value)
                build.set(known[i], True)
            with build.when(most[i] <= repeats[i]):
                build.set(self.fault, True)

    def _take_applied(self) -> None:
        build = self.build
        build.comment("the action that the plant received")
        with build.when(self.action_received):
            self._remember(self.given_action)
        with build.when(self.has_action & ~self.action_received):
            build.set(self.fault, True)
            if self.needs_last:
                build.set(self.last_known, False)

    def _remember(self, values: Array) -> None:
        for target, known in self.remembered:
            with self.build.each(target.size) as i:
                self.build.set(target[i], values[i])
            self.build.set(known, True)

    def _next_state(self) -> None:
        build, width = self.build, self.measured.size
        if not self.keeps:
            build.comment("the state is measured")
            build.set(self.known, True)
            with build.each(width) as i:
                build.set(self.state[i], self.measured[i])
                with build.when(self.absent[i]):
                    build.set(self.known, False)
            return
        held = build.array("held", "local", width)
        whole = build.scalar("whole", "local", "flag")
        self._hold(held, whole)
        if self.columns.derived:
            self._derive(held, whole)
        else:
            build.set(self.known, whole)
        with build.each(width) as i:
            build.set(self.state[i], held[i])
        if self.needs_last:
            build.set(self.last_known, False)

    def _hold(self, held: Array, whole: Item) -> None:
        """Set what is measured, or was while it may be held, and whether all of it is finite."""
        build, hold = self.build, self.build.constant("hold", self.rule.hold)
        build.comment("a missing value is the last one while it may be held")
        build.set(whole, True)
        with build.each(held.size) as i:
            with build.when(self.absent[i]):
                with build.when(self.age[i] < hold[i]):
                    build.set(held[i], self.state[i])
                with build.otherwise():
                    build.set(self.seen[i], False)
                build.set(self.age[i], self.age[i] + 1.0)
            with build.otherwise():
                build.set(held[i], self.measured[i])
                build.set(self.seen[i], True)
                build.set(self.age[i], 0.0)
            with build.when(~self.seen[i]):
                build.set(held[i], 0.0)
                build.set(whole, False)

    def _derive(self, held: Array, whole: Item) -> None:
        """Set the derived columns, by their update or at a start-up by their first formula."""
        build, derived, width = self.build, self.rule.derived, held.size
        goes_on: Expression = whole & self.known
        if self.rule.needs_actions:
            goes_on = goes_on & self.last_known
        following = build.array("following", "local", len(derived.columns.derived))
        names = list(derived.columns.derived)
        build.comment("derived columns: " + ", ".join(names))
        with build.when(goes_on):
            for k in range(following.size):
                terms = [
                    *_terms(derived.by_state[k], self.state),
                    *(_terms(derived.by_action[k], self.last) if self.needs_last else []),
                    *_terms(derived.by_next[k], held),
                ]
                build.set(following[k], _sum(float(derived.constants[1][k]), terms))
        with build.otherwise():
            for k in range(following.size):
                terms = _terms(derived.initial[k], held)
                build.set(following[k], _sum(float(derived.constants[0][k]), terms))
                if self.rule.lagged[k] >= 0:
                    with build.when(self.last_known):
                        build.set(following[k], self.last[int(self.rule.lagged[k])])
        build.set(self.known, whole)
        with build.each(following.size) as i:
            build.set(self.state[i + width], following[i])
            self._clear_unless(self.known, call("is_finite", following[i]))

    def _decide(self) -> None:
        """Set whether the policy acts, and its action."""
        build = self.build
        build.set(self.learned, self.known)
        build.set(self.unknown, 1.0)
        with build.when(self.learned):
            self._encode()
        with build.when(self.learned):
            build.comment("the policy")
            add_policy(build, policy_of(self.saved), self.features, self.asked)
            with build.each(self.asked.size) as i:
                self._clear_unless(self.learned, call("is_finite", self.asked[i]))
                build.set(self.asked[i], clipped(self.asked[i], self.low[i], self.high[i]))
        with build.when(self.learned):
            self._measure_unknown()
            self._allow()

    def _allow(self) -> None:
        """Set whether the policy may act: at once from the start, after the dwell time from elsewhere."""
        build, guard = self.build, self.guard
        build.set(self.learned, ~self.fault & (self.unknown <= guard.most_unknown))
        with build.when(self.away & (self.waited < float(guard.rules.dwell))):
            build.set(self.learned, False)
        with build.when(self.away & (self.unknown > guard.return_unknown)):
            build.set(self.learned, False)

    def _encode(self) -> None:
        """Set the features; an angle so large that it has no direction is not known."""
        build = self.build
        for k, (source, angular, turns, phase) in enumerate(zip(*feature_map(self.columns), strict=True)):
            raw = self.state[int(source)]
            angle = raw * float(turns) + float(phase)
            build.set(self.features[k], call("sin", angle) if angular else raw)
            if angular:
                self._clear_unless(self.learned, call("is_finite", self.features[k]))

    def _measure_unknown(self) -> None:
        """Set the unknown share at the state and the action of the policy."""
        build, d_s = self.build, self.state.size
        inputs = build.array("inputs", "local", d_s + self.asked.size)
        with build.each(d_s) as i:
            build.set(inputs[i], self.state[i])
        with build.each(self.asked.size) as i:
            build.set(inputs[i + d_s], self.asked[i])
        add_support(build, self.saved.support, inputs, self.unknown)

    def _act(self) -> None:
        """Set the action within its limits, and remember it."""
        build = self.build
        build.comment("without the policy the fallback acts; without both, the last resort")
        build.set(self.acts, self.learned)
        build.set(self.status, LEARNED)
        with build.when(~self.learned):
            build.set(self.status, FALLBACK)
            build.set(self.acts, self.has_fallback)
            with build.when(self.has_fallback), build.each(self.asked.size) as i:
                build.set(self.asked[i], self.given_fallback[i])
                self._clear_unless(self.acts, call("is_finite", self.given_fallback[i]))
            with build.when(~self.acts):
                self._last_resort()
        with build.when(self.acts):
            if self.guard.rules.transfer > 1:
                self._blend()
            self._limit()
            self._remember(self.actions)
            build.set(self.acted, self.status + _ACTED)
            build.set(self.waited, self.waited + 1.0)
            with build.when(self.learned):
                build.set(self.waited, 0.0)

    def _last_resort(self) -> None:
        build, declared = self.build, self.guard.rules.last_resort
        build.set(self.status, LAST_RESORT)
        if declared is None:
            build.set(self.acts, self.origin_known)
            with build.when(~self.acts):
                build.set(self.status, NO_ACTION)
        else:
            build.set(self.acts, True)
        action = self.origin if declared is None else build.constant("last_resort", declared)
        with build.each(self.asked.size) as i:
            build.set(self.asked[i], action[i])

    def _blend(self) -> None:
        """Move by equal parts from the last action to that of another controller."""
        build = self.build
        build.comment("after a handover the action moves by equal parts")
        left, share = build.scalar("transfer_left", "memory"), build.scalar("share", "local")
        with build.when((self.acted < self.status + _ACTED) | (self.acted > self.status + _ACTED)):
            build.set(left, float(self.guard.rules.transfer))
            with build.when(self.acted < _ACTED):
                build.set(left, 1.0)
        with build.when(self.origin_known & (left > 1.0)):
            build.set(share, Number(1.0) / left)
            with build.each(self.asked.size) as i:
                rest = self.origin[i] * (Number(1.0) - share)
                build.set(self.asked[i], rest + self.asked[i] * share)
        with build.when(left > 0.0):
            build.set(left, left - 1.0)

    def _limit(self) -> None:
        build, guard = self.build, self.guard
        build.comment("limits of the action and of its change")
        low, high = self.low, self.high
        if guard.max_change is not None:
            change = build.constant("max_change", np.broadcast_to(guard.max_change, (low.size,)))
            with build.when(self.origin_known), build.each(low.size) as i:
                near = self.origin[i] - change[i], self.origin[i] + change[i]
                build.set(self.asked[i], clipped(self.asked[i], *near))
        with build.each(low.size) as i:
            build.set(self.actions[i], clipped(self.asked[i], low[i], high[i]))


def _terms(slopes: Numbers, values: Array) -> list[Expression]:
    """Return the products that are not zero."""
    return [
        values[int(k)] if slopes[k] == 1.0 else values[int(k)] * float(slopes[k])
        for k in np.flatnonzero(slopes)
    ]


def _sum(constant: float, terms: Sequence[Expression]) -> Expression:
    parts = [*terms, Number(constant)] if constant or not terms else [*terms]
    found = parts[0]
    for one in parts[1:]:
        found = found + one
    return found

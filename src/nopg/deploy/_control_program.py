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

__all__ = ["FALLBACK", "LEARNED", "NO_ACTION", "REFUSED", "ControlProgram", "control_program"]

LEARNED, FALLBACK, NO_ACTION, REFUSED = range(4)
"""What a step did: the policy acted, the fallback did, neither could, or an argument was no number."""

_LARGEST = sys.float_info.max
_ZERO_BELOW = -746.0
"""An exponent at which exp is 0 in float64."""

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ControlProgram:
    """A guarded controller without Python.

    Inputs are `measured` (d_x,), NaN where a value is missing; `applied` (d_a,), the actions since the last
    step, `fallback` (d_a,) and the time `measured_at`, each with a flag `…_given`. Outputs are `actions`
    (d_a,), `status`, `support` and `unknown`. Zeros and false flags are the memory before the first step. No
    name is a word of C or of Structured Text, as `time` and `action` are.

    Attributes:
        columns: Names and units.
        low: Lowest actions, shape (d_a,).
        high: Highest actions.
        most_unknown: Largest unknown share at which the policy acts.
        constants: Values by name.
        variables: Inputs, outputs, memory and locals.
        step: The statements.
    """

    columns: Columns
    low: Numbers
    high: Numbers
    most_unknown: float
    constants: dict[str, Numbers]
    variables: tuple[Variable, ...]
    step: tuple[Statement, ...]

    def of_role(self, role: str) -> list[Variable]:
        """Return the variables of a role."""
        return [one for one in self.variables if one.role == role]


def control_program(guard: GuardedController, *, flagged: bool = False) -> ControlProgram:
    """Return the step of a guarded controller; its decisions are those of `GuardedController.act`.

    The fallback is an input of the step, in place of the function that the guard may have.

    Args:
        guard: The controller with its limits.
        flagged: Whether there is an input `missing` (d_x,) of flags, for callers without NaN.
    """
    controller, build = guard.controller, Builder()
    _Step(guard, build, flagged).add()
    return ControlProgram(
        controller.columns,
        controller.low,
        controller.high,
        guard.most_unknown,
        build.constants,
        tuple(build.variables),
        build.statements,
    )


class _Step:
    """The parts of a step, added in order."""

    def __init__(self, guard: GuardedController, build: Builder, flagged: bool) -> None:
        columns = guard.controller.columns
        self.guard, self.build, self.columns = guard, build, columns
        self.saved, self.rule, self.keeps = guard.controller.saved, StateStep.of(columns), has_memory(columns)
        d_x, d_s, d_a = len(columns.measured), len(columns.states), len(columns.actions)
        self.measured = build.array("measured", "input", d_x)
        self.missing = build.array("missing", "input", d_x, "flag") if flagged else None
        self.given_action, self.has_action = self._optional("applied", d_a)
        self.given_fallback, self.has_fallback = self._optional("fallback", d_a)
        self.given_time = build.scalar("measured_at", "input")
        self.has_time = build.scalar("measured_at_given", "input", "flag")
        self.actions = build.array("actions", "output", d_a)
        self.status = build.scalar("status", "output", "code")
        self.support, self.unknown = (build.scalar(name, "output") for name in ("support", "unknown"))
        self.state = build.array("state", "memory" if self.keeps else "local", d_s)
        self.known = build.scalar("state_known", "memory" if self.keeps else "local", "flag")
        self.features = build.array("features", "local", len(columns.features))
        self.asked = build.array("asked", "local", d_a)
        self.learned, self.acts, self.accepted = (
            build.scalar(name, "local", "flag") for name in ("learned", "acts", "accepted")
        )
        if self.keeps:
            self.age = build.array("age", "memory", d_x)
            self.seen = build.array("seen", "memory", d_x, "flag")
        self.needs_last = bool(self.rule.needs_actions or (self.rule.lagged >= 0).any())
        self.remembered: list[tuple[Array, Item]] = []
        if self.needs_last:
            self.last, self.last_known = self._remembered("last_applied", d_a)
        if guard.max_change is not None:
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
        build.comment("arguments: an action and a time that are given are finite")
        build.set(self.accepted, True)
        self._refuse_unless_finite(self.given_action, self.has_action)
        if self.keeps:
            with build.when(self.has_time & ~call("is_finite", self.given_time)):
                build.set(self.accepted, False)
        build.set(self.status, REFUSED)
        with build.when(self.accepted):
            if self.keeps:
                self._after_gap()
            self._take_applied()
            self._next_state()
            self._decide()
            self._act()

    def _refuse_unless_finite(self, values: Array, given: Item) -> None:
        build = self.build
        with build.when(given), build.each(values.size) as i:
            self._clear_unless(self.accepted, call("is_finite", values[i]))

    def _clear_unless(self, flag: Item, condition: Expression) -> None:
        with self.build.when(~condition):
            self.build.set(flag, False)

    def _after_gap(self) -> None:
        """Start anew after a gap in time."""
        build, gap = self.build, self.guard.states.gap
        build.comment("the memory starts anew after a gap in time, and where a clock goes back")
        time, time_known = (
            build.scalar("last_measured_at", "memory"),
            build.scalar("last_measured_at_known", "memory", "flag"),
        )
        passed = self.given_time - time
        late = passed < 0.0
        if np.isfinite(gap):
            late = late | (passed > float(gap))
        with build.when(self.has_time & time_known & late):
            build.set(self.known, False)
            build.fill(self.age, 0.0)
            build.fill(self.seen, False)
            if self.needs_last:
                build.set(self.last_known, False)
        build.set(time_known, self.has_time)
        with build.when(self.has_time):
            build.set(time, self.given_time)

    def _take_applied(self) -> None:
        if not self.remembered:
            return
        self.build.comment("the action that the plant received")
        with self.build.when(self.has_action):
            self._remember(self.given_action)

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
                self._clear_unless(self.known, call("is_finite", self.measured[i]))
                if self.missing is not None:
                    self._clear_unless(self.known, ~self.missing[i])
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
            absent: Expression = call("is_nan", self.measured[i])
            if self.missing is not None:
                absent = absent | self.missing[i]
            with build.when(absent):
                with build.when(self.age[i] < hold[i]):
                    build.set(held[i], self.state[i])
                with build.otherwise():
                    build.set(self.seen[i], False)
                build.set(self.age[i], self.age[i] + 1.0)
            with build.otherwise():
                build.set(held[i], self.measured[i])
                build.set(self.seen[i], call("is_finite", self.measured[i]))
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
        build.comment("support of the data: the policy acts where the unknown share is small")
        build.set(self.learned, self.known)
        build.set(self.support, 0.0)
        build.set(self.unknown, 1.0)
        with build.when(self.learned):
            self._encode()
        with build.when(self.learned):
            self._measure_support()
            build.set(self.learned, self.unknown <= self.guard.most_unknown)
        with build.when(self.learned):
            build.comment("the policy")
            add_policy(build, policy_of(self.saved), self.features, self.asked)
            with build.each(self.asked.size) as i:
                self._clear_unless(self.learned, call("is_finite", self.asked[i]))
            with build.when(~self.learned):
                build.set(self.support, 0.0)
                build.set(self.unknown, 1.0)

    def _encode(self) -> None:
        """Set the features; an angle so large that it has no direction is not known."""
        build = self.build
        for k, (source, angular, turns, phase) in enumerate(zip(*feature_map(self.columns), strict=True)):
            raw = self.state[int(source)]
            angle = raw * float(turns) + float(phase)
            build.set(self.features[k], call("sin", angle) if angular else raw)
            if angular:
                self._clear_unless(self.learned, call("is_finite", self.features[k]))

    def _measure_support(self) -> None:
        """Set S(z) = Σⱼ wⱼ exp(−½‖(z − zⱼ)/h‖²) and β/(β + S)."""
        build, saved = self.build, self.saved.support
        d_f = self.features.size
        width, weights = build.constant("width", saved.width), build.constant("weights", saved.weights)
        places = build.constant("places", saved.places / saved.width)
        relative = build.array("relative", "local", d_f)
        exponent, apart = (build.scalar(name, "local") for name in ("exponent", "apart"))
        with build.each(d_f) as i:
            build.set(relative[i], self.features[i] / width[i])
        with build.each(len(saved.weights)) as i:
            build.set(exponent, 0.0)
            with build.each(d_f) as j:
                build.set(apart, relative[j] - places[i * d_f + j])
                build.set(exponent, exponent - (apart * apart) * 0.5)
            with build.when(exponent > _ZERO_BELOW):
                build.set(self.support, self.support + weights[i] * call("exp", exponent))
        beta = float(saved.prior_mass)
        build.set(self.unknown, Number(beta) / (Number(beta) + self.support))

    def _act(self) -> None:
        """Set the action within its limits, and remember it."""
        build = self.build
        build.comment("outside the data the fallback acts, if there is one")
        build.set(self.acts, self.learned)
        build.set(self.status, LEARNED)
        with build.when(~self.learned):
            build.set(self.status, NO_ACTION)
            build.set(self.acts, self.has_fallback)
            with build.when(self.has_fallback), build.each(self.asked.size) as i:
                build.set(self.asked[i], self.given_fallback[i])
                self._clear_unless(self.acts, call("is_finite", self.given_fallback[i]))
            with build.when(self.acts):
                build.set(self.status, FALLBACK)
        build.comment("limits of the action and of its change")
        with build.when(self.acts):
            self._limit()
            self._remember(self.actions)

    def _limit(self) -> None:
        build, guard = self.build, self.guard
        low, high = (
            build.constant(name, np.clip(ends, -_LARGEST, _LARGEST))
            for name, ends in (("low", guard.controller.low), ("high", guard.controller.high))
        )
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

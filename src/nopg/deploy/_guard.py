"""A controller on a plant, with a rate limit and a fallback outside the support of the data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from nopg._columns import GAP_FACTOR
from nopg._stream import StateStream, as_numbers
from nopg.deploy._controller import RuntimeController
from nopg.deploy._encoding import Numbers
from nopg.errors import ArgumentError, NoActionError, ObservationError

__all__ = ["MOST_UNKNOWN", "Decision", "Fallback", "GuardedController"]

MOST_UNKNOWN = 0.5
"""Default limit on the unknown share of a state, which means S ≥ β."""

Fallback = Callable[[Numbers], npt.ArrayLike]
"""Maps an observation (d_x,) as it was measured, with NaN where a sensor failed, to an action (d_a,)."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The action to apply, and its origin.

    Attributes:
        action: Shape (d_a,).
        unknown: β/(β + S) of the state; 1 if a number in it is not finite.
        support: S of the state; 0 if a number in it is not finite.
        source: The controller that gave the action, before the limits.
    """

    action: Numbers
    unknown: float
    support: float
    source: Literal["learned", "fallback"]


class GuardedController:
    """The learned controller where the state is in the support of the data, a fallback elsewhere.

    Every action lies between the limits of the controller and changes by at most `max_change` per step. An
    observation with a number that is not finite counts as unknown and never reaches the policy. Without a
    fallback, `act` raises `NoActionError` for an unknown state, because the safe action depends on the plant.
    An observation of another shape is a programming error and always raises `ObservationError`.

    An observation has the measured columns; the guard keeps the memory that derived columns and held values
    need, with the actions after fallback and limits. `states` holds it: see `StateStream` for start-ups.

    Args:
        controller: From `nopg.deploy.load`.
        fallback: A trusted controller, such as the one that logged the data: observation in, action out.
        most_unknown: The largest unknown share at which the learned controller acts.
        max_change: The largest change of an action per step: one number, or one per action. It also holds
            for the fallback, to protect the actuator.
        gap_factor: Number of sampling intervals after which the memory of derived columns starts anew.

    Example:
        >>> from nopg._columns import Columns
        >>> from nopg.bundles import SavedController
        >>> from nopg.bundles._controller import SavedSupport
        >>> saved = SavedController(
        ...     Columns(("level",), ("valve",), bounds={"valve": (0.0, 1.0)}), {"kind": "linear"},
        ...     {"gain": np.array([[2.0]])},
        ...     SavedSupport(np.array([[0.3]]), np.ones(1), np.array([0.1]), prior_mass=1e-3), "here")
        >>> guard = GuardedController(RuntimeController(saved), fallback=lambda level: [0.5], max_change=0.2)
        >>> guard.act([0.3])
        Decision(action=array([0.6]), unknown=0.000999..., support=1.0, source='learned')
        >>> guard.act([9.0])
        Decision(action=array([0.5]), unknown=1.0, support=0.0, source='fallback')
        >>> guard.act([0.4]).action    # 0.8 requested, but at most 0.2 more than before
        array([0.7])
    """

    def __init__(
        self,
        controller: RuntimeController,
        *,
        fallback: Fallback | None = None,
        most_unknown: float = MOST_UNKNOWN,
        max_change: npt.ArrayLike | None = None,
        gap_factor: float = GAP_FACTOR,
    ) -> None:
        if not 0.0 <= most_unknown <= 1.0:
            raise ArgumentError(f"most_unknown is {most_unknown}; it is a share, give a number in [0, 1]")
        if fallback is not None and not callable(fallback):  # checked before it is needed
            raise ArgumentError(f"the fallback is {fallback!r}; give a function from observation to action")
        if max_change is not None and controller.columns.levels:
            raise ArgumentError(
                f"max_change is {max_change!r}, but {list(controller.columns.levels)} have levels, which "
                "cannot change by less than a level; leave it out"
            )
        self.controller, self.fallback, self.most_unknown = controller, fallback, float(most_unknown)
        self.states = StateStream(controller.columns, gap_factor=gap_factor)
        self._count = len(controller.columns.actions)
        self._max_change = None if max_change is None else self._changes(max_change)
        self._applied: Numbers | None = None

    @property
    def applied(self) -> Numbers | None:
        """The last action (d_a,), the reference of max_change; None before the first."""
        return None if self._applied is None else self._applied.copy()

    @property
    def max_change(self) -> Numbers | None:
        """The largest change of an action per step, () or (d_a,); None if there is no limit."""
        return None if self._max_change is None else self._max_change.copy()

    def reset(self, applied: npt.ArrayLike | None = None) -> None:
        """Clear the last action and the memory before a new run.

        Args:
            applied: The current action (d_a,) of the plant, with which lags of actions begin. Without it,
                max_change does not limit the first.
        """
        self._applied = None if applied is None else self._checked(applied)
        self.states.reset(self._applied)

    def act(
        self,
        observation: npt.ArrayLike,
        applied: npt.ArrayLike | None = None,
        time: float | None = None,
    ) -> Decision:
        """Return the action to apply at an observation (d_x,), and store it as the last action.

        Args:
            observation: The measured columns, NaN where a value is missing.
            applied: The action (d_a,) that the plant received since the last step, where it is not the last
                one returned; also the reference of max_change.
            time: When it was measured, in seconds on any clock.
        """
        received = None if applied is None else self._checked(applied)
        state = self.states.update(observation, received, time)
        self.states.record(None)  # if there is no action
        self._applied = self._applied if received is None else received
        support, unknown, learned = self._learned(state)
        if learned is None:
            action = self._limited(self._fallback_action(observation, state, unknown))
        else:
            action = self._limited(learned)
        self._applied = action.copy()
        self.states.record(action)
        return Decision(action, unknown, support, "fallback" if learned is None else "learned")

    def state_dict(self) -> dict[str, Numbers]:
        """Return the memory as arrays: that of `states`, and the last action, NaN before the first."""
        last = np.full(self._count, np.nan) if self._applied is None else self._applied.copy()
        return {**self.states.state_dict(), "last_action": last}

    def load_state_dict(self, values: Mapping[str, npt.ArrayLike]) -> None:
        """Continue from the memory of another guard of the same controller."""
        if "last_action" not in values:
            raise ArgumentError(f"the memory of a guard has a last_action, this one has {sorted(values)}")
        last = as_numbers(values["last_action"])
        if last is None or last.shape != (self._count,):
            raise ArgumentError(f"last_action is {values['last_action']!r}; give {self._count} numbers")
        self.states.load_state_dict({name: one for name, one in values.items() if name != "last_action"})
        self._applied = last.copy() if np.isfinite(last).all() else None

    def _learned(self, state: Numbers) -> tuple[float, float, Numbers | None]:
        """Return support, unknown share and the action of the policy, None above the limit."""
        try:
            support, unknown = map(float, self.controller.support_and_unknown(state))
            return support, unknown, self.controller(state) if unknown <= self.most_unknown else None
        except ObservationError:  # the shape was checked, so a number is not finite
            return 0.0, 1.0, None

    def _fallback_action(self, observation: npt.ArrayLike, state: Numbers, unknown: float) -> Numbers:
        if self.fallback is None:
            raise NoActionError(
                f"the state {state.tolist()} is outside the data (unknown share {unknown:.3g}, limit "
                f"{self.most_unknown:g}) and there is no fallback; give one, or stop the plant"
            )
        given = self.fallback(np.array(as_numbers(observation)))
        action = self._action(given)
        if action is None:
            raise NoActionError(f"the fallback gave {given!r}, not {self._count} finite numbers")
        return action

    def _limited(self, action: Numbers) -> Numbers:
        if self._applied is not None and self._max_change is not None:
            action = np.clip(action, self._applied - self._max_change, self._applied + self._max_change)
        return np.clip(action, self.controller.low, self.controller.high)

    def _checked(self, applied: npt.ArrayLike) -> Numbers:
        action = self._action(applied)
        if action is None:
            raise ArgumentError(f"the action applied is {applied!r}; give {self._count} finite numbers")
        return action.copy()

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

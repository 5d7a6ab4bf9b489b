"""A controller on a plant: watched, limited, and never without an answer that somebody chose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from nopg.deploy._controller import RuntimeController
from nopg.deploy._encoding import as_numbers
from nopg.errors import ArgumentError, NoActionError, ObservationError

__all__ = ["MOST_UNKNOWN", "Decision", "Fallback", "GuardedController"]

MOST_UNKNOWN = 0.5
"""The unknown share up to which a controller acts, unless told otherwise: S ≥ β."""

Numbers = npt.NDArray[np.float64]

Fallback = Callable[[Numbers], npt.ArrayLike]
"""Takes an observation (d_s,), which may hold NaN where a sensor failed, and gives an action (d_a,)."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What to apply now, and why.

    Attributes:
        action: Shape (d_a,).
        unknown: β/(β + S) of the observation; 1 where it holds what is no finite number.
        support: S, likewise 0.
        source: Who wanted the action, before it was limited.
    """

    action: Numbers
    unknown: float
    support: float
    source: Literal["learned", "fallback"]


class GuardedController:
    """Asks the learned controller where the data know the state, the fallback elsewhere.

    Whoever is asked, the action changes by at most `max_change` from the one before, and lies between the
    limits of the controller. A number that is not finite never reaches the policy: such an observation counts
    as unknown. Without a fallback, `act` raises `NoActionError` instead: to hold the last action or to go on
    would be a choice about a plant that we do not know. An observation of another shape is a mistake in a
    program, not on the plant, and raises `ObservationError` in every case.

    Args:
        controller: From `nopg.deploy.load`.
        fallback: A controller that is trusted everywhere, such as the one that ran when the data were
            logged: observation in, action out.
        most_unknown: The largest unknown share at which the learned controller is asked.
        max_change: How far an action may move in one step: one number, or one per action. It holds for
            the fallback too, since it is there to protect the actuator.

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
        >>> guard.act([0.4]).action    # 0.8 is wanted, 0.2 more than before allowed
        array([0.7])
    """

    def __init__(
        self,
        controller: RuntimeController,
        *,
        fallback: Fallback | None = None,
        most_unknown: float = MOST_UNKNOWN,
        max_change: npt.ArrayLike | None = None,
    ) -> None:
        if not 0.0 <= most_unknown <= 1.0:
            raise ArgumentError(f"most_unknown is {most_unknown}; it is a share, give a number in [0, 1]")
        if fallback is not None and not callable(fallback):  # better said now than when it is needed
            raise ArgumentError(f"the fallback is {fallback!r}; give a function from observation to action")
        self.controller, self.fallback, self.most_unknown = controller, fallback, float(most_unknown)
        self._count = len(controller.columns.actions)
        self._max_change = None if max_change is None else self._changes(max_change)
        self._applied: Numbers | None = None

    @property
    def applied(self) -> Numbers | None:
        """The last action (d_a,), from which the next change is counted; None before the first."""
        return None if self._applied is None else self._applied.copy()

    def reset(self, applied: npt.ArrayLike | None = None) -> None:
        """Forget the last action, as before a new run.

        Args:
            applied: The action (d_a,) that stands on the plant now. Without it the first one is free to jump.
        """
        self._applied = None
        if applied is not None:
            action = self._action(applied)
            if action is None:
                raise ArgumentError(f"the action applied is {applied!r}; give {self._count} finite numbers")
            self._applied = action.copy()

    def act(self, observation: npt.ArrayLike) -> Decision:
        """Return what to apply at an observation (d_s,), and take it as applied."""
        state = self.controller.one_observation(observation)
        support, unknown, wanted = self._learned(state)
        source: Literal["learned", "fallback"] = "learned" if wanted is not None else "fallback"
        action = self._limited(self._fallen_back(state, unknown) if wanted is None else wanted)
        self._applied = action.copy()
        return Decision(action, unknown, support, source)

    def _learned(self, state: Numbers) -> tuple[float, float, Numbers | None]:
        """Return support, unknown share and, if that is small enough, the action of the policy."""
        try:
            support, unknown = map(float, self.controller.support_and_unknown(state))
            return support, unknown, self.controller(state) if unknown <= self.most_unknown else None
        except ObservationError:  # the shape was checked, so this is no number
            return 0.0, 1.0, None

    def _fallen_back(self, state: Numbers, unknown: float) -> Numbers:
        if self.fallback is None:
            raise NoActionError(
                f"the data do not know {state.tolist()} (unknown share {unknown:.3g}, at most "
                f"{self.most_unknown:g} is allowed), and there is no fallback; give one, or stop the plant"
            )
        given = self.fallback(state.copy())
        action = self._action(given)
        if action is None:
            raise NoActionError(f"the fallback gave {given!r}, not {self._count} finite numbers")
        return action

    def _limited(self, wanted: Numbers) -> Numbers:
        if self._applied is not None and self._max_change is not None:
            wanted = np.clip(wanted, self._applied - self._max_change, self._applied + self._max_change)
        return np.clip(wanted, self.controller.low, self.controller.high)

    def _action(self, values: npt.ArrayLike) -> Numbers | None:
        """Return an action if it is one."""
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

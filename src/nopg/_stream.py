"""Measurements as they come, turned into states, and a controller that acts on them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from nopg._columns import GAP_FACTOR, Columns
from nopg._derived import Memory, StateStep, has_memory
from nopg.errors import ArgumentError, ObservationError

Numbers = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class StateStream:
    """The states of a plant from its measurements, step by step.

    A state holds the measured columns, then the derived ones (lags, integrals) as in the log of
    the training. A missing measurement is NaN and is replaced by the last one for the number of steps that
    its column declares (`hold`); after that it stays NaN, on which no controller may act.

    The memory starts anew at the first step, after `reset`, after a measurement was missing for longer than
    its hold, and after a time of more than five sampling intervals (or when a clock goes back). Lags of
    measured columns then have the present value and integrals 0. Lags of actions have the action applied last
    where it is known: given to `update` or `reset`, or recorded before a measurement failed. Elsewhere they
    have the constant of their formula, the mean logged action.

    Args:
        columns: Of the controller.
        batch: Number of plants that run side by side; measurements and states are then rows.

    Attributes:
        columns: As given.
        gap: The time in seconds after which the memory starts anew; infinite without a sampling interval.
        started: Where the last step started anew, shape () or (batch,); False for columns without a memory.
    """

    def __init__(self, columns: Columns, *, batch: int | None = None) -> None:
        if batch is not None and batch < 1:
            raise ArgumentError(f"batch is {batch}; give the number of plants, or nothing for one")
        self.columns, self._step, self._keeps = columns, StateStep.of(columns), has_memory(columns)
        self.gap = math.inf if columns.interval is None else GAP_FACTOR * columns.interval
        self._shape: tuple[int, ...] = () if batch is None else (batch,)
        self._memory, self._times = self._step.start(self._shape), np.full(self._shape, np.nan)
        self._recorded, self.started = True, np.full(self._shape, self._keeps)

    @property
    def state(self) -> Numbers:
        """The last state, (d_s,) or (batch, d_s); NaN before the first step."""
        return self._memory.state.copy()

    def update(
        self,
        measured: npt.ArrayLike,
        applied: npt.ArrayLike | None = None,
        time: npt.ArrayLike | None = None,
    ) -> Numbers:
        """Return the state (d_s,) at measurements (d_x,), or the states (batch, d_s) of all plants.

        Args:
            measured: The measured columns, NaN where a value is missing.
            applied: The action received since the last step, NaN where not known; else the recorded one.
            time: When the values were measured, in seconds on any clock.
        """
        values, memory = self.measured(measured), self._memory
        if not self._keeps:
            self._memory = memory._replace(state=values.copy())
            return values.copy()
        times = np.full(self._shape, np.nan) if time is None else self._numbers(time, (), "the time")
        with np.errstate(over="ignore", invalid="ignore"):
            passed = times - self._times
        memory = self._cleared(memory, np.asarray((passed > self.gap) | (passed < 0)))
        if applied is not None:
            memory = memory._replace(applied=self._action(applied))
        elif (
            self._step.needs_actions
            and not self._recorded
            and self._step.continues(memory._replace(applied=np.zeros_like(memory.applied))).any()
        ):
            raise ArgumentError(
                "the states depend on the actions, and the one applied since the last step is not known; "
                f"give applied=({', '.join(self.columns.actions)})"
            )
        state, age, self.started = self._step(memory, values)
        self._memory = Memory(state, np.full_like(memory.applied, np.nan), age)
        self._times, self._recorded = times, False
        return state.copy()

    def record(self, action: npt.ArrayLike | None) -> None:
        """Store the action (d_a,) or (batch, d_a) that follows the last state; None or NaN if not known."""
        if not self._keeps:
            return
        given = np.full_like(self._memory.applied, np.nan) if action is None else self._action(action)
        self._memory, self._recorded = self._memory._replace(applied=given), True

    def reset(self, applied: npt.ArrayLike | None = None, *, rows: npt.ArrayLike | None = None) -> None:
        """Start anew at the next step, at numbers or flags of plants, else at all.

        Lags of actions then begin with the present action of the plant, `applied`.
        """
        chosen = np.full(self._shape, rows is None)
        if rows is not None:
            chosen[np.asarray(rows)] = True
        self._memory = self._cleared(self._memory, chosen, applied)
        self._times = np.where(chosen, np.nan, self._times)

    def state_dict(self) -> dict[str, Numbers]:
        """Return the memory as arrays."""
        return {name: part.copy() for name, part in (*self._memory._asdict().items(), ("time", self._times))}

    def load_state_dict(self, values: Mapping[str, npt.ArrayLike]) -> None:
        """Continue from the memory of another stream of the same columns."""
        found = checked_memory(values, self.state_dict())
        if not (found["age"] >= 0).all():  # NaN included
            raise ArgumentError(f"age of a memory is {values['age']!r}; give numbers of steps")
        self._times = found.pop("time")
        self._memory, self._recorded = Memory(**found), True

    def measured(self, measured: npt.ArrayLike) -> Numbers:
        """Return measurements (d_x,) or (batch, d_x) as numbers, NaN where one is masked."""
        names, values = self.columns.measured, as_numbers(measured)
        if values is None:
            raise ObservationError(f"an observation is made of numbers, and {measured!r} is not")
        if values.shape != (*self._shape, len(names)):
            each = f" for each of {self._shape[0]} plants" if self._shape else ""
            raise ObservationError(
                f"an observation has {len(names)} numbers ({', '.join(names)}){each}, this one has shape "
                f"{values.shape}"
            )
        return values

    def _cleared(self, memory: Memory, where: Flags, applied: npt.ArrayLike | None = None) -> Memory:
        """Return a memory that starts anew in some places, with the action applied last if it is known."""
        if not where.any():
            return memory
        start = self._step.start(self._shape)
        if applied is not None:
            start = start._replace(applied=self._action(applied))
        parts = zip(start, memory, strict=True)
        return Memory(*(np.where(where[..., None], new, old) for new, old in parts))

    def _action(self, action: npt.ArrayLike) -> Numbers:
        return self._numbers(action, (len(self.columns.actions),), "the action applied")

    def _numbers(self, given: npt.ArrayLike, size: tuple[int, ...], what: str) -> Numbers:
        """Return numbers (…, *size), one row repeated for all plants; NaN but no infinities."""
        values, shape = as_numbers(given), (*self._shape, *size)
        if values is None or values.shape not in {size, shape} or np.isinf(values).any():
            raise ArgumentError(f"{what} is {given!r}; give finite numbers of shape {shape}")
        return np.array(np.broadcast_to(values, shape))


class ControllerStream(StateStream):
    """A controller that acts on measurements, step by step; from `controller.stream()`.

    Args:
        controller: From states (d_s,) or (m, d_s) to actions, numpy in and out.
        columns: Of the controller.
        batch: Number of plants that run side by side; one without rows if absent.
    """

    def __init__(
        self, controller: Callable[[Numbers], Any], columns: Columns, *, batch: int | None = None
    ) -> None:
        super().__init__(columns, batch=batch)
        self._controller = controller

    def act(
        self,
        measured: npt.ArrayLike,
        applied: npt.ArrayLike | None = None,
        time: npt.ArrayLike | None = None,
    ) -> Numbers:
        """Return the action at measurements; the arguments are those of `update`.

        `applied` is needed only where the plant received another action than the last one returned.
        """
        state = self.update(measured, applied, time)
        self.record(None)  # if the controller refuses the state
        action: Numbers = np.asarray(self._controller(state), dtype=np.float64)
        self.record(action)
        return action


class Streaming(ABC):
    """A controller of whole states that can also act on measurements."""

    @abstractmethod
    def __call__(self, observation: Any) -> Any:
        """Return actions at states."""

    @abstractmethod
    def _observed(self) -> Columns:
        """Return the columns of the states."""

    @property
    def has_memory(self) -> bool:
        """Whether a state depends on more than the present measurements; `stream` keeps the rest."""
        return has_memory(self._observed())

    def stream(self, *, batch: int | None = None) -> ControllerStream:
        """Return the controller with a memory of its own, for one plant or for several side by side."""
        return ControllerStream(self, self._observed(), batch=batch)


def checked_memory(values: Mapping[str, npt.ArrayLike], own: Mapping[str, Numbers]) -> dict[str, Numbers]:
    """Return copies of the arrays of a memory with the names and the shapes of one's own, no infinities."""
    if {*values} != {*own}:
        raise ArgumentError(f"a memory has {sorted(own)}, this one has {sorted(values)}")
    found = {name: as_numbers(value) for name, value in values.items()}
    for name, part in found.items():
        if part is None or part.shape != own[name].shape or (name != "state" and np.isinf(part).any()):
            raise ArgumentError(
                f"{name} of a memory is {values[name]!r}; give numbers of shape {own[name].shape}"
            )
    return {name: np.array(part) for name, part in found.items()}


def wrong_shape(columns: Columns, shape: tuple[int, ...]) -> str:
    """Return what is wrong with states of a shape, and what to do where some columns are derived."""
    names, measured = columns.states, columns.measured
    what, advice = "an observation", ""
    if columns.derived:
        what = "a state with its derived columns"
        advice = f"; use stream() to act on observations of {len(measured)} ({', '.join(measured)})"
    return f"{what} has {len(names)} numbers ({', '.join(names)}), this one has shape {shape}{advice}"


def as_numbers(values: npt.ArrayLike) -> Numbers | None:
    """Return an array of real numbers, masked ones as NaN, or None for other types."""
    try:
        array = np.asanyarray(values)
    except (TypeError, ValueError):  # rows of different lengths
        return None
    if array.dtype.kind not in "fiu":
        return None
    numbers = array.astype(np.float64, copy=False)
    return numbers.filled(np.nan) if isinstance(numbers, np.ma.MaskedArray) else np.asarray(numbers)


def check_states(columns: Columns, states: Numbers) -> None:
    """Refuse states (m, d_s) with a number that is not finite, or an angle that has no direction."""
    if not np.isfinite(states).all():
        row, column = np.argwhere(~np.isfinite(states))[0]
        raise ObservationError(
            f"{columns.states[column]} is {states[row, column]}; no controller may act on it. Read the "
            "sensor again, or use a fallback"
        )
    for name in columns.angles:
        if (np.abs(states[:, columns.states.index(name)]) > columns.largest_angle(name)).any():
            raise ObservationError(f"the angle {name!r} is so large that it has no direction")

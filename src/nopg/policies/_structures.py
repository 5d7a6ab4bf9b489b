"""Controllers by structure: P, PI, PID, state feedback and cascades, each written as formulas."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from nopg._columns import Columns
from nopg._expressions import Expression, quoted
from nopg.errors import ArgumentError

Kind = Literal["p", "pi", "pid", "linear", "cascade"]

_LAG = re.compile(r"(.+)_lag(\d+)")


@dataclass(frozen=True, slots=True)
class Formulas:
    """A controller of a user's own: a formula for each action.

    Attributes:
        actions: Formulas of state columns and gains, by name of the action, as in `Transitions.with_reward`.
            `valve_lag1` is the action before, as it was applied, `level_lag2` the level two rows before.
        gains: First values of the gains, by name, in the units of the plant.
        columns: Further columns with a memory, by name: their value at a start, and their next value; see
            `Transitions.derive`.

    Example:
        >>> law = Formulas({"valve": "bias + kp * (setpoint - level)"}, {"bias": 0.5, "kp": 1.0})
        >>> law.lags(Columns(("level", "setpoint"), ("valve",)))
        {}
    """

    actions: Mapping[str, str]
    gains: Mapping[str, float]
    columns: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def lags(self, columns: Columns) -> dict[str, int]:
        """Return the number of earlier values of each column that the formulas name."""
        found: dict[str, int] = {}
        known = (*columns.measured, *columns.actions)
        for action, text in self.actions.items():
            for name in Expression(text, f"the formula of {action!r}").names:
                lag = _LAG.fullmatch(name)
                if lag and lag[1] in known:
                    found[lag[1]] = max(int(lag[2]), found.get(lag[1], 0))
        return found


@dataclass(frozen=True, slots=True)
class ControlStructure:
    """A controller as plants have it, whose gains are trained.

    With the error e = set point − output:

    - "p": bias + kp·e;
    - "pi": last action + kp·(change of e) + ki·e·Δt; this velocity form adds to the action as it was applied,
      so it cannot wind up at a limit, and an operator's action is where it continues;
    - "pid": the same − kd·(change of the change of the output)/Δt;
    - "linear": offset + Σ k·(column − its mean), over all state columns;
    - "cascade": last action + k·(change of the inner set point − change of the inner column), where the inner
      set point is that of a PI controller of the outer column.

    Δt is the sampling interval in seconds, or 1 where it is not known. At a start the set point before counts
    as the output, as after a step from rest.

    Attributes:
        kind: The structure.
        follows: The set point of each controlled column, by name: a column or a number. One for each action,
            in the order of the actions. Where it is empty, the only column that an action may move follows
            the only exogenous one.
        schedule: Columns that all gains depend on: k + k_column·(column − its mean).
        inner: The column of the inner loop of a cascade.
        bumpless: Whether the set point before a start counts as that of the start, so that the first action
            differs from the one before by ki·e·Δt alone.

    Example:
        >>> columns = Columns(("level", "setpoint"), ("valve",), exogenous={"setpoint": "log"}, interval=5.0)
        >>> ControlStructure("p").formulas(columns, {}).actions["valve"]
        'bias + kp * (setpoint - level)'
        >>> ControlStructure("pi").formulas(columns, {}).columns
        {'level_target_lag1': ('level', 'setpoint')}
    """

    kind: Kind
    follows: Mapping[str, str | float] = field(default_factory=dict)
    schedule: Sequence[str] = ()
    inner: str | None = None
    bumpless: bool = False

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ArgumentError(f"there is no structure {self.kind!r}; choose one of {list(get_args(Kind))}")
        if (self.kind == "cascade") != (self.inner is not None):
            raise ArgumentError(
                f"the structure is {self.kind!r} and inner is {self.inner!r}; a cascade, and nothing else, "
                "needs the column of its inner loop"
            )

    def formulas(self, columns: Columns, means: Mapping[str, float]) -> Formulas:
        """Return the controller as formulas, with all gains 0.

        Args:
            columns: Of the log.
            means: Of the state columns, by name; for "linear" and for schedules.
        """
        gains: dict[str, float] = {}

        def gain(name: str, action: str) -> str:
            own = gain_name(name, action, columns)
            gains[own] = 0.0
            parts = [own]
            for column in self.schedule:
                gains[slope := re.sub(r"\W", "_", f"{own}_{column}")] = 0.0
                parts.append(f"{slope} * {_centred(column, means)}")
            return own if len(parts) == 1 else f"({' + '.join(parts)})"

        self._check(columns, means)
        loops = {} if self.kind == "linear" else self.loops(columns)
        actions: dict[str, str] = {}
        memory: dict[str, tuple[str, str]] = {}
        for action in columns.actions:
            if self.kind == "linear":
                terms = [
                    f"{gain(f'k_{name}', action)} * {_centred(name, means)}" for name in columns.measured
                ]
                actions[action] = " + ".join([gain("offset", action), *terms])
            else:
                actions[action] = self._loop(action, loops[action], gain, columns)
                memory |= self._memory(loops[action])
        return Formulas(actions, gains, memory)

    def _loop(
        self, action: str, loop: tuple[str, str | float], gain: Callable[[str, str], str], columns: Columns
    ) -> str:
        error, (output, _) = _error(loop), loop
        if self.kind == "p":
            return f"{gain('bias', action)} + {gain('kp', action)} * ({error})"
        u, h = _quoted(action, 1), 1.0 if columns.interval is None else columns.interval
        steps = f"{gain('kp', action)} * ({error} - ({_target_before(output)} - {_quoted(output, 1)}))"
        steps += f" + {gain('ki', action)} * {h!r} * ({error})"
        if self.kind == "pi":
            return f"{u} + {steps}"
        if self.kind == "pid":
            y, y1, y2 = (_quoted(output, k) for k in range(3))
            return f"{u} + {steps} - {gain('kd', action)} / {h!r} * ({y} - 2 * {y1} + {y2})"
        assert self.inner is not None
        x, x1 = _quoted(self.inner, 0), _quoted(self.inner, 1)
        return f"{u} + {gain('k', action)} * ({steps} - ({x} - {x1}))"

    def _memory(self, loop: tuple[str, str | float]) -> dict[str, tuple[str, str]]:
        """Return the column of the set point one row before, where the structure needs it."""
        if self.kind == "p":
            return {}
        output, follows = loop
        target = _target(follows)
        return {f"{output}_target_lag1": (target if self.bumpless else _quoted(output, 0), target)}

    def loops(self, columns: Columns) -> dict[str, tuple[str, str | float]]:
        """Return the controlled column and its set point, by action."""
        follows = dict(self.follows) or self._only_pair(columns)
        if len(follows) != len(columns.actions):
            raise ArgumentError(
                f"{list(follows)} follow set points, and the actions are {list(columns.actions)}; give one "
                "column for each action, in the order of the actions"
            )
        return dict(zip(columns.actions, follows.items(), strict=True))

    def _only_pair(self, columns: Columns) -> dict[str, str]:
        moved = [name for name in columns.measured if name not in columns.exogenous and name != self.inner]
        if len(moved) == len(columns.exogenous) == 1:
            return {moved[0]: next(iter(columns.exogenous))}
        known = (
            f"{', '.join(moved) or 'none'} may be moved, {', '.join(columns.exogenous) or 'none'} exogenous"
        )
        raise ArgumentError(
            f"say which column follows which set point, such as ControlStructure({self.kind!r}, "
            f"follows={{'level': 'setpoint'}}) or --follows level=setpoint; of the columns {known}"
        )

    def _check(self, columns: Columns, means: Mapping[str, float]) -> None:
        targets = [one for one in self.follows.values() if isinstance(one, str)]
        inner = [] if self.inner is None else [self.inner]
        for name in (*self.follows, *targets, *inner, *self.schedule):
            if name not in columns.measured:
                raise ArgumentError(
                    f"the controller names {name!r}, and the measured columns are {list(columns.measured)}"
                )
        if self.kind not in {"p", "linear"} and (
            turning := [one for one in self.follows if one in columns.angles]
        ):
            raise ArgumentError(
                f"{turning[0]!r} is an angle, whose error jumps after half a turn; give 'p', or "
                "Formulas with sin and cos"
            )
        wanted = (*self.schedule, *(columns.measured if self.kind == "linear" else ()))
        if missing := [name for name in wanted if name not in means]:
            raise ArgumentError(f"the mean of {missing[0]!r} is missing")


def gain_name(name: str, action: str, columns: Columns) -> str:
    """Return the name of a gain, with that of its action where there are several."""
    return re.sub(r"\W", "_", f"{name}_{action}" if len(columns.actions) > 1 else name)


def _centred(name: str, means: Mapping[str, float]) -> str:
    return f"({_quoted(name, 0)} - {means[name]:.6g})".replace("- -", "+ ")


def _error(loop: tuple[str, str | float]) -> str:
    output, follows = loop
    return f"{_target(follows)} - {_quoted(output, 0)}"


def _target(follows: str | float) -> str:
    return _quoted(follows, 0) if isinstance(follows, str) else repr(float(follows))


def _target_before(output: str) -> str:
    return _quoted(f"{output}_target", 1)


def _quoted(name: str, lag: int) -> str:
    """Return a column some rows before, in backquotes where it is no word."""
    return quoted(f"{name}_lag{lag}" if lag else name)

"""The names, kinds, units and bounds of the columns, as plain values that need no torch."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args
from unicodedata import category

from nopg.errors import DataError

NO_REWARD = "0"
"""The formula of a reward that nobody has given yet."""

GAP_FACTOR = 5.0
"""Number of sampling intervals that are a gap: a log is cut there, and a stream starts anew."""

# Shorter periods leave the range of floats when they are squared.
_SHORTEST_PERIOD = 1e-75
# Largest share of a turn by which neighbouring floats may differ, for an angle to have a direction.
_COARSEST_TURN = 1e-3

Exogenous = Literal["hold", "log"]
"""What a rollout assumes of a column that no action moves: it stays, or it moves as in the log."""


class Derived(NamedTuple):
    """A state column that is computed from others, not measured.

    Attributes:
        initial: Formula of its value in the first row: numbers and measured columns.
        update: Formula of its next value: columns and actions of the step, `next(level)` of measured ones.
    """

    initial: str
    update: str


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of the columns of states and actions, with angles, units and bounds.

    Attributes:
        states: Names of the state columns.
        actions: Names of the action columns.
        angles: Period of every angular state column, by name.
        units: Declared units, by column name; "reward" may have one too.
        bounds: Declared lowest and highest values, by name of a state or action column.
        reward: The reward as a formula of the columns, where it is one.
        derived: The columns that are computed from others, by name: the last of the states, in their order.
        exogenous: The state columns that no action moves, by name: set-points, weather.
        interval: Time between two rows in seconds, where it is known.
        hold: Number of steps for which a missing value of a measured column is replaced by its last one.
        levels: The only values of an action that is not continuous, in rising order, by its name.
    """

    states: tuple[str, ...]
    actions: tuple[str, ...]
    angles: Mapping[str, float] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    reward: str | None = None
    derived: Mapping[str, Derived] = field(default_factory=dict)
    exogenous: Mapping[str, Exogenous] = field(default_factory=dict)
    interval: float | None = None
    hold: Mapping[str, int] = field(default_factory=dict)
    levels: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        columns = (*self.states, *self.actions)
        declared: Sequence[tuple[str, Mapping[str, Any], str, tuple[str, ...]]] = (
            ("unit of {!r} is", self.units, "columns", (*columns, "reward")),
            ("bounds of {!r} are", self.bounds, "columns", columns),
            ("levels of {!r} are", self.levels, "actions", self.actions),
        )
        for what, named, kind, known in declared:
            if others := [name for name in named if name not in known]:
                raise DataError(f"the {what.format(others[0])} declared, but the {kind} are {list(known)}")
        self._check_values()
        self._check_levels()
        self._check_roles()

    @property
    def measured(self) -> tuple[str, ...]:
        """Names of the state columns that are not computed from others: those of an observation."""
        return self.states[: len(self.states) - len(self.derived)]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, without the fields that nobody has set."""
        always = ("states", "actions", "angles", "units", "bounds")
        values = {name: _plain(getattr(self, name)) for name in self.__dataclass_fields__}
        return {name: value for name, value in values.items() if name in always or value not in (None, {})}

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the kernel features: an angle gives two, another column one."""
        return tuple(
            name
            for column in self.states
            for name in ([f"cos {column}", f"sin {column}"] if column in self.angles else [column])
        )

    @property
    def feature_columns(self) -> tuple[int, ...]:
        """State column of each feature; both features of an angle share a bandwidth."""
        return tuple(
            k for k, column in enumerate(self.states) for _ in range(2 if column in self.angles else 1)
        )

    def largest_angle(self, name: str) -> float:
        """Return the size up to which an angular column has a direction: beyond it floats are too coarse."""
        return _COARSEST_TURN * self.angles[name] / sys.float_info.epsilon

    def _check_values(self) -> None:
        for name, period in self.angles.items():
            if name not in self.states:
                raise DataError(f"angle {name!r} is not a state column; the columns are {list(self.states)}")
            if not _SHORTEST_PERIOD <= period < math.inf:  # NaN included
                raise DataError(
                    f"the period of angle {name!r} is {period}; give a positive number, e.g. 2π or 360, "
                    f"of at least {_SHORTEST_PERIOD:g}"
                )
        for name, unit in self.units.items():
            if not isinstance(unit, str):
                raise DataError(f"the unit of {name!r} is {unit!r}; give text, e.g. 'm/s'")
        for name, bounds in self.bounds.items():
            low, high = bounds if isinstance(bounds, Sequence) and len(bounds) == 2 else (math.nan, math.nan)
            if not low < high:  # NaN included
                raise DataError(
                    f"the bounds of {name!r} are {bounds!r}; give (lowest, highest), e.g. (-1.0, 1.0)"
                )

    def _check_levels(self) -> None:
        for name, levels in self.levels.items():
            rising = all(one < other for one, other in pairwise(levels))
            if len(levels) < 2 or not rising or not all(map(math.isfinite, levels)):
                raise DataError(
                    f"the levels of {name!r} are {list(levels)}; give two or more finite numbers in rising "
                    "order, e.g. (0, 1)"
                )
            low, high = self.bounds.get(name, (-math.inf, math.inf))
            if levels[0] < low or levels[-1] > high:
                raise DataError(
                    f"the levels of {name!r} are {list(levels)}, its bounds [{low:g}, {high:g}]; declare "
                    "levels within them"
                )

    def _check_roles(self) -> None:
        if (last := self.states[len(self.states) - len(self.derived) :]) != tuple(self.derived):
            raise DataError(f"the derived columns are {list(self.derived)}; the last states are {list(last)}")
        for what, named in (("exogenous", self.exogenous), ("held", self.hold)):
            for name in named:
                if name not in self.measured:
                    raise DataError(
                        f"{name!r} is declared as {what}, but the measured states are {list(self.measured)}"
                    )
        for name, kind in self.exogenous.items():
            if kind not in get_args(Exogenous):
                known = " or ".join(map(repr, get_args(Exogenous)))
                raise DataError(f"the exogenous column {name!r} is {kind!r} in rollouts; give {known}")
        for name, steps in self.hold.items():
            if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
                raise DataError(f"a missing {name!r} is held for {steps!r} steps; give a whole number from 1")
        if self.interval is not None and not (math.isfinite(self.interval) and self.interval > 0):
            raise DataError(f"the sampling interval is {self.interval} s; give a positive number")


def readable(text: str) -> str:
    r"""Return a name or a unit whose invisible characters are written as escapes.

    Example:
        >>> print(readable("level\n\ud800 m³/h"))
        level\n\ud800 m³/h
    """
    shown = (one if one.isprintable() or category(one) == "Zs" else repr(one)[1:-1] for one in text)
    return "".join(shown)


def _plain(value: Any) -> Any:
    """Return tuples as lists, and mappings as dictionaries."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    return list(value) if isinstance(value, tuple) else value

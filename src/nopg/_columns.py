"""The names, kinds, units and bounds of the columns, as plain values that need no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nopg.errors import DataError

__all__ = ["NO_REWARD", "Columns"]

NO_REWARD = "0"
"""The formula of a reward that nobody has given yet."""


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
    """

    states: tuple[str, ...]
    actions: tuple[str, ...]
    angles: Mapping[str, float] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    reward: str | None = None

    def __post_init__(self) -> None:
        self._check_angles()
        self._check_units()
        self._check_bounds()

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

    def _check_angles(self) -> None:
        for name, period in self.angles.items():
            if name not in self.states:
                raise DataError(f"angle {name!r} is not a state column; the columns are {list(self.states)}")
            if not (math.isfinite(period) and period > 0):
                raise DataError(
                    f"the period of angle {name!r} is {period}; give a positive number, e.g. 2π or 360"
                )

    def _check_units(self) -> None:
        columns = (*self.states, *self.actions, "reward")
        for name, unit in self.units.items():
            if name not in columns:
                raise DataError(f"the unit of {name!r} is declared, but the columns are {list(columns)}")
            if not isinstance(unit, str):
                raise DataError(f"the unit of {name!r} is {unit!r}; give text, e.g. 'm/s'")

    def _check_bounds(self) -> None:
        columns = (*self.states, *self.actions)
        for name, bounds in self.bounds.items():
            if name not in columns:
                raise DataError(f"the bounds of {name!r} are declared, but the columns are {list(columns)}")
            low, high = bounds if isinstance(bounds, Sequence) and len(bounds) == 2 else (math.nan, math.nan)
            if not low < high:  # NaN included
                raise DataError(
                    f"the bounds of {name!r} are {bounds!r}; give (lowest, highest), e.g. (-1.0, 1.0)"
                )

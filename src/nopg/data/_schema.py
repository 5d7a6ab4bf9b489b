"""The names, kinds, units and bounds of the columns, and the map from raw states to kernel features."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from nopg.errors import DataError

__all__ = ["Schema"]


@dataclass(frozen=True, slots=True)
class Schema:
    """What the columns of states and actions are called, and which of them are angles.

    A declared angle θ of period T enters every kernel and every policy as the pair
    (cos 2πθ/T, sin 2πθ/T), so that 0 and T are the same place.

    Attributes:
        states: Names of the state columns.
        actions: Names of the action columns.
        angles: Period of every angular state column, by name.
        units: Unit of a column, by name, for those somebody declared; "reward" may have one too.
        bounds: Lowest and highest value of a state or action column, by name, where somebody declared them.

    Example:
        >>> schema = Schema(("angle", "speed"), ("torque",), {"angle": 2 * math.pi})
        >>> schema.features
        ('cos angle', 'sin angle', 'speed')
        >>> schema.encode(torch.tensor([[math.pi, 3.0]], dtype=torch.float64)).round(decimals=6)
        tensor([[-1., 0., 3.]], dtype=torch.float64)
    """

    states: tuple[str, ...]
    actions: tuple[str, ...]
    angles: Mapping[str, float] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._check_angles()
        self._check_units()
        self._check_bounds()

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

    @staticmethod
    def default_names(prefix: str, count: int) -> tuple[str, ...]:
        """Return `prefix0, prefix1, …` for columns nobody named."""
        return tuple(f"{prefix}{k}" for k in range(count))

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
        """For every feature the state column it comes from; both features of an angle share a bandwidth."""
        return tuple(
            k for k, column in enumerate(self.states) for _ in range(2 if column in self.angles else 1)
        )

    def encode(self, states: torch.Tensor) -> torch.Tensor:
        """Return the features (..., d_f) of raw states (..., d_s)."""
        if not self.angles:
            return states

        columns = []
        for k, name in enumerate(self.states):
            column = states[..., k]
            if name in self.angles:
                radians = column * (2 * math.pi / self.angles[name])
                columns += [radians.cos(), radians.sin()]
            else:
                columns.append(column)
        return torch.stack(columns, dim=-1)

    def decode(self, features: torch.Tensor) -> torch.Tensor:
        """Return raw states (..., d_s) with these features (..., d_f), angles within half a period of 0.

        Example:
            >>> schema = Schema(("angle", "speed"), ("torque",), {"angle": 360.0})
            >>> schema.decode(schema.encode(torch.tensor([[270.0, 1.0]]))).round()
            tensor([[-90.,   1.]])
        """
        if not self.angles:
            return features

        columns, k = [], 0
        for name in self.states:
            if name in self.angles:
                radians = torch.atan2(features[..., k + 1], features[..., k])
                columns.append(radians * (self.angles[name] / (2 * math.pi)))
                k += 2
            else:
                columns.append(features[..., k])
                k += 1
        return torch.stack(columns, dim=-1)


def resolve_angles(
    angles: Mapping[str, float] | Sequence[str | int] | None, names: tuple[str, ...]
) -> dict[str, float]:
    """Return name → period from what a user may write: names or column numbers (radians), or a mapping."""
    if angles is None:
        return {}
    if isinstance(angles, Mapping):
        return {str(name): float(period) for name, period in angles.items()}

    resolved = {}
    for angle in angles:
        if isinstance(angle, int) and not -len(names) <= angle < len(names):
            raise DataError(f"angle column {angle} does not exist; states have {len(names)} columns")
        resolved[names[angle] if isinstance(angle, int) else angle] = 2 * math.pi
    return resolved

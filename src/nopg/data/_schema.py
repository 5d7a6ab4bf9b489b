"""The names, kinds, units and bounds of the columns, and the map from raw states to kernel features."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from nopg._columns import Columns, Exogenous
from nopg.errors import DataError

_DEGREES = ("°", "deg", "degree", "degrees", "Grad")


@dataclass(frozen=True, slots=True)
class Schema(Columns):
    """The columns of states and actions, as tensors need them; for the fields see `Columns`.

    A declared angle θ of period T enters every kernel and every policy as the pair
    (cos 2πθ/T, sin 2πθ/T), so that 0 and T are the same point.

    Example:
        >>> schema = Schema(("angle", "speed"), ("torque",), {"angle": 2 * math.pi})
        >>> schema.features
        ('cos angle', 'sin angle', 'speed')
        >>> schema.encode(torch.tensor([[math.pi, 3.0]], dtype=torch.float64)).round(decimals=6)
        tensor([[-1., 0., 3.]], dtype=torch.float64)
    """

    @staticmethod
    def default_names(prefix: str, count: int) -> tuple[str, ...]:
        """Return `prefix0, prefix1, …` for columns without names."""
        return tuple(f"{prefix}{k}" for k in range(count))

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
        columns, parts = [], iter(features.unbind(dim=-1))
        for name, part in zip(self.states, parts, strict=False):
            if name in self.angles:
                part = torch.atan2(next(parts), part) * (self.angles[name] / (2 * math.pi))  # noqa: PLW2901
            columns.append(part)
        return torch.stack(columns, dim=-1)

    def difference(self, start: torch.Tensor, end: torch.Tensor) -> torch.Tensor:
        """Return end − start of raw states (…, d_s), angles the short way round.

        Example:
            >>> schema = Schema(("angle", "speed"), ("torque",), {"angle": 360.0})
            >>> schema.difference(torch.tensor([[350.0, 1.0]]), torch.tensor([[10.0, 3.0]]))
            tensor([[20.,  2.]])
        """
        apart = end - start
        for name, period in self.angles.items():
            k = self.states.index(name)
            apart[..., k] -= period * (apart[..., k] / period).round()
        return apart

    def clip_actions(self, actions: torch.Tensor) -> torch.Tensor:
        """Return actions (…, d_a) within their declared bounds."""
        bounds = [self.bounds.get(name, (-math.inf, math.inf)) for name in self.actions]
        low, high = actions.new_tensor(bounds).T
        return actions.clamp(low, high)


def declared_schema(
    names: tuple[tuple[str, ...], tuple[str, ...]],
    *,
    angles: Mapping[str, float] | Sequence[str | int] | None = None,
    units: Mapping[str, str] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    levels: Mapping[str, Sequence[float]] | None = None,
    exogenous: Mapping[str, Exogenous] | Sequence[str] | None = None,
    **rest: Any,
) -> Schema:
    """Return the schema of what a user declares; levels may be in any order."""
    turns = resolve_angles(angles, names[0])
    for name, period in turns.items():
        if (units or {}).get(name) in _DEGREES and period == 2 * math.pi:
            raise DataError(f"the angle {name!r} is in degrees; declare its period: angles={{{name!r}: 360}}")
    return Schema(
        *names,
        turns,
        dict(units or {}),
        {name: tuple(one) if isinstance(one, list) else one for name, one in (bounds or {}).items()},
        levels={name: tuple(sorted(map(float, values))) for name, values in (levels or {}).items()},
        exogenous=exogenous_kinds(exogenous),
        **rest,
    )


def resolve_angles(
    angles: Mapping[str, float] | Sequence[str | int] | None, names: tuple[str, ...]
) -> dict[str, float]:
    """Return name → period from names or column numbers (radians), or a mapping."""
    if isinstance(angles, Mapping):
        return {str(name): float(period) for name, period in angles.items()}
    resolved = {}
    for angle in angles or ():
        if isinstance(angle, int) and not -len(names) <= angle < len(names):
            raise DataError(f"angle column {angle} does not exist; states have {len(names)} columns")
        resolved[names[angle] if isinstance(angle, int) else angle] = 2 * math.pi
    return resolved


def exogenous_kinds(exogenous: Mapping[str, Exogenous] | Sequence[str] | None) -> dict[str, Exogenous]:
    """Return name → what a rollout assumes; names alone move as in the log."""
    if isinstance(exogenous, Mapping):
        return dict(exogenous)
    names = (exogenous,) if isinstance(exogenous, str) else exogenous or ()
    return dict.fromkeys(names, "log")


def check_names(names: Iterable[str], source: str = "") -> None:
    """Refuse names that no formula, file or page can hold."""
    for name in names:
        what = "a backquote, which stands around names in formulas" if "`" in name else ""
        if {unicodedata.category(letter) for letter in name} & {"Cc", "Cs", "Cn", "Zl", "Zp"}:
            what = "characters that cannot be shown"
        if what:
            raise DataError(
                f"{source}the column name {name!r} holds {what}; rename it, or give the column of a table a "
                "name of your own, as in 'T=TIC4711.PV'"
            )


def name_columns(
    state_names: Sequence[str] | None,
    action_names: Sequence[str] | None,
    widths: tuple[int, int],
    source: str = "",
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return distinct names of state and action columns; errors begin with the source."""
    named = []
    for what, given, count in zip(("state", "action"), (state_names, action_names), widths, strict=True):
        names = Schema.default_names(what[0], count) if given is None else given
        if isinstance(names, str) or len(names) != count:
            raise DataError(
                f"{source}{what}_names is {names!r}, but there are {count} columns; give one name per column"
            )
        names = tuple(map(str, names))
        check_names(names, source)
        if len({*names}) != count:
            raise DataError(f"{source}{what}_names {list(names)} holds a name twice; make them distinct")
        named.append(names)
    if shared := sorted({*named[0]} & {*named[1]}):
        raise DataError(f"{source}{shared} name both states and actions; make them distinct")
    return named[0], named[1]

"""Control laws that are formulas of state columns and named gains, for torch and for numpy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nopg._columns import Columns
from nopg._expressions import Array, Expression
from nopg.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class FormulaLaw:
    """One formula for each action, in the order of the actions."""

    columns: Columns  # Names of states and actions, and which states are angles
    formulas: tuple[Expression, ...]  # Of state columns and gains
    gains: tuple[str, ...]  # Names of the gains

    @classmethod
    def of(cls, columns: Columns, formulas: Mapping[str, str], gains: Sequence[str]) -> FormulaLaw:
        """Return the law of formulas by action; names that are not known are refused."""
        names = tuple(gains)
        if {*formulas} != {*columns.actions}:
            raise ArgumentError(
                f"the formulas are of {list(formulas)}; give one for each of {list(columns.actions)}"
            )
        if len({*names}) < len(names):
            raise ArgumentError(f"two gains have one name: {list(names)}")
        if taken := [name for name in names if name in (*columns.states, *columns.actions)]:
            raise ArgumentError(f"the gain {taken[0]!r} has the name of a column; use another name")
        found = tuple(Expression(formulas[name], f"the formula of {name!r}") for name in columns.actions)
        used = [name for one in found for name in one.names]
        for name in used:
            if name not in (*columns.states, *names):
                hint = f"; the action before is `{name}_lag1`" if name in columns.actions else ""
                raise ArgumentError(
                    f"{name!r} in a formula of the controller is neither a state column "
                    f"({', '.join(columns.states)}) nor a gain ({', '.join(names) or 'none is named'}){hint}"
                )
        if unused := [name for name in names if name not in used]:
            raise ArgumentError(f"the gain {unused[0]!r} is in no formula; leave it out")
        return cls(columns, found, names)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        texts = (one.text for one in self.formulas)
        formulas = dict(zip(self.columns.actions, texts, strict=True))
        return {"formulas": formulas, "gains": list(self.gains)}

    def states(self, features: Array, arctan2: Callable[[Array, Array], Array]) -> dict[str, Array]:
        """Return the raw columns (m,) in use by name, and at least one; angles within half a period of 0."""
        used = {name for one in self.formulas for name in one.names}
        found: dict[str, Array] = {}
        k = 0
        for name in self.columns.states:
            period = self.columns.angles.get(name)
            if name in used or not found:
                column = features[:, k]
                if period is not None:
                    column = arctan2(features[:, k + 1], column) * (period / (2 * math.pi))
                found[name] = column
            k += 1 if period is None else 2
        return found

    def actions(self, states: Mapping[str, Array], gains: Mapping[str, Array]) -> list[Array]:
        """Return the actions, each (m,), at raw columns (m,) and gains (m,) by name."""
        return [formula({**states, **gains}) for formula in self.formulas]

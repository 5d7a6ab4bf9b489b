"""Coordinates in which states are near each other: few numbers for many lags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nopg._support import short_way
from nopg.data import Transitions
from nopg.models._regression_rows import InputSpace


@dataclass(frozen=True, slots=True, eq=False)
class StateCoordinates:
    """z = C s, in units of its own.

    Columns without lags are coordinates themselves. A measured column with lags gives its value and its last
    change, an action with lags the mean of these: values of states are interpolated between a few hundred
    nodes, which resolve no twenty columns.

    Attributes:
        space: Units and angles of z.
        matrix: C, shape (d_z, d_s); None for the identity.
        wrapped: Period of each coordinate that is a change of an angle, else 0, shape (d_z,).
    """

    space: InputSpace
    matrix: Tensor | None
    wrapped: Tensor

    @classmethod
    def of(cls, data: Transitions, space: InputSpace, sources: Sequence[str | None]) -> StateCoordinates:
        """Return the coordinates of the states of a log.

        Args:
            data: The log.
            space: Units and angles of its states.
            sources: What each derived column is a lag of, as in `DerivedColumns.lags`.
        """
        schema, eye = data.schema, torch.eye(len(data.schema.states), dtype=torch.float64)
        number = {name: k for k, name in enumerate(schema.states)}
        lags: dict[str, list[int]] = {name: [] for name in (*schema.measured, *schema.actions)}
        for k, source in enumerate(sources, start=len(schema.measured)):
            if source is not None:
                lags[source].append(k)
        taken = {k for columns in lags.values() for k in columns}
        if not taken:
            return cls(space, None, torch.zeros_like(space.units))
        rows, wrapped = list[Tensor](), list[float]()
        for name, k in number.items():
            if k not in taken:
                rows, wrapped = [*rows, eye[k]], [*wrapped, 0.0]
            if lags.get(name):
                rows, wrapped = (
                    [*rows, eye[k] - eye[lags[name][0]]],
                    [*wrapped, schema.angles.get(name, 0.0)],
                )
        for name in schema.actions:
            if lags[name]:
                rows, wrapped = [*rows, eye[lags[name]].mean(dim=0)], [*wrapped, 0.0]
        raw = cls(space, torch.stack(rows), torch.tensor(wrapped, dtype=torch.float64))
        return raw._with_units(data.states)

    def _with_units(self, states: Tensor) -> StateCoordinates:
        """Return the coordinates in the units of columns, or of their values in a log."""
        assert self.matrix is not None
        z, column = self.at(states), self.matrix.argmax(dim=1)
        spread = z.std(dim=0, correction=0)
        single = (self.matrix == 1.0).any(dim=1) & (self.matrix.abs().sum(dim=1) == 1.0)
        units = torch.where(single, self.space.units[column], torch.where(spread > 0, spread, 1.0))
        periods = torch.where(single, self.space.periods[column], 0.0)
        origin = torch.where(single, self.space.origin[column], z.mean(dim=0))
        return StateCoordinates(InputSpace(units, periods, origin), self.matrix, self.wrapped)

    def at(self, states: Tensor) -> Tensor:
        """Return z (…, d_z) of raw states (…, d_s)."""
        if self.matrix is None:
            return states
        z = states @ self.matrix.T
        short_way(z, self.wrapped)
        return z

    def steps(self, displacements: Tensor) -> Tensor:
        """Return the distance (m,) in units that displacements (m, d_s) of raw states move z."""
        distance: Tensor = (self.at(displacements) / self.space.units).norm(dim=1)
        return distance

    def slopes(self, by_z: Tensor) -> Tensor:
        """Return the derivative (…, d_s) by raw states from that by z (…, d_z)."""
        return by_z if self.matrix is None else by_z @ self.matrix

"""State columns that are not learned: derived ones follow from formulas, exogenous ones from the log."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import ndtr
from torch import Tensor

from nopg._derived import DerivedColumns
from nopg._typing import BoolArray, FloatArray
from nopg.data import Schema, Transitions

__all__ = ["ExogenousMoves", "KnownColumns"]

# Rows whose moves a value may make next: this share of the rows with the nearest values, at least so many.
# A set-point that steps every hundred rows steps in some of them.
_SHARE_OF_ROWS, _FEWEST_ROWS = 0.2, 100


@dataclass(frozen=True, slots=True, eq=False)
class ExogenousMoves:
    """The moves of one exogenous column in the log, by its value.

    Attributes:
        column: Number of the state column.
        values: Logged values in ascending order, shape (n,).
        moves: What each did next, shape (n,).
    """

    column: int
    values: FloatArray
    moves: FloatArray

    def draw(self, value: FloatArray, normal: FloatArray) -> FloatArray:
        """Return moves (m,) from values (m,): that of a row among those with the nearest values.

        Args:
            value: Where the column is.
            normal: Standard normal numbers (m,), which choose the row.
        """
        count = len(self.values)
        width = min(max(round(_SHARE_OF_ROWS * count), _FEWEST_ROWS), count)
        first = np.clip(np.searchsorted(self.values, value) - width // 2, 0, count - width)
        row = first + np.minimum((ndtr(normal) * width).astype(np.int64), width - 1)
        found: FloatArray = self.moves[row]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class KnownColumns:
    """What a model need not learn of the next state.

    Attributes:
        derived: Formulas of the derived columns, the last of the states.
        exogenous: Which state columns no action moves, shape (d_s,).
        moves: Of the exogenous columns that move as in the log.
        num_measured: Number of measured columns, the first of the states.
    """

    derived: DerivedColumns
    exogenous: BoolArray
    moves: tuple[ExogenousMoves, ...]
    num_measured: int

    @classmethod
    def of(cls, data: Transitions) -> KnownColumns:
        """Return the columns of a log."""
        schema = data.schema
        steps = schema.difference(data.states, data.next_states).numpy()
        moves = []
        for name, kind in schema.exogenous.items():
            column = schema.states.index(name)
            if kind == "log" and steps[:, column].any():
                order = np.argsort(data.states[:, column].numpy(), kind="stable")
                values = data.states[:, column].numpy()[order]
                moves.append(ExogenousMoves(column, values, steps[order, column]))
        exogenous = np.array([name in schema.exogenous for name in schema.states])
        return cls(DerivedColumns.of(schema), exogenous, tuple(moves), len(schema.measured))

    @property
    def all(self) -> BoolArray:
        """Which state columns are not learned, shape (d_s,)."""
        found = self.exogenous.copy()
        found[self.num_measured :] = True
        return found

    @property
    def past(self) -> BoolArray:
        """Which state columns hold past values alone, such as lags, shape (d_s,)."""
        found = np.zeros(len(self.exogenous), dtype=np.bool_)
        found[self.num_measured :] = np.array(self.derived.depths) > 0
        return found

    def weighted_units(self, units: Tensor, schema: Schema) -> Tensor:
        """Return units (d_s,) such that all lags of one column together count as one column."""
        sources = [name.rpartition("_lag")[0] or name for name in schema.states]
        counts = [sources.count(name) if past else 1 for name, past in zip(sources, self.past, strict=True)]
        return units * torch.tensor(counts, dtype=torch.float64).sqrt()

    def complete(self, after: FloatArray, states: FloatArray, actions: FloatArray) -> None:
        """Set the derived columns of next states (d_s, m), in place, after steps from states by actions."""
        if self.derived.depths:
            k = self.num_measured
            after[k:] = self.derived.following(states.T, actions.T, after[:k].T).T[k:]

    def complete_slopes(self, by_x: FloatArray) -> None:
        """Set the derivative (d_s, d, m) of the derived next columns by (s, a), in place."""
        if self.derived.depths:
            k, derived = self.num_measured, self.derived
            direct = np.concatenate([derived.by_state, derived.by_action], axis=1)
            by_x[k:] = direct[:, :, None] + np.einsum("kx,xdm->kdm", derived.by_next, by_x[:k])

    def move(self, after: FloatArray, states: FloatArray, normal: FloatArray) -> None:
        """Add moves of exogenous columns to next states (d_s, m), in place; `normal` is (d_s, m)."""
        for one in self.moves:
            after[one.column] += one.draw(states[one.column], normal[one.column])

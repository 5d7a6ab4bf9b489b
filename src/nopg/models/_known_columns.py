"""State columns that are not learned: derived ones follow from formulas, exogenous ones from the log."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import ndtr
from torch import Tensor

from nopg._derived import DerivedColumns
from nopg._typing import BoolArray, FloatArray, IntArray
from nopg.data import Transitions

# Rows whose moves a value may make next: this share of the rows with the nearest values, at least so many.
# A set-point that steps every hundred rows steps in some of them.
_SHARE_OF_ROWS, _FEWEST_ROWS = 0.2, 100
# Values this near to each other, as a share of their range, differ by rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class ExogenousMoves:
    """The moves of one exogenous column in a log, or in a part of it, by its value."""

    values: FloatArray  # logged values in ascending order, (n,)
    moves: FloatArray  # what each did next, (n,)
    passed: FloatArray  # weight of the rows before each, and of all, (n + 1,)

    @classmethod
    def of(cls, values: FloatArray, moves: FloatArray, weights: FloatArray | None = None) -> ExogenousMoves:
        """Return the moves from values (n,) in any order, with weights (n,), one each by default."""
        order = np.lexsort((moves, values))
        each = np.ones(len(values)) if weights is None else weights[order]
        return cls(values[order], moves[order], np.concatenate([[0.0], np.cumsum(each)]))

    def draw(self, value: FloatArray, normal: FloatArray) -> FloatArray:
        """Return moves (m,) from values (m,), of rows that normal numbers (m,) choose among the nearest."""
        count = len(self.values)
        width = min(max(round(_SHARE_OF_ROWS * count), _FEWEST_ROWS), count)
        apart = _ROUNDING * (self.values[-1] - self.values[0])
        below, above = (np.searchsorted(self.values, value + by) for by in (-apart, apart))
        first = np.clip((below + above) // 2 - width // 2, 0, count - width)
        # Equal values lie in the order of their moves: all of them take part, or none.
        lowest, highest = self.values[first] - apart, self.values[first + width - 1] + apart
        first, last = (
            np.searchsorted(self.values, lowest),
            np.searchsorted(self.values, highest, side="right"),
        )
        before, after = self.passed[first], self.passed[last]
        row = np.searchsorted(self.passed, before + ndtr(normal) * (after - before), side="right") - 1
        return np.asarray(self.moves[np.clip(row, first, last - 1)])


@dataclass(frozen=True, slots=True, eq=False)
class KnownColumns:
    """What a model need not learn of the next state."""

    derived: DerivedColumns  # formulas of the derived columns, the last of the states
    exogenous: BoolArray  # which state columns no action moves, (d_s,)
    moving: tuple[int, ...]  # numbers of the exogenous columns that move as in the log
    num_measured: int  # number of measured columns, the first of the states

    @classmethod
    def of(cls, data: Transitions) -> KnownColumns:
        """Return the columns of a log."""
        schema = data.schema
        steps = schema.difference(data.states, data.next_states)
        logged = [schema.states.index(name) for name, kind in schema.exogenous.items() if kind == "log"]
        moving = tuple(column for column in logged if bool(steps[:, column].any()))
        exogenous = np.array([name in schema.exogenous for name in schema.states])
        return cls(DerivedColumns.of(schema), exogenous, moving, len(schema.measured))

    @property
    def all(self) -> BoolArray:
        """Which state columns are not learned, shape (d_s,)."""
        return self.exogenous | self._of_derived([True] * len(self.derived.depths))

    @property
    def past(self) -> BoolArray:
        """Which state columns hold past values alone, such as lags, shape (d_s,)."""
        return self._of_derived([depth > 0 for depth in self.derived.depths])

    @property
    def pending(self) -> BoolArray:
        """Which state columns are earlier actions, shape (d_s,)."""
        actions = self.derived.columns.actions
        return self._of_derived([source in actions for source in self.derived.lags])

    def _of_derived(self, flags: list[bool]) -> BoolArray:
        """Return flags (d_s,) of the derived columns, False of the measured ones."""
        return np.array([False] * self.num_measured + flags)

    def weighted_units(self, units: Tensor) -> Tensor:
        """Return units (d_s,) such that lags count as one with their column, those of an action as one."""
        lags = self.derived.lags
        sources = (*self.derived.columns.measured, *lags)
        counts = [1 if source is None else sources.count(source) for source in lags]
        weights = torch.tensor([1] * self.num_measured + counts, dtype=torch.float64)
        return units * weights.sqrt()

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


class ExogenousPaths:
    """The moves of exogenous columns in every part (P, G) of a log: parts differ in what they have seen."""

    def __init__(
        self, data: Transitions, known: KnownColumns, groups: Tensor, kept: Tensor, weights: Tensor
    ) -> None:
        self._tables = dict[int, list[ExogenousMoves]]()
        if not known.moving:
            return
        steps, inside = data.schema.difference(data.states, data.next_states), [part[groups] for part in kept]
        for column in known.moving:
            values, moves = data.states[:, column], steps[:, column]
            self._tables[column] = [
                ExogenousMoves.of(*(one[rows].numpy() for one in (values, moves, weights))) for rows in inside
            ]

    def move(self, after: FloatArray, states: FloatArray, normal: FloatArray, part: IntArray | None) -> None:
        """Add moves to next states (d_s, m) in place; `normal` is (d_s, m), `part` (m,), None for part 0."""
        for column, tables in self._tables.items():
            for number in [0] if part is None else np.unique(part):
                some = slice(None) if part is None else part == number
                after[column, some] += tables[number].draw(states[column, some], normal[column, some])

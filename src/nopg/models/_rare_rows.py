"""Rows that the model does not foresee at all, and how near to them a controller goes.

A log with few such rows tells that something may happen, such as a runaway, a fall or a kick, but hardly how
often and from where. A mean over predicted paths, on which it does not happen, is then worth little, unless
the paths stay farther away than any logged row that led there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial import cKDTree

from nopg._typing import BoolArray, FloatArray
from nopg.models._regression_rows import InputSpace
from nopg.models._residuals import Residuals

# A row is rare beyond this many robust deviations of the residuals; normal noise is never so far.
_FAR = 15.0
# The least deviation, as a share of that of the column itself: no fit is exact.
_FINEST = 0.05
# Standard deviation of normal numbers over the median of their size.
_BY_MEDIAN = 1.4826
# Share of the weight of paths that may lie within the margin.
_SOME = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class RareRows:
    """Rows far from their predictions.

    Attributes:
        count: Number of them.
        names: Columns in which they are.
        margin: Distance from them of the farthest row that led to one of them.
        tree: Of their states.
        space: Units of the states.
    """

    count: int
    names: tuple[str, ...]
    margin: float
    tree: cKDTree | None
    space: InputSpace

    @classmethod
    def of(cls, found: Residuals, space: InputSpace, discount: float) -> RareRows:
        """Return those of a log.

        Args:
            found: Residuals.
            space: Of the states.
            discount: Rows lead to another one that follows within an effective horizon.
        """
        steps = found.log.schema.difference(found.log.states, found.log.next_states)[:, : len(found.spread)]
        every = np.column_stack([found.states, found.rewards])
        far = _far(every, np.column_stack([steps.numpy(), found.log.rewards.numpy()]))
        rare: BoolArray = np.asarray(far.any(axis=1))
        names = np.array([*found.log.schema.measured, "reward"], dtype=object)[far.any(axis=0)]
        if not rare.any():
            return cls(0, (), 0.0, None, space)
        points = space.embed(found.log.states).numpy()
        tree = cKDTree(points[rare])
        led = _leads(rare, found.linked, math.ceil(round(1.0 / (1.0 - discount), 9)))
        margin = float(tree.query(points[led])[0].max())
        return cls(int(rare.sum()), tuple(names), margin, tree, space)

    def near(self, states: torch.Tensor, weights: torch.Tensor) -> bool:
        """Return whether weighted states (m, d_s) come nearer than rows that led to a rare one."""
        if self.tree is None:
            return False
        distances, _ = self.tree.query(self.space.embed(states).numpy())
        inside = distances <= self.margin
        return float(weights.numpy()[inside].sum()) > _SOME * float(weights.sum())


def _far(residuals: FloatArray, steps: FloatArray) -> BoolArray:
    """Return which residuals (n, c) are rare; steps (n, c) are what was to be predicted."""
    deviation = _BY_MEDIAN * np.median(np.abs(residuals), axis=0)
    unit = np.maximum(deviation, _FINEST * steps.std(axis=0))
    return np.asarray(np.abs(residuals) > _FAR * np.where(unit > 0, unit, np.inf))


def _leads(rare: BoolArray, linked: BoolArray, steps: int) -> BoolArray:
    """Return which rows are rare or are followed by a rare one within some steps of their run."""
    found = ahead = rare
    for _ in range(steps):
        ahead = np.append(ahead[1:] & linked[1:], [False])
        if not ahead.any():
            break
        found = found | ahead
    return found

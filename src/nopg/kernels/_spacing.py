"""The spacing of the data and the length of a step, the bounds of a bandwidth."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from nopg.data import Transitions

_SAME_LEVEL = 1e-9


def level_spacing(data: Transitions) -> tuple[Tensor, Tensor]:
    """Return the typical gap between the levels of each state column and each action column.

    On a grid of experiments this is the spacing of the grid; on continuous recordings, where nearly
    every row has a different value, it is close to 0. Angles are measured on the circle and returned as
    chords, the unit of their features.
    """
    states = []
    for k, name in enumerate(data.schema.states):
        period = data.schema.angles.get(name)
        column = data.states[:, k]
        if period is None:
            states.append(_median_gap(column))
        else:
            states.append(2 * np.sin(np.pi * _median_gap(column % period, period) / period))
    actions = [_median_gap(column) for column in data.actions.T]
    return torch.tensor(states, dtype=torch.float64), torch.tensor(actions, dtype=torch.float64)


def step_length(data: Transitions) -> Tensor:
    """Return the median length of a step of each state column, angles as chords, shape (d_s,)."""
    squared = (data.next_features - data.features).square()
    columns = torch.tensor(data.schema.feature_columns)
    total = torch.zeros(len(squared), len(data.schema.states), dtype=torch.float64)
    return total.index_add_(1, columns, squared).sqrt().median(dim=0).values


def _median_gap(column: Tensor, period: float | None = None) -> float:
    values = np.sort(column.numpy())
    resolution = _SAME_LEVEL * (period or values[-1] - values[0])
    gaps = np.diff(values)
    if period is not None:
        gaps = np.append(gaps, values[0] + period - values[-1])
    gaps = gaps[gaps > resolution]
    return float(np.median(gaps)) if len(gaps) else 0.0

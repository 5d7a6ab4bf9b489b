"""The regression table of bandwidth selection: inputs (s, a), targets (r, s′), distinct rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nopg.data import Transitions
from nopg.data._held_out import canonical_order, duplicate_groups, held_out_groups
from nopg.errors import DataError


@dataclass(frozen=True, slots=True)
class RegressionTable:
    """Distinct rows in a canonical order, in units of their spread.

    Attributes:
        inputs: Features and actions, divided by `scale`, shape (n, d).
        targets: Rewards and next features, centred and of variance 1, shape (n, t).
        log_counts: Log of the number of transitions that each row represents, shape (n,).
        held_out_with: Rows with the same number are held out together, shape (n,).
        scale: Unit of each input, shape (d,).
        columns: Which free bandwidth each input uses; both features of an angle share one, shape (d,).
        num_state_features: Number of inputs that are state features.
    """

    inputs: Tensor
    targets: Tensor
    log_counts: Tensor
    held_out_with: Tensor
    scale: Tensor
    columns: Tensor
    num_state_features: int

    @classmethod
    def from_data(cls, data: Transitions) -> RegressionTable:
        """Build the table; the order of the rows of the data does not matter."""
        _check_columns(data)
        features, actions = data.features, data.actions
        inputs = torch.cat([features, actions], dim=1)
        state_columns = data.schema.feature_columns
        columns = torch.tensor(
            [*state_columns, *(len(data.schema.states) + k for k in range(actions.shape[1]))]
        )

        center = _mean(inputs, data.weights)
        spread = _mean((inputs - center).square(), data.weights)
        scale = _mean_over_columns(spread, columns).sqrt()
        targets = _standardized_targets(data)

        first, counts, groups = _distinct(data)
        order = canonical_order(torch.cat([(inputs - center) / scale, targets], dim=1)[first])
        return cls(
            inputs=(inputs / scale)[first][order],
            targets=targets[first][order],
            log_counts=counts.log()[order],
            held_out_with=groups[order],
            scale=scale,
            columns=columns,
            num_state_features=features.shape[1],
        )

    @property
    def num_bandwidths(self) -> int:
        """Number of free bandwidths."""
        return int(self.columns.max()) + 1


def _standardized_targets(data: Transitions) -> Tensor:
    """Return (r, s′) with variance 1 in each column; the two features of an angle are scaled alike."""
    raw = torch.cat([data.rewards[:, None], data.next_features], dim=1)
    targets = raw - _mean(raw, data.weights)
    columns = torch.tensor([0, *(1 + column for column in data.schema.feature_columns)])
    deviation = _mean_over_columns(_mean(targets.square(), data.weights), columns).sqrt()

    # A constant target, such as a reward of −1 per step, is not a target; its deviation is rounding.
    informative = deviation > 1e-12 * raw.abs().amax(dim=0)
    if not bool(informative.any()):
        raise DataError(
            "rewards and next states are the same in every row, so there is nothing to predict; "
            "give data in which something happens"
        )
    return targets[:, informative] / deviation[informative]


def _distinct(data: Transitions) -> tuple[Tensor, Tensor, Tensor]:
    """Return the first row, the weight and the held-out group of each set of duplicates."""
    numbers = duplicate_groups(data)
    first = torch.as_tensor(np.unique(numbers.numpy(), return_index=True)[1])
    weights = torch.ones(len(data), dtype=torch.float64) if data.weights is None else data.weights
    counts = torch.zeros(len(first), dtype=torch.float64).index_add_(0, numbers, weights)
    return first, counts, held_out_groups(data, duplicates=numbers)[first]


def _mean(values: Tensor, weights: Tensor | None) -> Tensor:
    """Return the weighted mean of each column of values (n, c)."""
    return values.mean(dim=0) if weights is None else weights @ values / weights.sum()


def _mean_over_columns(values: Tensor, columns: Tensor) -> Tensor:
    """Return for every input the mean over the inputs that share its bandwidth."""
    size = int(columns.max()) + 1
    total = torch.zeros(size, dtype=values.dtype).index_add_(0, columns, values)
    return (total / torch.bincount(columns, minlength=size))[columns]


def _check_columns(data: Transitions) -> None:
    if data.constant_columns:
        raise DataError(
            f"columns {list(data.constant_columns)} hold one value only: no bandwidth can be read from them; "
            "leave them out, or set bandwidths by hand with Bandwidths.from_values(…)"
        )

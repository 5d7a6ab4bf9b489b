"""Which rows are left out together, and a sample of rows that depends on nothing but what they say."""

from __future__ import annotations

import numpy as np
import torch

from nopg._seeding import generator
from nopg.data._duplicates import duplicate_groups
from nopg.data._transitions import Transitions

__all__ = ["canonical_order", "held_out_groups", "spread_rows"]

# A single episode has no other to be predicted from; its tenths stand for episodes.
_BLOCKS = 10
# A column that varies by less than this share of its size varies by rounding.
_ROUNDING = 1e-12


def held_out_groups(data: Transitions, *, duplicates: torch.Tensor | None = None) -> torch.Tensor:
    """Return a number per row, shape (n,); rows with the same number are left out together.

    These are whole episodes where there is more than one, the consecutive tenths of a single episode, and
    duplicates where there are no episodes. No duplicate of a row stays when the row is left out: copies in
    several episodes go with the one of the smallest number, copies in several tenths with the first.

    Args:
        data: The transitions.
        duplicates: What `duplicate_groups` says of the data, for those who have asked already.

    Example:
        >>> data = Transitions.from_arrays([0.0, 1.0, 0.0, 2.0], [1.0] * 4, [0.0] * 4, [5.0, 6.0, 5.0, 7.0])
        >>> held_out_groups(data).tolist()
        [0, 1, 0, 2]
    """
    copies = duplicate_groups(data) if duplicates is None else duplicates
    if data.episodes is None:
        return copies

    num_distinct = int(copies.max()) + 1
    episodes = torch.full((num_distinct,), torch.iinfo(torch.int64).max)
    episodes.scatter_reduce_(0, copies, data.episodes, "amin")
    if bool((episodes == episodes[0]).all()):
        return copies * _BLOCKS // num_distinct  # numbered by first appearance, which is time
    return episodes[copies]


def spread_rows(data: Transitions, count: int, *, purpose: str) -> torch.Tensor:
    """Return the numbers of at most `count` rows, drawn alike from data that say the same.

    Which rows these are, and in which order, depends on neither the order of the rows nor the units and
    signs of the columns; of duplicates, either may be drawn. A smaller sample for the same purpose is the
    beginning of a larger one.

    Args:
        data: The transitions.
        count: How many rows at most; with n or more these are all rows.
        purpose: What the sample is for; another purpose gives another sample.
    """
    order = canonical_order(_standardized(data))
    return order[torch.randperm(len(data), generator=generator(0, purpose))[:count]]


def canonical_order(rows: torch.Tensor) -> torch.Tensor:
    """Return an order of standardised rows (n, c) that depends on neither their order nor their units.

    Rows are sorted by their distance from the centre, which the sign of a column does not change; ten
    digits decide, so that rounding does not. Columns break what ties there are.
    """
    table = rows.numpy()
    return torch.as_tensor(np.lexsort((*table.T.round(10), np.square(table).sum(axis=1).round(10))))


def _standardized(data: Transitions) -> torch.Tensor:
    """Return (s, a, r, s′) from their means in units of their spread (n, c); an angle has one spread."""
    rows = torch.cat([data.features, data.actions, data.rewards[:, None], data.next_features], dim=1)
    state_columns = data.schema.feature_columns
    d_s, d_a = len(data.schema.states), len(data.schema.actions)
    columns = torch.tensor(
        [*state_columns, *range(d_s, d_s + d_a + 1), *(d_s + d_a + 1 + k for k in state_columns)]
    )

    centered = rows - rows.mean(dim=0)
    shared = (columns[:, None] == columns).double()
    spread = (shared @ centered.square().mean(dim=0)).sqrt()
    varies = spread > _ROUNDING * rows.abs().amax(dim=0)
    return torch.where(varies, centered / spread, 0.0)

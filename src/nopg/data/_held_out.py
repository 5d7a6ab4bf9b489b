"""Duplicate rows, rows that are left out together, and samples that do not depend on the order of rows."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from nopg._seeding import generator
from nopg.data._transitions import Transitions

# Far above rounding (cos π and cos −π differ by 10⁻¹⁶), far below any sensor's resolution.
_TOLERANCE = 1e-9
# A single episode cannot be predicted from another; its tenths take the place of episodes.
_BLOCKS = 10
# A column that varies by less than this share of its size varies by rounding.
_ROUNDING = 1e-12


def duplicate_groups(data: Transitions) -> torch.Tensor:
    """Return a group number per row; rows equal in (s, a, r, s′) up to rounding share one.

    Columns are compared in units of their standard deviation, angles by their cosine and sine.

    Example:
        >>> data = Transitions.from_arrays([0.0, 1.0, 0.0], [1.0, 1.0, 1.0], [2.0, 3.0, 2.0], [5.0, 6.0, 5.0])
        >>> duplicate_groups(data).tolist()
        [0, 1, 0]
    """
    rows = torch.cat([data.features, data.actions, data.rewards[:, None], data.next_features], dim=1)
    scale = rows.std(dim=0, correction=0)
    scaled = ((rows - rows.mean(dim=0)) / torch.where(scale > 0, scale, 1.0)).numpy()

    # Exact copies first: a tree over many of them would list every pair.
    distinct, inverse = np.unique(scaled, axis=0, return_inverse=True)
    pairs = cKDTree(distinct).query_pairs(_TOLERANCE * scaled.shape[1] ** 0.5, output_type="ndarray")
    links = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(distinct),) * 2)
    _, component = connected_components(links, directed=False)

    # Numbered by first appearance.
    _, first, group = np.unique(component[inverse.ravel()], return_index=True, return_inverse=True)
    return torch.as_tensor(np.argsort(np.argsort(first))[group.ravel()])


def held_out_groups(data: Transitions, *, duplicates: torch.Tensor | None = None) -> torch.Tensor:
    """Return a number per row, shape (n,); rows with the same number are left out together.

    The groups are whole episodes where there is more than one, the consecutive tenths of a single episode,
    and duplicates where there are no episodes. A row and its duplicates are in one group: that of the
    smallest episode number, or of the first tenth. Known `duplicate_groups` need not be found again.
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
    """Return the numbers of at most `count` randomly drawn rows; another purpose gives another sample.

    The sample and its order depend on neither the order of the rows nor the units and signs of the columns;
    of duplicates, either may be drawn. A smaller sample is the beginning of a larger one.
    """
    order = canonical_order(_standardized(data))
    return order[torch.randperm(len(data), generator=generator(0, purpose))[:count]]


def canonical_order(rows: torch.Tensor) -> torch.Tensor:
    """Return an order of standardised rows (n, c) that depends on neither their order nor their units.

    Rows are sorted by their distance from the centre, which the sign of a column does not change; ten
    digits count, so that rounding does not. Columns break ties.
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

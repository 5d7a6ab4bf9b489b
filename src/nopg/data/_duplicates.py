"""Rows that say the same thing twice, found up to rounding."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from nopg.data._transitions import Transitions

__all__ = ["duplicate_groups"]

# Far above rounding (cos π and cos −π differ by 10⁻¹⁶), far below any sensor's resolution.
_TOLERANCE = 1e-9


def duplicate_groups(data: Transitions) -> torch.Tensor:
    """Return a group number per row; rows equal in (s, a, r, s′) up to rounding share one.

    Columns are compared in units of their standard deviation, angles by their cosine and sine,
    so neither the units nor the order of the rows matter.

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

    # Numbered by first appearance, so the answer reads well.
    _, first, group = np.unique(component[inverse.ravel()], return_index=True, return_inverse=True)
    return torch.as_tensor(np.argsort(np.argsort(first))[group.ravel()])

"""Value nodes where no sample ended: around the data, as far as one step can lead."""

from __future__ import annotations

import numpy as np
import torch

from nopg.neighbors import neighbor_search

__all__ = ["uncovered"]


def uncovered(places: torch.Tensor, nodes: torch.Tensor, *, radius: float, most: int) -> torch.Tensor:
    """Return numbers of places that lie farther than the radius from every node, one for each cell of a grid.

    The one nearest to the mean of its cell stands for the others. The grid is centred on the nodes, so
    neither shifts nor units matter. If more than `most` are left, the radius grows by half until they fit.

    Args:
        places: Where actions can lead, shape (p, d).
        nodes: The nodes there are, shape (n, d).
        radius: In the same units; also the size of a cell.
        most: How many to return at most.

    Example:
        >>> nodes = torch.zeros(1, 1, dtype=torch.float64)
        >>> places = torch.tensor([[0.5], [3.0], [3.1], [3.2], [8.0]], dtype=torch.float64)
        >>> uncovered(places, nodes, radius=1.0, most=9).tolist()
        [2, 4]
    """
    distances, _ = neighbor_search(nodes).nearest(places, 1)
    far = (distances[:, 0] > radius).nonzero()[:, 0]
    if len(far) == 0:
        return far
    away = (places[far] - nodes.mean(dim=0)) / radius
    _, cell = torch.unique(away.round().long(), dim=0, return_inverse=True)
    cells = int(cell.max()) + 1
    if cells > most:
        return uncovered(places, nodes, radius=1.5 * radius, most=most)

    sums = torch.zeros(cells, away.shape[1], dtype=away.dtype).index_add_(0, cell, away)
    mean = sums / torch.bincount(cell, minlength=cells)[:, None]
    off = (away - mean[cell]).square().sum(dim=1)
    # Two places are equally far from their mean: lest rounding decide, the one farther from all nodes.
    keys = (*away.T.numpy(), -distances[far, 0].numpy() / radius, off.numpy())
    order = torch.as_tensor(np.lexsort((*(key.round(9) for key in keys), cell.numpy())))
    first = torch.ones(len(order), dtype=torch.bool)
    first[1:] = cell[order].diff() != 0
    return far[order[first]]

"""An order of the rows in which products with the paper's model read memory fastest."""

from __future__ import annotations

from torch import Tensor

from nopg._spatial import SpatialCells, spatial_order
from nopg.data import Transitions
from nopg.kernels import GaussianKernel


def next_state_order(data: Transitions, metric: GaussianKernel) -> Tensor:
    """Return an order of the rows (n,) in which those with nearby next states are close in memory.

    Args:
        data: The rows.
        metric: Distances are measured in its bandwidths.
    """
    places = metric.scale(data.next_features)
    return spatial_order(places, SpatialCells.of(places).number(places))

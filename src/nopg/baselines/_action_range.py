"""The actions that ±1 means in the networks of other libraries."""

import torch

from nopg._typing import ArrayLike, as_tensor
from nopg.data import Transitions
from nopg.errors import DataError


def action_range(
    data: Transitions, bounds: tuple[ArrayLike, ArrayLike] | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the lowest and highest actions (d_a,), as given or as in the data."""
    if bounds is None:
        low, high = data.actions.amin(dim=0), data.actions.amax(dim=0)
    else:
        low, high = (as_tensor(bound).reshape(-1) for bound in bounds)
    if low.shape != high.shape or len(low) != data.actions.shape[1] or not bool((low < high).all()):
        raise DataError(
            f"actions range from {low.tolist()} to {high.tolist()}; every action needs low < high, say so "
            "with action_bounds=(low, high)"
        )
    return low, high

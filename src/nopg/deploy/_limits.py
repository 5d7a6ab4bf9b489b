"""Between which numbers an action has to lie."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from nopg._columns import Columns

__all__ = ["action_limits"]

Numbers = npt.NDArray[np.float64]


def action_limits(columns: Columns, reach: tuple[Numbers, Numbers] | None) -> tuple[Numbers, Numbers]:
    """Return the lowest and the highest of every action, both (d_a,).

    They are the declared bounds of a column; where nobody declared any, the ends of the policy's range; for a
    policy without a range, such as a linear one, ∓∞.

    Args:
        columns: Names and bounds.
        reach: The lowest and highest action that the policy can give, both (d_a,), or None.

    Example:
        >>> columns = Columns(("level",), ("valve", "pump"), bounds={"valve": (0.0, 1.0)})
        >>> low, high = action_limits(columns, (np.array([0.1, 1.0]), np.array([0.9, 3.0])))
        >>> low.tolist(), high.tolist()
        ([0.0, 1.0], [1.0, 3.0])
    """
    if reach is None:
        low, high = np.full((2, len(columns.actions)), [[-math.inf], [math.inf]])
    else:
        low, high = reach[0].copy(), reach[1].copy()
    for k, name in enumerate(columns.actions):
        if name in columns.bounds:
            low[k], high[k] = columns.bounds[name]
    return low, high

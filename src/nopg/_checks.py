"""Checks of settings that several rooms share."""

import math

from nopg.errors import ArgumentError

__all__ = ["check_discount"]


def check_discount(discount: float) -> float:
    """Return the discount if it lies in [0, 1), else say why not."""
    if not (math.isfinite(discount) and 0.0 <= discount < 1.0):
        raise ArgumentError(
            f"discount is {discount}; it must lie in [0, 1): at 1 the equation has no unique solution. "
            "Try 0.97, or 0.99 for slower systems"
        )
    return float(discount)

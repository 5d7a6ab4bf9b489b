"""Checks of settings that several packages share."""

from nopg._numbers import is_number
from nopg.errors import ArgumentError


def check_discount(discount: float) -> float:
    """Return the discount if it lies in [0, 1), else raise."""
    if not (is_number(discount) and 0.0 <= discount < 1.0):  # NaN included
        raise ArgumentError(
            f"discount is {discount!r}; it must lie in [0, 1): at 1 the equation has no unique solution. "
            "Try 0.97, or 0.99 for slower systems"
        )
    return float(discount)

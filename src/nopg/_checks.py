"""Checks of settings that several packages share."""

import torch

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


def check_device(device: torch.device | str | None) -> torch.device:
    """Return the device with its number, by default the CPU; raise if it cannot be used.

    Example:
        >>> check_device(None)
        device(type='cpu')
    """
    try:
        found = torch.empty(0, device="cpu" if device is None else device).device
    except (AssertionError, NotImplementedError, RuntimeError) as error:
        reason = str(error).splitlines()[0].split(". ", 1)[0]
        raise ArgumentError(f"device {str(device)!r} cannot be used here ({reason}); try 'cpu'") from error
    return found

"""Numbers of a log that floats cannot compute with: too large or small to be squared, angles that turn."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from nopg.data._schema import Schema
from nopg.errors import DataError

# Squares of products of two such numbers are finite, and do not vanish.
_LARGEST, _SMALLEST = 1e75, 1e-75


def check_magnitudes(schema: Schema, columns: Iterable[tuple[str, torch.Tensor]]) -> None:
    """Refuse numbers too large to compute with, columns that vary too little, and angles without a direction.

    Args:
        schema: Which columns are angles.
        columns: Names and values; another name than that of a state or an action is written as it is.
    """
    for name, column in columns:
        low, high = map(float, column.aminmax())
        largest = max(-low, high)
        if largest > _LARGEST:
            label = repr(name) if name in (*schema.states, *schema.actions) else name
            raise DataError(
                f"{label} reaches {largest:.3g}; numbers beyond {_LARGEST:g} cannot be squared. Use a larger "
                "unit, or mark them as missing"
            )
        if name in (*schema.states, *schema.actions) and 0.0 < high - low < _SMALLEST:
            raise DataError(
                f"{name!r} varies by {high - low:.3g} only; squares of numbers below {_SMALLEST:g} vanish. "
                "Use a smaller unit, or leave the column out"
            )
        if name in schema.angles and largest > schema.largest_angle(name):
            raise DataError(
                f"the angle {name!r} reaches {largest:.3g} with a period of {schema.angles[name]:.3g}; "
                "floats of that size tell no direction. Check the period, or store the angle modulo it"
            )

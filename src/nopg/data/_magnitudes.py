"""Numbers of a log that floats cannot compute with: too large to be squared, angles without a direction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from nopg.errors import DataError

if TYPE_CHECKING:
    import torch

    from nopg.data._transitions import Transitions

__all__ = ["check_magnitudes"]

# Squares of products of two such numbers are finite.
_LARGEST = 1e75


def check_magnitudes(data: Transitions) -> None:
    """Refuse numbers too large to compute with, and angles too large to have a direction."""
    for name, label, column in _labelled_columns(data):
        low, high = map(float, column.aminmax())
        largest = max(-low, high)
        if largest > _LARGEST:
            raise DataError(
                f"{label} reaches {largest:.3g}; numbers beyond {_LARGEST:g} cannot be squared. Use a larger "
                "unit, or mark them as missing"
            )
        if name in data.schema.angles and largest > data.schema.largest_angle(name):
            raise DataError(
                f"the angle {name!r} reaches {largest:.3g} with a period of {data.schema.angles[name]:.3g}; "
                "floats of that size tell no direction. Check the period, or store the angle modulo it"
            )


def _labelled_columns(data: Transitions) -> Iterator[tuple[str, str, torch.Tensor]]:
    """Yield the name, the description and the values of every column of numbers."""
    schema = data.schema
    for values in (data.states, data.next_states):
        yield from ((name, repr(name), column) for name, column in zip(schema.states, values.T, strict=True))
    yield from (
        (name, repr(name), column) for name, column in zip(schema.actions, data.actions.T, strict=True)
    )
    yield "", "the reward", data.rewards
    if data.weights is not None:
        yield "", "the weight", data.weights

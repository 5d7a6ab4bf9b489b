"""Arrays of a saved result, none of which is trusted."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from nopg.errors import ArgumentError

__all__ = ["float_array", "whole_array"]


def whole_array(tensors: Mapping[str, torch.Tensor], name: str) -> torch.Tensor:
    """Return an array of whole numbers or flags with one dimension."""
    value = tensors.get(name)
    if value is None or value.ndim != 1 or value.is_floating_point() or value.is_complex():
        raise ArgumentError(f"the array {name!r} is missing, or holds something else")
    return value


def float_array(
    tensors: Mapping[str, torch.Tensor], name: str, dimensions: int, *, finite: bool = True
) -> torch.Tensor:
    """Return an array of float64 with this number of dimensions; by default all numbers are finite."""
    value = tensors.get(name)
    if value is None or value.ndim != dimensions or value.dtype != torch.float64:
        raise ArgumentError(f"the array {name!r} is missing, or holds something else")
    if finite and not bool(value.isfinite().all()):
        raise ArgumentError(f"the array {name!r} holds what is no finite number")
    return value

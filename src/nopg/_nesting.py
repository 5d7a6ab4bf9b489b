"""Tensors of several owners in one flat mapping, each under the name of its owner."""

from __future__ import annotations

from collections.abc import Mapping

import torch


def nested(**owners: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the tensors of all owners in one mapping.

    Example:
        >>> sorted(nested(solver={"a": torch.zeros(1)}, model={"a": torch.ones(1)}))
        ['model.a', 'solver.a']
    """
    return {f"{owner}.{name}": part for owner, parts in owners.items() for name, part in parts.items()}


def part_of(owner: str, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the tensors of one owner under their own names.

    Example:
        >>> part_of("model", {"model.a": torch.ones(1), "solver.a": torch.zeros(1)})
        {'a': tensor([1.])}
    """
    prefix = f"{owner}."
    return {name.removeprefix(prefix): part for name, part in tensors.items() if name.startswith(prefix)}

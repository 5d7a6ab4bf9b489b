"""Densities of actions: what importance sampling asks of a policy."""

from __future__ import annotations

import math
from typing import Protocol, runtime_checkable

import torch

__all__ = ["Gaussian", "log_normal"]


@runtime_checkable
class Gaussian(Protocol):
    """A policy whose actions are drawn from a normal distribution around its mode."""

    def moments(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return mean and standard deviation of each action, both (m, d_a)."""
        ...


def log_normal(
    actions: torch.Tensor,
    mean: torch.Tensor,
    std: torch.Tensor,
    *,
    low: torch.Tensor | None = None,
    high: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the log density of each action, not yet summed over the actions, in the shape of all three.

    Args:
        actions: What was drawn, after clipping where there are bounds.
        mean: Of the normal distribution before clipping.
        std: Likewise.
        low: The lower bound of the clipping, if any: there stands the probability of what lies beyond.
        high: The upper one.

    Example:
        >>> a = torch.tensor([0.0, 1.0], dtype=torch.float64)
        >>> zero, one = torch.zeros(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64)
        >>> log_normal(a, zero, one, high=one).exp()  # the second is P(x ≥ 1)
        tensor([0.3989, 0.1587], dtype=torch.float64)
    """
    z = (actions - mean) / std
    log_p = -0.5 * z.square() - std.log() - 0.5 * math.log(2 * math.pi)
    if low is not None:
        log_p = torch.where(actions <= low, torch.special.log_ndtr(z), log_p)
    if high is not None:
        log_p = torch.where(actions >= high, torch.special.log_ndtr(-z), log_p)
    return log_p

"""The known and the unknown share of a query."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nopg.errors import ArgumentError

DEFAULT_PRIOR_MASS = 1e-6
"""Default β of the paper's model: negligible within the data."""

# The known mass is at least exp(−300) ≈ 10⁻¹³⁰: negligible, but shares and their squares do not underflow.
_LEAST_LOG_ODDS = -300.0


def check_prior_mass(prior_mass: float) -> float:
    """Return β if it is finite and not negative, else raise."""
    if not (math.isfinite(prior_mass) and prior_mass >= 0):
        raise ArgumentError(f"prior_mass is {prior_mass}; give 0 (the paper) or a positive number, e.g. 1e-3")
    return prior_mass


def known_and_unknown(log_mass: Tensor, prior_mass: float) -> tuple[Tensor, Tensor]:
    """Return Σeˡ/(β + Σeˡ) and m = β/(β + Σeˡ) from log Σeˡ and β, without overflow.

    Example:
        >>> known, unknown = known_and_unknown(torch.tensor([0.0, -1e9]), 1.0)
        >>> unknown
        tensor([0.5000, 1.0000])
    """
    if prior_mass == 0.0:
        return torch.ones_like(log_mass), torch.zeros_like(log_mass)
    log_odds = (log_mass - math.log(prior_mass)).clamp(min=_LEAST_LOG_ODDS)
    return torch.sigmoid(log_odds), torch.sigmoid(-log_odds)

"""Rules for the integral over next states, ∫ϕᵢ(s′) … ds′ (`theorem:fixedpoint`)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from nopg._seeding import generator
from nopg.data import Schema
from nopg.errors import ArgumentError


class IntegrationRule(ABC):
    """The points at which the integrand over next states is evaluated."""

    num_samples: int

    @abstractmethod
    def points(self, next_states: Tensor, spread: Tensor) -> Tensor:
        """Return raw states (n·g, d_s) for next states (n, d_s), g consecutive ones for each.

        Args:
            next_states: s′, the centres of the kernels.
            spread: h_ϕ in the units of the raw columns, shape (d_s,).
        """


@dataclass(frozen=True, slots=True)
class KernelMean(IntegrationRule):
    """The mean of the kernel alone, s′ itself: the paper's N_ϕ = 1."""

    @property
    def num_samples(self) -> int:  # type: ignore[override]
        """1."""
        return 1

    def points(self, next_states: Tensor, spread: Tensor) -> Tensor:
        """Return the next states themselves."""
        del spread
        return next_states


@dataclass(frozen=True, slots=True)
class MonteCarlo(IntegrationRule):
    """Samples of the kernel, drawn once: common random numbers keep the objective fixed.

    Attributes:
        num_samples: N_ϕ, the number for each next state.
        seed: Random seed.
    """

    num_samples: int
    seed: int = 0

    def __post_init__(self) -> None:
        if self.num_samples < 1:
            raise ArgumentError(f"num_samples is {self.num_samples}; draw at least 1 next state")

    def points(self, next_states: Tensor, spread: Tensor) -> Tensor:
        """Return samples of N(s′, h_ϕ²)."""
        n, d = next_states.shape
        noise = torch.randn(
            n, self.num_samples, d, generator=generator(self.seed, "next states"), dtype=torch.float64
        )
        return (next_states[:, None] + noise * spread).reshape(-1, d)


def raw_spread(schema: Schema, h: Tensor) -> Tensor:
    """Return h_ϕ (d_s,) per raw state column from h (d_f,); the unit of an angle's feature is one radian."""
    spread = torch.empty(len(schema.states), dtype=torch.float64)
    for feature, column in enumerate(schema.feature_columns):
        period = schema.angles.get(schema.states[column], 2 * math.pi)
        spread[column] = h[feature] * period / (2 * math.pi)
    return spread

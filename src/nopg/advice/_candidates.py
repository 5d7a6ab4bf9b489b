"""The family of experiments that are compared, and their test signals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch

Base = Literal["today's controller", "the policy", "a constant action"]
"""What acts beneath the test signal."""
Starts = Literal["usual", "least known"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """An experiment before its size is put into units.

    Attributes:
        base: What acts beneath the test signal.
        share: Step up or down, as a share of the range of each action.
        hold: Number of rows for which a step is held.
        starts: Where episodes begin.
    """

    base: Base
    share: float
    hold: int = 1
    starts: Starts = "usual"


FAMILY = (
    Candidate("today's controller", 0.1),
    Candidate("today's controller", 0.5),
    Candidate("today's controller", 0.5, hold=3),
    Candidate("today's controller", 0.5, starts="least known"),
    Candidate("the policy", 0.1),
    Candidate("the policy", 0.5),
    Candidate("the policy", 0.5, hold=3),
    Candidate("the policy", 0.1, starts="least known"),
    Candidate("the policy", 0.5, starts="least known"),
    Candidate("a constant action", 0.5),
    Candidate("a constant action", 0.5, hold=3),
    Candidate("a constant action", 0.5, starts="least known"),
)
"""All experiments that are compared."""


class TestSignal:
    """Random steps up or down, drawn anew after some rows, for episodes side by side.

    Of all signals within ±size these have the largest variance.

    Args:
        sizes: Step of each action to either side, shape (d_a,).
        hold: Number of rows for which a step is held.
        rng: Random generator.
    """

    __test__ = False  # no test of pytest

    def __init__(self, sizes: torch.Tensor, hold: int, rng: torch.Generator) -> None:
        self._sizes, self._hold, self._rng = sizes, hold, rng
        self._rows, self._steps = 0, sizes[None]

    def added_to(self, law: Callable[[torch.Tensor], torch.Tensor], states: torch.Tensor) -> torch.Tensor:
        """Return the actions (m, d_a) of a control law in the next row, with the signal added."""
        if self._rows % self._hold == 0 or len(self._steps) != len(states):
            up = torch.rand(len(states), len(self._sizes), generator=self._rng) < 0.5
            self._steps = torch.where(up, self._sizes, -self._sizes)
        self._rows += 1
        return law(states) + self._steps

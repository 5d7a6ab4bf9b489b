"""Right-hand sides so small or large that squares leave the range of floats are solved at another scale."""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor

from nopg.linalg._resolvent import Resolvent
from nopg.linalg._solution import Solution


class _Solve(Protocol):
    def __call__(
        self, system: Resolvent, b: Tensor, *, tolerance: float, guess: Tensor | None
    ) -> Solution: ...


def solve_at_safe_scale(
    solve: _Solve, system: Resolvent, b: Tensor, *, tolerance: float, guess: Tensor | None
) -> Solution:
    """Return the solution for b, computed for b times a power of two where b is very small or large."""
    exponent = _exponent(system, b)
    if exponent == 0:
        return solve(system, b, tolerance=tolerance, guess=guess)
    start = None if guess is None else _shift(guess, -exponent)
    if start is not None and not math.isfinite(system.norm(start)):
        start = None
    found = solve(system, _shift(b, -exponent), tolerance=tolerance, guess=start)
    x = _shift(found.value, exponent)
    return system.certify(x, b, num_steps=found.num_steps, tolerance=tolerance)


def _exponent(system: Resolvent, b: Tensor) -> int:
    """Return k with max |b| in [2ᵏ⁻¹, 2ᵏ); 0 if the squares of b and of small residuals are normal."""
    exponent = math.frexp(float(b.abs().max()))[1]
    return exponent if 4 * abs(exponent) > math.log2(torch.finfo(b.dtype).max) else 0


def _shift(x: Tensor, exponent: int) -> Tensor:
    """Return 2ᵏx; in two factors, since 2ᵏ itself may overflow."""
    half = exponent // 2
    return x * 2.0**half * 2.0 ** (exponent - half)

"""BiCGSTAB (van der Vorst 1992) with restarts after a breakdown."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from nopg.linalg._fixed_point import FixedPoint
from nopg.linalg._resolvent import Resolvent
from nopg.linalg._solution import Solution
from nopg.linalg._solver import Solver

# Below this cosine between shadow residual and residual the recurrence breaks down.
_BREAKDOWN = 1e-12
_MAX_RESTARTS = 20


@dataclass(frozen=True, slots=True)
class BiCGSTAB(Solver):
    """A Krylov method for non-symmetric systems.

    The paper names conjugate gradient, which is not valid here: Λ is not symmetric. BiCGSTAB can break down
    (ρ → 0, ω → 0). It then restarts from its best point, and after too many restarts or steps continues with
    fixed-point iteration, which always converges.

    Attributes:
        max_steps: Largest number of products with P before fixed-point iteration.
        fallback: Whether to continue with fixed-point iteration; otherwise the best point is returned.
    """

    max_steps: int = 2_000
    fallback: bool = True

    def _solve(self, system: Resolvent, b: Tensor, *, tolerance: float, guess: Tensor | None) -> Solution:
        target = tolerance * system.norm(b)
        x = torch.zeros_like(b) if guess is None else guess
        r = b - system.apply(x)
        best, best_norm, steps = x, system.norm(r), 1

        for _ in range(_MAX_RESTARTS):
            if best_norm <= target or steps >= self.max_steps:
                break
            x, used = self._sweep(system, best, r, target=target, max_steps=self.max_steps - steps)

            # The recurrence drifts from the true residual, and after a breakdown x may be useless.
            residual, steps = b - system.apply(x), steps + used + 1
            norm = system.norm(residual)
            if math.isfinite(norm) and norm < 0.99 * best_norm:
                best, best_norm, r = x, norm, residual
            else:
                break

        if best_norm > target and self.fallback:
            rest = FixedPoint().solve(system, b, tolerance=tolerance, guess=best)
            best, steps = rest.value, steps + rest.num_steps
        return system.certify(best, b, num_steps=steps, tolerance=tolerance)

    def _sweep(
        self, system: Resolvent, x: Tensor, r: Tensor, *, target: float, max_steps: int
    ) -> tuple[Tensor, int]:
        """Run the recurrence from x with residual r until the target, a breakdown or the last step."""
        steps, shadow, p, rho = 0, r, r, _dot(r, r)
        shadow_norm = math.sqrt(rho)

        while steps < max_steps:
            v = system.apply(p)
            sigma = _dot(shadow, v)
            if abs(sigma) <= _BREAKDOWN * shadow_norm * math.sqrt(_dot(v, v)):
                break
            alpha = rho / sigma

            s = r - alpha * v
            t = system.apply(s)
            steps += 2
            t_squared = _dot(t, t)
            omega = _dot(t, s) / t_squared if t_squared > 0 else 0.0
            x = x + alpha * p + omega * s
            r = s - omega * t
            if system.norm(r) <= target or omega == 0.0:
                break

            rho, rho_before = _dot(shadow, r), rho
            if not abs(rho) > _BREAKDOWN * shadow_norm * math.sqrt(_dot(r, r)):
                break
            p = r + (rho / rho_before) * (alpha / omega) * (p - omega * v)
        return x, steps


def _dot(x: Tensor, y: Tensor) -> float:
    return float(torch.dot(x, y))

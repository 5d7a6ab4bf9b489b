"""The linear system of the Bellman equation, Λ = I − γP, and the proof that comes with every solve."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import torch

from nopg.solvers._solution import Solution
from nopg.solvers._space import VectorSpace

__all__ = ["Resolvent", "SubstochasticOperator"]

_UNIT_ROUNDOFF = torch.finfo(torch.float64).eps / 2


class SubstochasticOperator(ABC):
    """A square P with non-negative entries and row sums of at most 1, known only by its products.

    Attributes:
        size: Number of rows.
        terms_per_row: The most products that are added up for one entry of Px or Pᵀx.
        space: How its vectors are reduced.
    """

    size: int
    terms_per_row: int
    space: VectorSpace

    @abstractmethod
    def apply(self, x: torch.Tensor) -> torch.Tensor:
        """Return Px for a vector (n,) or several columns (n, c)."""

    @abstractmethod
    def apply_transposed(self, x: torch.Tensor) -> torch.Tensor:
        """Return Pᵀx for a vector (n,) or several columns (n, c)."""

    @abstractmethod
    def to_dense(self) -> torch.Tensor:
        """Return P as an (n, n) array; only for small n."""


@dataclass(frozen=True)
class Resolvent:
    """Λ = I − γP, or Λᵀ; an M-matrix with ‖Λ⁻¹‖∞ = ‖Λ⁻ᵀ‖₁ ≤ 1/(1 − γρ), ρ the largest row sum of P.

    Attributes:
        operator: P.
        discount: γ in [0, 1).
        transposed: Whether this is Λᵀ. Λ is measured in the maximum norm, Λᵀ in the sum norm.
    """

    operator: SubstochasticOperator
    discount: float
    transposed: bool = False

    @property
    def T(self) -> Resolvent:
        """The transposed system."""
        return Resolvent(self.operator, self.discount, not self.transposed)

    def propagate(self, x: torch.Tensor) -> torch.Tensor:
        """Return γPx, or γPᵀx."""
        P = self.operator
        return self.discount * (P.apply_transposed(x) if self.transposed else P.apply(x))

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        """Return Λx, or Λᵀx."""
        return x - self.propagate(x)

    def norm(self, x: torch.Tensor) -> float:
        """Return the norm in which this system's inverse is bounded."""
        space = self.operator.space
        return space.sum(x.abs()) if self.transposed else space.max(x.abs())

    @cached_property
    def inverse_bound(self) -> float:
        """An upper bound on the norm of the inverse, rounding included."""
        ones = torch.ones(self.operator.size, dtype=torch.float64)
        row_sum = self.operator.space.max(self.operator.apply(ones))
        gap = 1.0 - self.discount * row_sum * (1.0 + 2.0 * self._rounding)
        return 1.0 / gap if gap > 0 else float("inf")

    def certify(self, x: torch.Tensor, b: torch.Tensor, *, num_steps: int, tolerance: float) -> Solution:
        """Return the solution record of x: ‖x − x*‖ ≤ ‖Λ⁻¹‖ ‖b − Λx‖ (`theorem:fixedpoint`).

        The computed residual differs from the true one by rounding; what that can amount to is added.
        """
        residual = self.norm(b - self.apply(x))
        rounding = self._rounding * self.norm(b.abs() + x.abs() + self.propagate(x.abs()))
        scale = self.norm(b)
        return Solution(
            value=x,
            num_steps=num_steps,
            residual=residual,
            error_bound=self.inverse_bound * (residual + rounding),
            converged=residual <= tolerance * scale + rounding,
        )

    @property
    def _rounding(self) -> float:
        """Relative rounding error of one entry of b − Λx (Higham 2002, section 3.1, with room to spare)."""
        return 2.0 * (self.operator.terms_per_row + 8) * _UNIT_ROUNDOFF

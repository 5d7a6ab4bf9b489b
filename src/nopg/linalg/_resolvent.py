"""The linear system of the Bellman equation, Λ = I − γP, and the error bound of a solution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from nopg.linalg._solution import Solution


class SubstochasticOperator(ABC):
    """A square P with non-negative entries and row sums of at most 1, known by its products only.

    Attributes:
        size: Number of rows.
        terms_per_row: Largest number of products in the sum of one entry of Px or Pᵀx.
        dtype: Type of its entries and vectors.
        device: Device of its entries and vectors.
    """

    size: int
    terms_per_row: int
    dtype: torch.dtype = torch.float64
    device: torch.device = torch.device("cpu")

    @abstractmethod
    def apply(self, x: Tensor) -> Tensor:
        """Return Px for a vector (n,) or several columns (n, c), as a new tensor."""

    @abstractmethod
    def apply_transposed(self, x: Tensor) -> Tensor:
        """Return Pᵀx for a vector (n,) or several columns (n, c), as a new tensor."""

    @abstractmethod
    def to_dense(self) -> Tensor:
        """Return P as an (n, n) array; only for small n."""

    @property
    def work_per_product(self) -> int:
        """Entries that one product reads."""
        return self.size * self.terms_per_row

    @property
    def structure_key(self) -> object:
        """An object that operators with the same pattern share; they can share a preconditioner too."""
        return self

    @cached_property
    def largest_row_sum(self) -> float:
        """ρ, at most 1 up to rounding."""
        return float(self.apply(torch.ones(self.size, dtype=self.dtype, device=self.device)).max())

    def preconditioner(self, discount: float, visits: Tensor | None) -> Preconditioner | None:
        """Return an approximate inverse of Λ = I − γP, or None if this operator has none.

        Args:
            discount: γ.
            visits: μ of an operator with the same pattern, shape (n,), if known.
        """
        del discount, visits
        return None

    def restored_preconditioner(self, discount: float, state: Mapping[str, Tensor]) -> Preconditioner | None:
        """Return the approximate inverse with this `Preconditioner.state_dict`, or None if it has none."""
        del discount, state
        return None


class Preconditioner(ABC):
    """A fixed linear operator M ≈ Λ⁻¹, with Mᵀ ≈ Λ⁻ᵀ.

    Attributes:
        work: Entries that one product reads.
    """

    work: int

    @abstractmethod
    def apply(self, x: Tensor, *, transposed: bool) -> Tensor:
        """Return Mx ≈ Λ⁻¹x, or Mᵀx."""

    @abstractmethod
    def state_dict(self) -> dict[str, Tensor]:
        """Return the state for `SubstochasticOperator.restored_preconditioner`, which rebuilds it exactly."""


@dataclass(frozen=True)
class Resolvent:
    """Λ = I − γP, or Λᵀ; an M-matrix with ‖Λ⁻¹‖∞ = ‖Λ⁻ᵀ‖₁ ≤ 1/(1 − γρ), ρ the largest row sum of P.

    Attributes:
        operator: P.
        discount: γ in [0, 1).
        transposed: Whether this is Λᵀ; norms are the maximum norm for Λ, the sum norm for Λᵀ.
    """

    operator: SubstochasticOperator
    discount: float
    transposed: bool = False

    @property
    def T(self) -> Resolvent:
        """The transposed system."""
        return Resolvent(self.operator, self.discount, not self.transposed)

    def propagate(self, x: Tensor) -> Tensor:
        """Return γPx, or γPᵀx."""
        return self._product(x).mul_(self.discount)

    def apply(self, x: Tensor) -> Tensor:
        """Return Λx, or Λᵀx."""
        return self._product(x).mul_(-self.discount).add_(x)

    def _product(self, x: Tensor) -> Tensor:
        """Return Px, or Pᵀx, as a new tensor."""
        P = self.operator
        return P.apply_transposed(x) if self.transposed else P.apply(x)

    def norm(self, x: Tensor) -> float:
        """Return the norm in which the inverse is bounded."""
        sizes = x.abs()
        return float(sizes.sum() if self.transposed else sizes.max())

    @cached_property
    def inverse_bound(self) -> float:
        """An upper bound on the norm of the inverse, rounding included."""
        gap = 1.0 - self.discount * self.operator.largest_row_sum * (1.0 + 2.0 * self._rounding)
        return 1.0 / gap if gap > 0 else float("inf")

    def certify(
        self, x: Tensor, b: Tensor, *, num_steps: int, tolerance: float, residual: float | None = None
    ) -> Solution:
        """Return x with its error bound: ‖x − x*‖ ≤ ‖Λ⁻¹‖ ‖b − Λx‖ (`theorem:fixedpoint`).

        The bound includes the rounding error of the computed residual, that of denormal numbers too.

        Args:
            x: The solution.
            b: Right-hand side.
            num_steps: Products with P that the solver used.
            tolerance: Requested relative residual.
            residual: ‖b − Λx‖ computed from x, if known.
        """
        residual = self.norm(b - self.apply(x)) if residual is None else residual
        scale = self.norm(b)
        # ‖γP|x|‖ ≤ γρ‖x‖ in the maximum norm, and so is ‖γPᵀ|x|‖ in the sum norm.
        propagated = self.discount * self.operator.largest_row_sum * (1.0 + 2.0 * self._rounding)
        rounding = self._rounding * (scale + (1.0 + propagated) * self.norm(x)) + self._underflow
        return Solution(
            value=x,
            num_steps=num_steps,
            residual=residual,
            error_bound=self.inverse_bound * (residual + rounding),
            converged=residual <= tolerance * scale + rounding,
        )

    @property
    def _rounding(self) -> float:
        """Relative rounding error of one entry of b − Λx (Higham 2002, section 3.1, doubled)."""
        unit_roundoff = torch.finfo(self.operator.dtype).eps / 2
        return 2.0 * (self.operator.terms_per_row + 8) * unit_roundoff

    @property
    def _underflow(self) -> float:
        """Absolute rounding error of ‖b − Λx‖ where products are denormal (Higham 2002, eq. 2.8, doubled)."""
        limits, operator = torch.finfo(self.operator.dtype), self.operator
        entries = operator.size if self.transposed else 1
        return entries * (operator.terms_per_row + 8) * limits.smallest_normal * limits.eps

"""The linear system of the Bellman equation, Λ = I − γP, and the proof that comes with every solve."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch

from nopg.linalg._solution import Solution
from nopg.linalg._space import VectorSpace

__all__ = ["Preconditioner", "Resolvent", "SubstochasticOperator"]


class SubstochasticOperator(ABC):
    """A square P with non-negative entries and row sums of at most 1, known only by its products.

    Attributes:
        size: Number of rows, on this rank if there are several.
        terms_per_row: The most products that are added up for one entry of Px or Pᵀx.
        space: How its vectors are reduced.
        dtype: Of its entries and of the vectors it takes.
        device: Where both are.
    """

    size: int
    terms_per_row: int
    space: VectorSpace
    dtype: torch.dtype = torch.float64
    device: torch.device = torch.device("cpu")

    @abstractmethod
    def apply(self, x: torch.Tensor) -> torch.Tensor:
        """Return Px for a vector (n,) or several columns (n, c), in memory of its own."""

    @abstractmethod
    def apply_transposed(self, x: torch.Tensor) -> torch.Tensor:
        """Return Pᵀx for a vector (n,) or several columns (n, c), in memory of its own."""

    @abstractmethod
    def to_dense(self) -> torch.Tensor:
        """Return P as an (n, n) array; only for small n."""

    @property
    def total_size(self) -> int:
        """Number of rows on all ranks."""
        return int(self.space.ranks.total(self.size))

    @property
    def work_per_product(self) -> int:
        """Entries that one product touches, on this rank."""
        return self.size * self.terms_per_row

    @property
    def structure_key(self) -> object:
        """What operators share whose entries stand in the same places; one preconditioner serves them all."""
        return self

    @cached_property
    def largest_row_sum(self) -> float:
        """ρ, at most 1 but for rounding."""
        return self.space.max(self.apply(torch.ones(self.size, dtype=self.dtype, device=self.device)))

    def preconditioner(self, discount: float, visits: torch.Tensor | None) -> Preconditioner | None:
        """Return an approximate inverse of Λ = I − γP, or None if this operator knows none.

        Args:
            discount: γ.
            visits: The solution of Λᵀμ = … for an operator of the same structure, shape (n,), if known.
        """
        del discount, visits
        return None

    def restored_preconditioner(
        self, discount: float, state: Mapping[str, torch.Tensor]
    ) -> Preconditioner | None:
        """Return the approximate inverse whose `Preconditioner.state_dict` this is, or None if none is known.

        Args:
            discount: γ.
            state: Of a preconditioner of an operator of the same structure.
        """
        del discount, state
        return None


class Preconditioner(ABC):
    """An approximate inverse of Λ, and of Λᵀ: linear, and the same from one product to the next.

    Attributes:
        work: Entries that one application touches, on this rank.
    """

    work: int

    @abstractmethod
    def apply(self, x: torch.Tensor, *, transposed: bool) -> torch.Tensor:
        """Return Mx ≈ Λ⁻¹x, or Mᵀx."""

    @abstractmethod
    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return what `SubstochasticOperator.restored_preconditioner` builds it from, to the last bit."""


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
        return self._moved(x).mul_(self.discount)

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        """Return Λx, or Λᵀx."""
        return self._moved(x).mul_(-self.discount).add_(x)

    def _moved(self, x: torch.Tensor) -> torch.Tensor:
        """Return Px, or Pᵀx, in memory of its own."""
        P = self.operator
        return P.apply_transposed(x) if self.transposed else P.apply(x)

    def norm(self, x: torch.Tensor) -> float:
        """Return the norm in which this system's inverse is bounded."""
        space = self.operator.space
        return space.sum(x.abs()) if self.transposed else space.max(x.abs())

    @cached_property
    def inverse_bound(self) -> float:
        """An upper bound on the norm of the inverse, rounding included."""
        gap = 1.0 - self.discount * self.operator.largest_row_sum * (1.0 + 2.0 * self._rounding)
        return 1.0 / gap if gap > 0 else float("inf")

    def certify(
        self,
        x: torch.Tensor,
        b: torch.Tensor,
        *,
        num_steps: int,
        tolerance: float,
        residual: float | None = None,
    ) -> Solution:
        """Return the solution record of x: ‖x − x*‖ ≤ ‖Λ⁻¹‖ ‖b − Λx‖ (`theorem:fixedpoint`).

        The computed residual differs from the true one by rounding; what that can amount to is added.

        Args:
            x: The solution.
            b: Right-hand side.
            num_steps: Products that it took.
            tolerance: What was asked for.
            residual: ‖b − Λx‖ as computed from x itself, by those who have it.
        """
        residual = self.norm(b - self.apply(x)) if residual is None else residual
        scale = self.norm(b)
        # ‖γP|x|‖ ≤ γρ‖x‖ in the maximum norm, and so is ‖γPᵀ|x|‖ in the sum norm.
        propagated = self.discount * self.operator.largest_row_sum * (1.0 + 2.0 * self._rounding)
        rounding = self._rounding * (scale + (1.0 + propagated) * self.norm(x))
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
        unit_roundoff = torch.finfo(self.operator.dtype).eps / 2
        return 2.0 * (self.operator.terms_per_row + 8) * unit_roundoff

"""The result of a solver."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Solution:
    """A solution of Λx = b with its certificate.

    Attributes:
        value: x, shape (n,).
        num_steps: Products with P; 0 for a direct solve.
        residual: ‖b − Λx‖, in the maximum norm for Λ and the sum norm for Λᵀ.
        error_bound: A proven bound on ‖x − x*‖ in the same norm.
        converged: Whether the residual reached the requested tolerance.
    """

    value: Tensor
    num_steps: int
    residual: float
    error_bound: float
    converged: bool

"""A Kalman filter with a constant gain over all rows of a log at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg
from torch import Tensor

from nopg._typing import FloatArray

# Steps that the filter looks back.
_MEMORY = 40
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class SteadyFilter:
    """The filter of s′ = Js + w that sees y = s + v, in its steady state.

    Attributes:
        forgotten: I − K, with the gain K, shape (d, d).
        ahead: Covariance of the innovations, shape (d, d).
    """

    forgotten: FloatArray
    ahead: FloatArray

    @classmethod
    def of(cls, J: FloatArray, disturbances: FloatArray, sensors: FloatArray) -> SteadyFilter:
        """Return the filter for covariances of w and v, in units in which they are of the order of 1."""
        eye = np.eye(len(J))
        Q, R = disturbances + _ROUNDING * eye, sensors + _ROUNDING * eye
        before = linalg.solve_discrete_are(J.T, eye, Q, R)
        return cls(eye - before @ np.linalg.inv(before + R), before + R)

    def errors(self, missed: Tensor, J: Tensor, linked: Tensor) -> tuple[Tensor, Tensor]:
        """Return the errors v (n, d) that the filter finds in measurements, and its innovations (n, d).

        Args:
            missed: Residuals of the steps from measured states, shape (n, d).
            J: ∂s′/∂s, shape (d, d), or (n, d, d) for that of every step.
            linked: 1 where a row continues the one before it, else 0, shape (n,).
        """
        left, link = missed.new_tensor(self.forgotten).mT, linked[:, None]
        error = innovation = missed.new_zeros(missed.shape)
        for _ in range(_MEMORY):
            innovation = link * (missed + (J @ error[:, :, None])[:, :, 0]).roll(1, dims=0)
            error = innovation @ left
        return error, innovation

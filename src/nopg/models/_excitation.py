"""What the log tells apart: the uncertainty of slopes in directions of (s, a) that it hardly excites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from nopg._support import FirstFeatures, FitVariance
from nopg.models._regression_rows import InputSpace, RegressionRows, RowBatch

TOLERATED = 0.25
"""Variance of a prediction, in units of its target's, that counts like a distance of one radius."""

# The least noise of a target in units of its spread: no fit and no sensor is exact.
_LEAST_NOISE = 1e-3
# Standard deviation of a slope that nothing is known of, in spreads of the target per unit of the input.
_ANY_SLOPE = 10.0


@dataclass(frozen=True, eq=False)
class Excitation:
    """The design of a regression on all inputs that vary, whether or not a fit uses them.

    Actions that follow the states exactly leave a direction of (s, a) without any excitation. What the plant
    does in it cannot be seen in the log; a fit that drops an input, or a ridge, hides that from its errors.
    The excitations of two sets of rows add up.
    """

    space: InputSpace  # units and angles of the inputs
    varies: Tensor  # which inputs vary, (d,)
    degree: int  # of the polynomials, 1 or 2
    gram: Tensor  # Σ wffᵀ of the features, the constant first, (1 + q, 1 + q)
    num_rows: int  # n

    @classmethod
    def of(cls, rows: RegressionRows, degree: int = 1, inert: Tensor | None = None) -> Excitation:
        """Return the excitation of the rows of a log; nothing depends on inert inputs (d,)."""
        varies = rows.inputs.amax(dim=0) > rows.inputs.amin(dim=0)
        varies = varies if inert is None else varies & ~inert
        return cls(rows.space, varies, degree, torch.empty(0), 0).of_rows(rows)

    def of_rows(self, rows: RowBatch) -> Excitation:
        """Return the excitation of other rows, with the same features."""
        features = self.space.features(rows.inputs, self.varies, self.degree)
        return replace(self, gram=(features * rows.weights[:, None]).T @ features, num_rows=len(rows))

    def __add__(self, other: Excitation) -> Excitation:
        return replace(self, gram=self.gram + other.gram, num_rows=self.num_rows + other.num_rows)

    def scaled(self, share: float, kept: Tensor) -> Excitation:
        """Return the excitation in which every row counts for a share, whichever groups are kept."""
        return replace(self, gram=share * self.gram, num_rows=max(round(share * self.num_rows), 1))

    @cached_property
    def center(self) -> Tensor:
        """Mean of the q features, the constant left out, shape (q,)."""
        return self.gram[0, 1:] / self.gram[0, 0]

    @property
    def information(self) -> Tensor:
        """Sum of the squared features about their mean, shape (q, q); copies of rows tell nothing new."""
        about = self.gram[1:, 1:] - self.gram[0, 0] * self.center[:, None] * self.center
        return about * (self.num_rows / self.gram[0, 0])

    def uncertainty(self, noise: Tensor) -> Tensor:
        """Return the covariance (q, q) of the coefficients for noise (t,) of targets, summed over them.

        Targets are in units of their spread. A coefficient that the log does not show has a wide prior.
        """
        values, vectors = torch.linalg.eigh(self.information)
        each = 1.0 / (values.clamp(min=0.0) / noise[:, None] + 1.0 / _ANY_SLOPE**2)
        total: Tensor = (vectors * each.sum(dim=0)) @ vectors.T
        return total

    def feature_of(self, column: int) -> int:
        """Return the place of an input that varies among the features, the first of an angle's two."""
        before = self.varies[:column]
        return int(before.sum()) + int((self.space.periods[:column][before] > 0).sum())

    def at(self, inputs: Tensor, uncertainty: Tensor) -> Tensor:
        """Return the covariance (m, d, d) of slopes by the inputs in their units, at inputs (m, d)."""
        m, d = inputs.shape
        F, rates = self._first.at(inputs.T.numpy())
        R = np.zeros((d, len(F), m))  # ∂F/∂x
        R[self._first.columns, np.arange(len(F))] = rates
        if self.degree == 2:
            one, other = np.triu_indices(len(F))
            R = np.concatenate([R, R[:, one] * F[other] + F[one] * R[:, other]], axis=1)
        jacobian = torch.as_tensor(R).permute(2, 0, 1) * self.space.units[:, None]  # (m, d, q)
        return jacobian @ uncertainty @ jacobian.mT

    def variance(self, uncertainty: Tensor) -> FitVariance:
        """Return the variance of predictions anywhere, from that of the coefficients (q, q)."""
        return FitVariance(self._first, self.center.numpy(), uncertainty.numpy())

    @cached_property
    def _first(self) -> FirstFeatures:
        """Features of degree 1."""
        return self.space.first_features(self.varies)


def fit_variances(
    excitations: Mapping[int, Excitation], fits: Sequence[tuple[int, Tensor]]
) -> tuple[FitVariance, ...]:
    """Return the variance of the predictions of global fits, in units of the tolerated one, by degree.

    Fits are pairs of a degree and the noise (t,) of targets.
    """
    variances = []
    for degree in sorted({degree for degree, _ in fits}):
        noise = torch.cat([noise for one, noise in fits if one == degree])
        excitation = excitations[degree]
        variances.append(excitation.variance(excitation.uncertainty(noise) / TOLERATED))
    return tuple(variances)


def local_uncertainty(prior: Tensor, gram: Tensor, noise: Tensor) -> Tensor:
    """Return the covariance (C, d, d) of slopes from rows around centres, where they are known beforehand.

    The prior (C, d, d) is their covariance without these rows, the gram (C, d, d) Σ wκ oo' of the rows'
    offsets o from their mean, and the noise (C,) a variance.
    """
    # (V⁻¹ + S/σ²)⁻¹ = L (I + L'SL/σ²)⁻¹ L' with V = LL' needs no inverse of a singular V.
    eye = torch.eye(prior.shape[1], dtype=torch.float64)
    values, vectors = torch.linalg.eigh(prior)
    factor = vectors * values.clamp(min=0.0).sqrt()[:, None]
    inner = eye + factor.mT @ gram @ factor / noise[:, None, None]
    covariance: Tensor = factor @ torch.linalg.solve(inner, factor.mT)
    return covariance


def noise_share(deviation: Tensor, spread: Tensor) -> Tensor:
    """Return the variance of noise in units of a target's spread, at least that of the least noise."""
    share = torch.where(spread > 0, deviation / torch.where(spread > 0, spread, 1.0), 0.0)
    return share.square().clamp(min=_LEAST_NOISE**2)

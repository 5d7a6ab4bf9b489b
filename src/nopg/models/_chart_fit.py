"""Predictions of a fit of charts and their derivatives, in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from nopg._support import BLENDED, blend, embed, short_way
from nopg._typing import FloatArray, IntArray
from nopg.models._charts import Charts


class ChartFit:
    """The coefficients of charts from parts (P, G) of the groups of rows, as a function of the inputs.

    Arrays are numpy's, columns first and queries last: a step of a rollout has a few hundred points, and
    operations on them then run over contiguous memory.
    """

    def __init__(self, charts: Charts, kept: Tensor) -> None:
        everywhere, coefficients = charts.coefficients(kept)
        shape, space = charts.shape, charts.space
        self.columns, self.num_charts = charts.columns, len(charts.centers)
        self._regressors = charts.regressors.tolist()
        self._units, self._first = _array(space.units), space.first_features(shape.used)
        self._total_noise = self._noise = _array(charts.noise.T)
        # b·features = level + Σ gᵢfᵢ + Σ fᵢSᵢⱼfⱼ/2 of the first features: (t, P), (q, t, P), (P, q·t, q).
        P, _, t = everywhere.shape
        q = len(self._first)
        self._global_level = _array(everywhere[:, 0].T)
        self._global_slope = _array(everywhere[:, 1 : 1 + q].permute(1, 2, 0))
        self._global_matrix = None
        if shape.global_degree == 2:
            products = everywhere[:, 1 + q :].permute(0, 2, 1)
            matrix = _symmetric(products, q).permute(0, 2, 1, 3).reshape(P, q * t, q)
            self._global_matrix = _array(2.0 * matrix)
        if coefficients is None:
            return

        # p(o) = l + g·o + oᵀHo: level (t, P·C), slopes (d, t, P·C) and a symmetric matrix (d, d, t, P·C).
        d, C = len(self._regressors), self.num_charts
        flat = coefficients.reshape(P * C, -1, t).permute(1, 2, 0)
        self._level, self._slope = _array(flat[0]), _array(flat[1 : 1 + d])
        self._matrix = None
        if shape.degree == 2:
            self._matrix = _array(_symmetric(flat[1 + d :].permute(1, 2, 0), d).permute(2, 3, 0, 1))
        near = charts.support
        self._tree, self._centers = charts.tree, np.ascontiguousarray(near.centers.T)
        self._radius = np.square(near.radii)
        self._scale = _array((charts.scale / space.units[charts.regressors]).T)  # of raw offsets
        self._low, self._high = _array(charts.low.T), _array(charts.high.T)
        self._weight, self._periods = near.weights, near.periods
        self._unsure = np.ascontiguousarray(near.covariance.transpose(1, 2, 0))  # (d, d, C)
        self._local = shape.metric.nonzero()[:, 0].tolist()

    def subtract_sensors(self, of_sensors: FloatArray) -> None:
        """Subtract from the noise the variances (d_s,) that sensors add to residuals of state columns."""
        variance = np.zeros(len(self.columns))
        for place, column in enumerate(self.columns):
            variance[place] = of_sensors[column] if column < len(of_sensors) else 0.0
        self._noise = np.sqrt(np.maximum(np.square(self._total_noise) - variance[:, None], 0.0))

    def predict(
        self, x: FloatArray, part: IntArray | None, *, slopes: bool = True, noise: bool = True
    ) -> tuple[FloatArray, FloatArray | None]:
        """Return y (t, m), noise (t, m) if requested, and δ² (1, m) at inputs (d, m), stacked.

        The second is their derivative by the inputs, shape (·, d, m), if requested. δ² is the squared
        distance to the nearest charts in units of their radius, plus the variance that the uncertainty of
        slopes gives to the prediction in units of the tolerated one; 0 without charts.

        Weights of the charts are b/Σb with b = (1 − d²/d_last²)², d_last the distance of the next chart, so
        they are smooth where the nearest charts change.
        """
        if self.num_charts:
            out, jacobian = self._predict_charts(x, part, slopes=slopes, noise=noise)
        else:
            t, m = len(self.columns), x.shape[1]
            out = np.zeros((2 * t + 1 if noise else t + 1, m))
            jacobian = np.zeros((len(out), *x.shape)) if slopes else None
            if noise:
                out[t:-1] = self._noise
        self._add_global(x, part, out, jacobian)
        return out, jacobian

    def _predict_charts(
        self, x: FloatArray, part: IntArray | None, *, slopes: bool, noise: bool
    ) -> tuple[FloatArray, FloatArray | None]:
        """Return the same as `predict`, of the local polynomials alone."""
        C, m = self.num_charts, x.shape[1]
        k = min(BLENDED, max(C - 1, 1))
        distance, number = self._tree.query(embed(x, self._weight, self._periods).T, k=min(k + 1, C))
        near = np.ascontiguousarray(number.reshape(m, -1).T)
        D = np.ascontiguousarray(np.square(distance.reshape(m, -1)).T)
        apart = x[:, None] - _at(self._centers, near)  # (d, k + 1, m)
        short_way(np.moveaxis(apart, 0, -1), self._periods)
        own = near[:k]
        scale = _at(self._scale, own)
        offsets = apart[self._regressors, :k] * scale
        clamped = np.minimum(np.maximum(offsets, _at(self._low, own)), _at(self._high, own))

        y, slope = self._polynomials(clamped, own if part is None else own + C * part)
        t = len(y)
        values = np.empty((2 * t + 1 if noise else t + 1, *own.shape))
        radius = _at(self._radius, own)
        unsure = np.einsum("ijkm,ikm->jkm", _at(self._unsure, own), apart[:, :k])
        values[:t], values[-1] = y, D[:k] / radius + np.einsum("jkm,jkm->km", unsure, apart[:, :k])
        if noise:
            values[t:-1] = _at(self._noise, own)
        share_of, by_distance = blend(D)
        out = np.einsum("km,tkm->tm", share_of, values)
        if not slopes:
            return out, None

        rises = self._distance_slopes(apart)  # ∂d²/∂x
        jacobian = np.zeros((len(values), *x.shape))
        if by_distance is not None:
            # ∂b/∂x/Σb: Σₖ (vₖ − y)·∂bₖ/Σb is the derivative of y by the weights.
            share, factor = by_distance
            by_weight = (rises[:, :-1] - share * rises[:, -1:]) * factor
            for column in self._local:
                jacobian[:, column] = np.einsum("tkm,km->tm", values - out[:, None], by_weight[column])
        moves = np.where(offsets == clamped, scale, 0.0)
        local = np.einsum("dtkm,dkm->tdm", slope, share_of * moves)
        jacobian[:t, self._regressors] += local
        jacobian[-1] += (share_of * (rises[:, :k] / radius + 2.0 * unsure)).sum(axis=1)
        return out, jacobian

    def _polynomials(self, offsets: FloatArray, charts: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return l + g·o + oᵀHo (t, k, m) and g + 2Ho (d_r, t, k, m) at offsets o (d_r, k, m)."""
        level, slope = _at(self._level, charts), _at(self._slope, charts)
        if self._matrix is None:
            return level + np.einsum("dkm,dtkm->tkm", offsets, slope), slope
        bent = np.einsum("ikm,ijtkm->jtkm", offsets, _at(self._matrix, charts))
        return level + np.einsum("dkm,dtkm->tkm", offsets, slope + bent), slope + 2.0 * bent

    def _distance_slopes(self, apart: FloatArray) -> FloatArray:
        """Return the derivative (d, k, m) of squared distances by the inputs, from differences (d, k, m)."""
        slopes: FloatArray = (2.0 * np.square(self._weight))[:, None, None] * apart
        for column in np.flatnonzero(self._periods):
            unit = self._units[column]
            slopes[column] = 2.0 * self._weight[column] ** 2 * unit * np.sin(apart[column] / unit)
        return slopes

    def _add_global(
        self, x: FloatArray, part: IntArray | None, out: FloatArray, jacobian: FloatArray | None
    ) -> None:
        """Add the global fit, features in the order of `InputSpace.features`, in place."""
        F, rates = self._first.at(x)
        chosen: Any = slice(0, 1) if part is None else part
        level, slope = self._global_level[:, chosen], self._global_slope[:, :, chosen]
        t, straight = len(level), slope
        if self._global_matrix is not None:
            bent = self._bent(F, part)
            slope, straight = slope + bent, slope + 0.5 * bent
        out[:t] += level + (straight * F[:, None]).sum(axis=0)
        if jacobian is not None:
            self._first.add_slopes(jacobian[:t].transpose(1, 0, 2), slope * rates[:, None])

    def _bent(self, F: FloatArray, part: IntArray | None) -> FloatArray:
        """Return the slopes (q, t, m) of the products of the first features (q, m)."""
        assert self._global_matrix is not None
        shape = len(F), len(self._global_level), F.shape[1]
        if part is None:
            whole: FloatArray = (self._global_matrix[0] @ F).reshape(shape)
            return whole
        bent: FloatArray = np.empty(shape)
        for number in np.unique(part):
            some = part == number
            bent[:, :, some] = (self._global_matrix[number] @ F[:, some]).reshape(*shape[:2], -1)
        return bent


def _symmetric(products: Tensor, d: int) -> Tensor:
    """Return symmetric matrices H (…, d, d) with oᵀHo = Σ cᵢⱼoᵢoⱼ for coefficients c (…, d(d + 1)/2)."""
    one, other = torch.triu_indices(d, d)
    matrix = products.new_zeros(*products.shape[:-1], d, d)
    matrix[..., one, other] += 0.5 * products
    matrix[..., other, one] += 0.5 * products
    return matrix


def _at(values: FloatArray, numbers: IntArray) -> FloatArray:
    """Return values (…, C) at numbers (k, m), shape (…, k, m), three times as fast as by an index."""
    found: FloatArray = np.take(values, numbers, axis=-1, mode="clip")
    return found


def _array(values: Tensor) -> Any:
    return np.ascontiguousarray(values.numpy())

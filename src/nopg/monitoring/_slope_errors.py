"""Errors of predictions by slopes that the log does not show, as where actions always followed the states."""

from __future__ import annotations

import numpy as np
import torch

from nopg._typing import FloatArray
from nopg.models import LocalModel
from nopg.models._charts import Charts
from nopg.models._excitation import Excitation

__all__ = ["SlopeErrors"]


class SlopeErrors:
    """Standard deviation of each predicted column from the uncertainty of slopes.

    Parts of the log agree on a slope that none of them shows, so the spread of models of such parts does not
    tell its error.

    Args:
        model: Model of the plant.
    """

    def __init__(self, model: LocalModel) -> None:
        self._blocks: list[Charts] = model._steps.blocks  # noqa: SLF001 (no public name)
        self._spread = model.rows.spread.numpy()
        self._columns = model.num_states + 1
        self._everywhere = {
            (number, place): _of_global_fit(charts, place)
            for number, charts in enumerate(self._blocks)
            if not charts.shape.is_local
            for place in range(len(charts.columns))
        }

    def at(self, x: FloatArray) -> FloatArray:
        """Return it at inputs (d, m) for the states and the reward, shape (m, d_s + 1)."""
        variance = np.zeros((x.shape[1], self._columns))
        for number, charts in enumerate(self._blocks):
            of_charts = _at_charts(charts, x) if charts.shape.is_local else None
            for place, column in enumerate(charts.columns):
                if column >= self._columns:
                    continue
                if of_charts is not None:
                    variance[:, column] = of_charts
                else:
                    excitation, covariance = self._everywhere[number, place]
                    variance[:, column] = excitation.variance(x, covariance, slopes=False)[0]
        found: FloatArray = np.sqrt(np.maximum(variance, 0.0)) * self._spread[: self._columns]
        return found


def _of_global_fit(charts: Charts, place: int) -> tuple[Excitation, FloatArray]:
    """Return the design of a global fit and the covariance of its coefficients for one target."""
    excitation = Excitation.of(charts.rows, charts.shape.global_degree)
    return excitation, excitation.uncertainty(charts.unexplained[place : place + 1]).numpy()


def _at_charts(charts: Charts, x: FloatArray) -> FloatArray:
    """Return o'Uo (m,) at inputs (d, m), o the offset from the nearest chart, U the covariance of slopes."""
    inputs = torch.as_tensor(x.T)
    points = charts.space.embed(inputs, charts.shape.metric).numpy()
    nearest = torch.as_tensor(charts.tree.query(points)[1])
    apart = charts.space.offsets(charts.centers[nearest], inputs)
    variance = torch.einsum("mi,mij,mj->m", apart, charts.uncertainty[nearest], apart)
    return np.asarray(variance.numpy())

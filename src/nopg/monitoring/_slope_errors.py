"""Errors of predictions by slopes that the log does not show, as where actions always followed the states."""

from __future__ import annotations

import numpy as np
import torch

from nopg._support import FitVariance
from nopg._typing import FloatArray
from nopg.models import LocalModel
from nopg.models._charts import Charts
from nopg.models._excitation import Excitation, noise_share


class SlopeErrors:
    """Standard deviation of each predicted column from the uncertainty of slopes.

    Parts of the log agree on a slope that none of them shows, so the spread of models of such parts does not
    tell its error. Slopes count as known as far as a polynomial over the whole log, with the noise that the
    model leaves, would show them.

    Args:
        model: Model of the plant.
    """

    def __init__(self, model: LocalModel) -> None:
        self._spread = model.rows.spread[: model.num_states + 1].numpy()
        self._designs = {
            column: _design(charts, place)
            for charts in model.steps.blocks
            for place, column in enumerate(charts.columns)
            if column < len(self._spread)
        }

    def at(self, x: FloatArray) -> FloatArray:
        """Return it at inputs (d, m) for the states and the reward, shape (m, d_s + 1)."""
        variance = np.zeros((x.shape[1], len(self._spread)))
        for column, one in self._designs.items():
            variance[:, column] = one.at(x, slopes=False)[0]
        found: FloatArray = np.sqrt(np.maximum(variance, 0.0)) * self._spread
        return found


def _design(charts: Charts, place: int) -> FitVariance:
    """Return the variance of the regression of one target."""
    spread = charts.rows.spread[charts.columns[place]]
    if not charts.shape.is_local:
        excitation, noise = Excitation.of(charts.rows, charts.shape.global_degree), charts.unexplained[place]
    else:
        excitation = Excitation.of(charts.rows)
        noise = noise_share(charts.noise[:, place].square().mean().sqrt(), spread)
    return excitation.variance(excitation.uncertainty(torch.atleast_1d(noise)))

"""Features of degree 1 of the inputs of a fit, with their derivatives, in numpy."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from nopg._typing import FloatArray
from nopg.models._regression_rows import InputSpace

__all__ = ["FirstFeatures"]


class FirstFeatures:
    """The used inputs about their origin, in units; an angle is its cosine, then its sine.

    They are those of `InputSpace.features` without the constant, columns first and queries last.

    Args:
        space: Units and angles of the inputs.
        used: Which inputs are in use, shape (d,).

    Attributes:
        columns: The input of each feature, shape (q,).
    """

    def __init__(self, space: InputSpace, used: Tensor) -> None:
        periodic = space.periods > 0
        columns = [k for k in used.nonzero()[:, 0].tolist() for _ in range(2 if periodic[k] else 1)]
        self.columns = np.array(columns, dtype=np.int64)
        sine = np.diff(self.columns, prepend=-1) == 0
        self._first, self._sines = np.flatnonzero(~sine), np.flatnonzero(sine)
        self._origin = space.origin.numpy()[self.columns, None]
        self._units = space.units.numpy()[self.columns, None]

    def __len__(self) -> int:
        return len(self.columns)

    def at(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return features (q, m) at inputs (d, m), and their derivatives, (q, 1) if these are constant."""
        F: FloatArray = (x[self.columns] - self._origin) / self._units
        rates: FloatArray = 1.0 / self._units
        if len(self._sines):
            sines, cosines = self._sines, self._sines - 1
            cos, sin = np.cos(F[cosines]), np.sin(F[cosines])
            rates = np.repeat(rates, x.shape[1], axis=1)
            rates[cosines] *= -sin
            rates[sines] *= cos
            F[cosines], F[sines] = cos, sin
        return F, rates

    def add_slopes(self, by_input: FloatArray, by_feature: FloatArray) -> None:
        """Add to derivatives by the inputs (d, …), in place, those by features (q, …) times their rates."""
        by_input[self.columns[self._first]] += by_feature[self._first]
        if len(self._sines):
            by_input[self.columns[self._sines]] += by_feature[self._sines]

"""Features of degree 1 of the inputs of a fit, with their derivatives, in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]
Floats = npt.NDArray[np.floating[Any]]


class FirstFeatures:
    """The used inputs about their origin, in units; an angle is its cosine, then its sine.

    They are those of `InputSpace.features` without the constant, columns first and queries last.

    Args:
        columns: The input of each feature in rising order, an angle twice, shape (q,).
        origin: Of the input of each feature, 0 of an angle, shape (q,).
        units: Of the input of each feature, of an angle one radian, shape (q,).

    Attributes:
        columns: As given.
        origin: As given, shape (q, 1).
        units: As given, shape (q, 1).
        sines: The features that are sines; each follows its cosine.
    """

    def __init__(self, columns: npt.NDArray[np.int64], origin: Numbers, units: Numbers) -> None:
        self.columns, self.origin, self.units = columns, origin[:, None], units[:, None]
        sine = np.diff(self.columns, prepend=-1) == 0
        self._first, self.sines = np.flatnonzero(~sine), np.flatnonzero(sine)

    def __len__(self) -> int:
        return len(self.columns)

    def at(self, x: Floats) -> tuple[Numbers, Numbers]:
        """Return features (q, m) at inputs (d, m), and their derivatives, (q, 1) if these are constant."""
        F: Numbers = (x[self.columns] - self.origin) / self.units
        rates: Numbers = 1.0 / self.units
        if len(self.sines):
            sines, cosines = self.sines, self.sines - 1
            cos, sin = np.cos(F[cosines]), np.sin(F[cosines])
            rates = np.repeat(rates, x.shape[1], axis=1)
            rates[cosines] *= -sin
            rates[sines] *= cos
            F[cosines], F[sines] = cos, sin
        return F, rates

    def add_slopes(self, by_input: Floats, by_feature: Floats) -> None:
        """Add to derivatives by the inputs (d, …), in place, those by features (q, …) times their rates."""
        by_input[self.columns[self._first]] += by_feature[self._first]
        if len(self.sines):
            by_input[self.columns[self.sines]] += by_feature[self.sines]

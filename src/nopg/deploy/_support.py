"""The support of the data at a state, in numpy."""

from __future__ import annotations

import numpy as np

from nopg.bundles._controller import SavedSupport
from nopg.deploy._encoding import Numbers

__all__ = ["RuntimeSupport"]

# Largest number of differences in memory.
_MOST_AT_ONCE = 1 << 20


class RuntimeSupport:
    """S(z) = Σⱼ wⱼ exp(−½‖(z − zⱼ)/h‖²), and β/(β + S)."""

    def __init__(self, saved: SavedSupport) -> None:
        self._prior_mass, self._width, self._weights = saved.prior_mass, saved.width, saved.weights
        self._places = np.ascontiguousarray((saved.places / saved.width).T)  # (d_f, r)

    def mass(self, features: Numbers) -> Numbers:
        """Return S (m,) at state features (m, d_f)."""
        rows = max(1, _MOST_AT_ONCE // self._places.size)
        if len(features) <= rows:
            return self._mass(features)
        parts = [self._mass(features[start : start + rows]) for start in range(0, len(features), rows)]
        return np.concatenate(parts)

    def unknown(self, mass: Numbers) -> Numbers:
        """Return the unknown share β/(β + S) of supports S, in their shape."""
        return np.divide(self._prior_mass, self._prior_mass + mass)

    def _mass(self, features: Numbers) -> Numbers:
        # An overflow is an infinite distance, which gives the right support of 0.
        with np.errstate(over="ignore"):
            differences = (features / self._width)[:, :, None] - self._places  # (m, d_f, r)
            squares = np.multiply(differences, differences, out=differences).sum(axis=1)
        mass: Numbers = np.exp(np.multiply(squares, -0.5, out=squares), out=squares) @ self._weights
        return mass

"""Plants whose actions arrive some samples late, with the earlier actions as columns of the state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from studies.calibration.plants.laws import Array
from studies.calibration.plants.plant import Plant

__all__ = ["DelayedPlant"]


@dataclass(frozen=True, kw_only=True, eq=False)
class DelayedPlant(Plant):
    """A plant with one action; the last `delay` columns of its state are that of 1, 2, … samples ago.

    Attributes:
        delay: Samples between asking for an action and its effect. `rates` sees the other states and the
            action that has arrived.
    """

    delay: int

    def step(self, states: Array, actions: Array) -> Array:
        """Return true states (m, d_s) one time step later, without noise and limits."""
        own, earlier = states[:, : -self.delay], states[:, -self.delay :]
        moved = super().step(own, earlier[:, -1:])
        return np.concatenate([moved, actions, earlier[:, :-1]], axis=1)

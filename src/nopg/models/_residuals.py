"""Residuals of one-step predictions that are not the noise of a plant: noise of sensors, and rare jumps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from nopg.data import Transitions
from nopg.models._regression_rows import difference

__all__ = ["ResidualCheck"]

_ROWS = 4_000

# Correlation of successive residuals below which most of a column's noise is that of its sensor. Noise v of a
# sensor is in two residuals, v′ − v; alone it would give −½.
_SENSOR = -0.2
# A residual is a jump beyond this many standard deviations; normal noise has 3 in 10⁷ there.
_JUMP, _MANY_JUMPS = 5.0, 5e-3
# Noise below this share of a column's variance has no effect on returns.
_SMALL_NOISE = 1e-2
_FEWEST_PAIRS = 30


class _Step(Protocol):
    @property
    def displacement(self) -> Tensor: ...

    @property
    def noise(self) -> Tensor: ...


Predict = Callable[[Tensor, Tensor], _Step]


@dataclass(frozen=True, slots=True)
class ResidualCheck:
    """State columns whose residuals are not independent normal noise.

    Attributes:
        sensors: Columns with noisy sensors. A rollout takes their noise for a disturbance of the plant, and
            slopes by them are too small.
        jumps: Columns with rare large residuals, such as impacts. A rollout spreads them over places where
            none occur.
    """

    sensors: tuple[str, ...]
    jumps: tuple[str, ...]

    @classmethod
    def of(cls, data: Transitions, predict: Predict, spread: Tensor) -> ResidualCheck:
        """Return the check of the first rows of a log.

        Args:
            data: The log.
            predict: Returns the prediction of a step at states (m, d_s) and actions (m, d_a).
            spread: Standard deviation of each column's step, shape (d_s,).
        """
        first = data.take(torch.arange(min(len(data), _ROWS)))
        found = predict(first.states, first.actions)
        residuals = difference(first.schema, first.states, first.next_states) - found.displacement
        noise = found.noise.clamp(min=1e-300)
        visible = residuals.square().mean(dim=0) > _SMALL_NOISE * spread.square()
        jumps = (residuals.abs() > _JUMP * noise).double().mean(dim=0) > _MANY_JUMPS

        follows = (first.next_states[:-1] == first.states[1:]).all(dim=1)
        limited = residuals.clamp(min=-3 * noise, max=3 * noise)
        one, other = limited[:-1][follows], limited[1:][follows]
        size = (one.square().sum(dim=0) * other.square().sum(dim=0)).sqrt().clamp(min=1e-300)
        sensors = (one * other).sum(dim=0) / size < _SENSOR
        if len(one) < _FEWEST_PAIRS:
            sensors = torch.zeros_like(sensors)
        return cls(*(_named(first, yes & visible) for yes in (sensors, jumps)))


def _named(data: Transitions, some: Tensor) -> tuple[str, ...]:
    return tuple(data.schema.states[column] for column in some.nonzero()[:, 0].tolist())

"""Support of the initial states in the data, checked before training."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nopg.data import Schema, Transitions
from nopg.kernels import GaussianKernel
from nopg.models._state_support import StateSupport

__all__ = ["StartSupport", "start_support"]

_SHOWN = 3


@dataclass(frozen=True, slots=True, repr=False)
class StartSupport:
    """The initial states and how far the data speak for them.

    Attributes:
        schema: Names of the columns.
        states: Raw initial states, shape (n₀, d_s).
        support: Effective sample size at each, shape (n₀,).
        unknown: The share of each that the data cannot account for by the rule for β, shape (n₀,).
        nearest: The logged state nearest to each, shape (n₀, d_s).
    """

    schema: Schema
    states: torch.Tensor
    support: torch.Tensor
    unknown: torch.Tensor
    nearest: torch.Tensor

    @property
    def outside(self) -> torch.Tensor:
        """Which initial states lie outside the data, shape (n₀,)."""
        return self.unknown > 0.5

    def warning(self) -> str | None:
        """Return what to tell the user, or None if every start is inside the data."""
        count = int(self.outside.sum())
        if count == 0:
            return None
        shown = [
            f"at ({self._named(self.states[row])}) {_amount(float(self.support[row]))}, "
            f"the nearest logged state is ({self._named(self._turned(row))})"
            for row in self.outside.nonzero()[:_SHOWN, 0].tolist()
        ]
        who = f"{count} of {len(self.states)} initial states {'lies' if count == 1 else 'lie'}"
        if len(self.states) == 1:
            who = "the initial state lies"
        return (
            f"{who} outside the data: {'; '.join(shown)}{'; …' if count > _SHOWN else ''}. What is predicted "
            "from there is a guess. Log transitions that pass close by, with varied actions, or start where "
            "data are (initial_states=…)"
        )

    def __repr__(self) -> str:
        outside = int(self.outside.sum())
        return f"StartSupport({len(self.states)} initial states, {outside} outside the data)"

    def _turned(self, row: int) -> torch.Tensor:
        """Return the nearest logged state with its angles on the turn of the initial state."""
        nearest = self.nearest[row].clone()
        for column, name in enumerate(self.schema.states):
            if name in self.schema.angles:
                period = self.schema.angles[name]
                nearest[column] += period * torch.round((self.states[row, column] - nearest[column]) / period)
        return nearest

    def _named(self, state: torch.Tensor) -> str:
        pairs = zip(self.schema.measured, state.tolist(), strict=False)  # derived columns follow from these
        return ", ".join(f"{name} = {value:.3g}" for name, value in pairs)


def _amount(support: float) -> str:
    return f"the effective sample size is {support:.1g}" if support > 1e-6 else "there are no data"


def start_support(data: Transitions, starts: torch.Tensor, metric: GaussianKernel) -> StartSupport:
    """Return the support of raw initial states (n₀, d_s), by the rule for β of `StateSupport`."""
    support, features = StateSupport(data, metric), data.schema.encode(starts)
    _, unknown = support.split(features, support.prior_mass(data))
    return StartSupport(
        data.schema, starts, support.log_mass(features).exp(), unknown, support.nearest(features)
    )

"""The bandwidths of the three Gaussian kernels of the paper, as one value (`definition:npbe`)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nopg._typing import ArrayLike, as_tensor
from nopg.data import Schema
from nopg.errors import ArgumentError


@dataclass(frozen=True, slots=True, eq=False)
class Bandwidths:
    """h_ψ on states, h_φ on actions, h_ϕ on next states: k(x, y) = exp(−½ Σ (xₖ − yₖ)²/hₖ²), of peak 1.

    Attributes:
        states: One number per state feature (an angle has two features), shape (d_f,).
        actions: One number per action column, shape (d_a,).
        next_states: One number per state feature; used only where next states are drawn from ϕ.
        source: How these numbers were found, for reports.

    Example:
        >>> Bandwidths.from_values([0.2, 0.2, 0.5], [2.0])
        Bandwidths(states=[0.2, 0.2, 0.5], actions=[2], next_states=[0.2, 0.2, 0.5], source='set by hand')
    """

    states: torch.Tensor
    actions: torch.Tensor
    next_states: torch.Tensor
    source: str = "set by hand"

    @classmethod
    def from_values(
        cls,
        states: ArrayLike,
        actions: ArrayLike,
        next_states: ArrayLike | None = None,
        *,
        source: str = "set by hand",
    ) -> Bandwidths:
        """Return bandwidths from plain numbers; next states take those of the states if not given."""
        h_psi = torch.atleast_1d(as_tensor(states))
        h_phi = h_psi if next_states is None else torch.atleast_1d(as_tensor(next_states))
        return cls(h_psi, torch.atleast_1d(as_tensor(actions)), h_phi, source)

    def __post_init__(self) -> None:
        for h in (self.states, self.actions, self.next_states):
            if h.ndim != 1 or not bool((h.isfinite() & (h > 0)).all()):
                raise ArgumentError(f"bandwidth is {h.tolist()}; give one positive, finite number per column")

    def __repr__(self) -> str:
        def show(h: torch.Tensor) -> str:
            return "[" + ", ".join(f"{value:.4g}" for value in h.tolist()) + "]"

        return (
            f"Bandwidths(states={show(self.states)}, actions={show(self.actions)}, "
            f"next_states={show(self.next_states)}, source={self.source!r})"
        )

    def check_columns(self, schema: Schema) -> None:
        """Raise unless there is one bandwidth for each feature and action of the schema."""
        for name, h, columns in (
            ("states", self.states, schema.features),
            ("actions", self.actions, schema.actions),
            ("next_states", self.next_states, schema.features),
        ):
            if len(h) != len(columns):
                raise ArgumentError(
                    f"bandwidths.{name} has {len(h)} numbers, the data have {len(columns)} columns there: "
                    f"{list(columns)}; give one each"
                )

"""The settings of the paper's model, the bandwidths of its kernels among them (`definition:npbe`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

from nopg._files import fingerprint
from nopg._typing import ArrayLike, as_tensor
from nopg.bundles._fields import Fields
from nopg.data import Schema
from nopg.errors import ArgumentError
from nopg.models._local_model import ModelConfig

# The most draws per next state.
_MOST_DRAWS = 1_000
_WIDTHS = ("states", "actions", "next_states")


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

    def to_dict(self) -> dict[str, object]:
        """Return plain values for a file."""
        return {name: getattr(self, name).tolist() for name in _WIDTHS} | {"source": self.source}

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


@dataclass(frozen=True, slots=True)
class PaperModelConfig(ModelConfig):
    """Settings of the paper's model.

    Attributes:
        bandwidths: Of the kernels; selected from the data by default.
        prior_mass: β. A query that fewer than β samples support is mostly unknown. The default counts next to
            nothing within the data, and keeps a policy from where the data have less than a thousandth of a
            row; 0 in the paper.
        num_samples: N_ϕ, the draws for each next state; 1 in the paper.
        unknown_value: v, the value of leaving the data; the worst reward for ever by default.
    """

    bandwidths: Bandwidths | None = None
    prior_mass: float = 1e-3
    num_samples: int = 1
    unknown_value: float | None = None

    name: ClassVar[str] = "paper"
    has_rollouts: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.prior_mass) and self.prior_mass >= 0):
            raise ArgumentError(
                f"prior_mass is {self.prior_mass}; give 0 (the paper) or a positive number, e.g. 1e-3"
            )
        if not 1 <= self.num_samples <= _MOST_DRAWS:
            raise ArgumentError(f"num_samples is {self.num_samples}; give 1 (the paper) to {_MOST_DRAWS}")

    def identity(self) -> dict[str, object]:
        """Return the settings that the numbers of a training depend on."""
        names, h = ("prior_mass", "num_samples", "unknown_value"), self.bandwidths
        widths = None if h is None else fingerprint((h.states, h.actions, h.next_states))
        return {"bandwidths": widths, "model": self.name, **{name: getattr(self, name) for name in names}}

    @classmethod
    def from_settings(cls, settings: Fields) -> PaperModelConfig:
        """Return the config that a file has."""
        h = settings.object("bandwidths")
        return cls(
            bandwidths=Bandwidths.from_values(
                *(list(h.sequence(name)) for name in _WIDTHS), source=h.text("source")
            ),
            prior_mass=settings.number("prior_mass"),
            num_samples=settings.integer("num_samples", least=1),
            unknown_value=settings.number("unknown_value"),
        )

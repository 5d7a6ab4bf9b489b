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


@dataclass(frozen=True, slots=True, eq=False)
class Bandwidths:
    """h_ψ on states, h_φ on actions: k(x, y) = exp(−½ Σ (xₖ − yₖ)²/hₖ²), of peak 1.

    Attributes:
        states: One number per state feature (an angle has two features), shape (d_f,).
        actions: One number per action column, shape (d_a,).
        source: How these numbers were found, for reports.

    Example:
        >>> Bandwidths.from_values([0.2, 0.2, 0.5], [2.0]).actions
        tensor([2.], dtype=torch.float64)
    """

    states: torch.Tensor
    actions: torch.Tensor
    source: str = "set by hand"

    @classmethod
    def from_values(cls, states: ArrayLike, actions: ArrayLike, *, source: str = "set by hand") -> Bandwidths:
        """Return bandwidths from plain numbers."""
        return cls(torch.atleast_1d(as_tensor(states)), torch.atleast_1d(as_tensor(actions)), source)

    def __post_init__(self) -> None:
        for h in (self.states, self.actions):
            if h.ndim != 1 or not bool((h.isfinite() & (h > 0)).all()):
                raise ArgumentError(f"bandwidth is {h.tolist()}; give one positive, finite number per column")

    def to_dict(self) -> dict[str, object]:
        """Return plain values for a file."""
        return {"states": self.states.tolist(), "actions": self.actions.tolist(), "source": self.source}

    def check_columns(self, schema: Schema) -> None:
        """Raise unless there is one bandwidth for each feature and action of the schema."""
        for name, columns in (("states", schema.features), ("actions", schema.actions)):
            h = getattr(self, name)
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
        unknown_value: v, the value of leaving the data; the worst reward for ever by default.
    """

    bandwidths: Bandwidths | None = None
    prior_mass: float = 1e-3
    unknown_value: float | None = None

    name: ClassVar[str] = "paper"
    has_rollouts: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.prior_mass) and self.prior_mass >= 0):
            raise ArgumentError(
                f"prior_mass is {self.prior_mass}; give 0 (the paper) or a positive number, e.g. 1e-3"
            )

    def identity(self) -> dict[str, object]:
        """Return the settings that the numbers of a training depend on."""
        h, own = self.bandwidths, {"prior_mass": self.prior_mass, "unknown_value": self.unknown_value}
        return {"bandwidths": h and fingerprint((h.states, h.actions)), "model": self.name, **own}

    @classmethod
    def from_settings(cls, settings: Fields) -> PaperModelConfig:
        """Return the config that a file has."""
        h = settings.object("bandwidths")
        return cls(
            bandwidths=Bandwidths.from_values(
                list(h.sequence("states")), list(h.sequence("actions")), source=h.text("source")
            ),
            prior_mass=settings.number("prior_mass"),
            unknown_value=settings.number("unknown_value"),
        )

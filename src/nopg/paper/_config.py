"""The settings of the paper's model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from nopg._provenance import fingerprint
from nopg.errors import ArgumentError
from nopg.models._config import ModelConfig
from nopg.paper._bandwidths import Bandwidths

# The most draws per next state.
_MOST_DRAWS = 1_000


@dataclass(frozen=True, slots=True)
class PaperModelConfig(ModelConfig):
    """Settings of the paper's model.

    Attributes:
        bandwidths: Of the kernels; selected from the data by default.
        prior_mass: β. A query that fewer than β samples support is mostly unknown: negligible within the data
            by default, 0 in the paper.
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
        check_prior_mass(self.prior_mass)
        if not 1 <= self.num_samples <= _MOST_DRAWS:
            raise ArgumentError(f"num_samples is {self.num_samples}; give 1 (the paper) to {_MOST_DRAWS}")

    def identity(self) -> dict[str, object]:
        """Return the settings that the numbers of a training depend on."""
        names, h = ("prior_mass", "num_samples", "unknown_value"), self.bandwidths
        widths = None if h is None else fingerprint((h.states, h.actions, h.next_states))
        return {"bandwidths": widths, "model": self.name, **{name: getattr(self, name) for name in names}}


def check_prior_mass(prior_mass: float) -> float:
    """Return β if it is finite and not negative, else raise."""
    if not (math.isfinite(prior_mass) and prior_mass >= 0):
        raise ArgumentError(f"prior_mass is {prior_mass}; give 0 (the paper) or a positive number, e.g. 1e-3")
    return prior_mass

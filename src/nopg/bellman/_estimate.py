"""The one interface of all gradient estimators."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch

from nopg._checks import squarable_unit
from nopg.policies import Policy


@dataclass(frozen=True, slots=True)
class GradientEstimate:
    """A direction of ascent and what the estimator thinks of the policy.

    Attributes:
        direction: ∂Ĵ/∂θ, one tensor per trainable parameter of the policy, in their order.
        expected_return: Ĵ.
        diagnostics: Named numbers for reports, such as the unknown mass and the steps of the solver.
    """

    direction: tuple[torch.Tensor, ...]
    expected_return: float
    diagnostics: Mapping[str, float]

    @property
    def norm(self) -> float:
        """Euclidean norm of the direction."""
        unit = squarable_unit(
            max((float(part.abs().max()) for part in self.direction if part.numel()), default=0.0)
        )
        return unit * math.sqrt(sum(float((part / unit).square().sum()) for part in self.direction))


class GradientEstimator(Protocol):
    """Anything that can say how to change a policy."""

    def estimate(self, policy: Policy, *, rng: torch.Generator) -> GradientEstimate:
        """Return the gradient at this policy; all randomness comes from the generator."""
        ...

"""The one interface of all gradient estimators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch

from nopg.policies import Policy

__all__ = ["GradientEstimate", "GradientEstimator"]


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
        return float(torch.sqrt(sum((part.square().sum() for part in self.direction), torch.zeros(()))))


class GradientEstimator(Protocol):
    """Anything that can say how to change a policy."""

    def estimate(self, policy: Policy, *, rng: torch.Generator) -> GradientEstimate:
        """Return the gradient at this policy; all randomness comes from the generator."""
        ...

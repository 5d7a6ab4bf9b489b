"""A controller as one module of torch: raw observations in; actions, support and unknown share out."""

from __future__ import annotations

import copy
import math
from typing import Literal, cast

import numpy as np
import numpy.typing as npt
import torch

from nopg.deploy._limits import action_limits
from nopg.policies import GaussianMLPPolicy, GaussianPolicy, MLPPolicy, Policy
from nopg.training import TrainingResult

__all__ = ["INPUT", "OUTPUTS", "ControllerGraph", "Dtype"]

INPUT, OUTPUTS = "observation", ("action", "support", "unknown")
"""The names of the tensors."""

Dtype = Literal["float64", "float32"]
Numbers = npt.NDArray[np.float64]


class ControllerGraph(torch.nn.Module):
    """What is exported: angles embedded, the policy asked, its actions clipped, the support summed.

    A row with a number that is not finite gets the action NaN, support 0 and unknown share 1: a fault is
    seen by whoever looks at any of the three.

    All numbers are buffers: the exporter of torch rounds a Python number in a formula to float32, whatever
    the type of the tensors beside it.

    Args:
        result: The controller and the support of its data.
        dtype: Of all numbers in it.

    Attributes:
        limits: The lowest and highest of every action as they are in the graph, in float64, both (d_a,).
    """

    sources: torch.Tensor
    angular: torch.Tensor
    turns: torch.Tensor
    phases: torch.Tensor
    low: torch.Tensor
    high: torch.Tensor
    width: torch.Tensor
    places: torch.Tensor
    minus_half: torch.Tensor
    weights: torch.Tensor
    prior_mass: torch.Tensor
    nothing: torch.Tensor
    not_a_number: torch.Tensor

    def __init__(self, result: TrainingResult, dtype: Dtype) -> None:
        super().__init__()
        schema, support, kind = result.policy.schema, result.condensed_support, getattr(torch, dtype)
        self.policy = copy.deepcopy(result.policy.policy).cpu().to(kind).requires_grad_(False)
        low, high = action_limits(schema, policy_reach(result.policy.policy))
        self.limits = _inward(low, high, np.dtype(dtype))

        # Of the two features of an angle the cosine comes first.
        columns = schema.feature_columns
        periods = [schema.angles.get(schema.states[k], math.inf) for k in columns]
        self.register_buffer("sources", torch.tensor(columns))
        self.register_buffer("angular", torch.tensor([math.isfinite(period) for period in periods]))

        buffers = {
            "turns": [2 * math.pi / period for period in periods],
            "phases": [math.pi / 2 if columns.index(k) == at else 0.0 for at, k in enumerate(columns)],
            "low": self.limits[0],
            "high": self.limits[1],
            "width": support.width,
            "places": (support.places / support.width).T.contiguous(),  # (d_f, r)
            "minus_half": np.full((1, len(schema.features)), -0.5),
            "weights": support.weights,
            "prior_mass": support.prior_mass,
            "nothing": 0.0,
            "not_a_number": math.nan,
        }
        for name, values in buffers.items():
            self.register_buffer(name, torch.as_tensor(values, dtype=torch.float64).to(kind))

    def forward(self, observation: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return actions (m, d_a), support (m,) and unknown share (m,) at raw observations (m, d_s)."""
        features = self._features(observation)
        finite = features.isfinite().all(dim=1)

        actions = torch.minimum(torch.maximum(self.policy.mode(features), self.low), self.high)
        actions = torch.where(finite[:, None], actions, self.not_a_number)

        # Differences, not products: in float32 the squares of large features leave nothing of a distance.
        differences = (features / self.width)[:, :, None] - self.places  # (m, d_f, r)
        exponents = self.minus_half @ (differences * differences)  # (m, 1, r)
        mass = torch.where(finite, exponents.squeeze(1).exp() @ self.weights, self.nothing)
        return actions, mass, self.prior_mass / (self.prior_mass + mass)

    def _features(self, observation: torch.Tensor) -> torch.Tensor:
        """Return the features of `Schema.encode`, cosines as sines: older runtimes lack Cos in float64."""
        raw = observation[:, self.sources]
        return torch.where(self.angular, (raw * self.turns + self.phases).sin(), raw)


def policy_reach(policy: Policy) -> tuple[Numbers, Numbers] | None:
    """Return the lowest and highest action (d_a,) that a policy can apply; None if there are no such."""
    applied = policy.mean if isinstance(policy, GaussianPolicy) else policy
    if not isinstance(applied, (MLPPolicy, GaussianMLPPolicy)):
        return None
    actions = applied.action_range
    center, radius = (part.cpu().double().numpy() for part in (actions.center, actions.radius))
    return center - radius, center + radius


def _inward(low: Numbers, high: Numbers, dtype: np.dtype[np.floating]) -> tuple[Numbers, Numbers]:
    """Return the limits as numbers of a type, none of which lies beyond the limit it stands for."""
    lowest, highest = low.astype(dtype), high.astype(dtype)
    lowest = np.where(lowest < low, np.nextafter(lowest, dtype.type(np.inf)), lowest)
    highest = np.where(highest > high, np.nextafter(highest, dtype.type(-np.inf)), highest)
    return cast(Numbers, lowest.astype(np.float64)), cast(Numbers, highest.astype(np.float64))

"""A controller as a torch module: raw observations in; actions and unknown share out."""

from __future__ import annotations

import copy
import math
from typing import Literal, cast

import numpy as np
import torch

from nopg.deploy._encoding import Numbers, action_limits, feature_map, wider_range
from nopg.deploy._support_graph import SupportGraph
from nopg.policies import (
    DeviationPolicy,
    FormulaPolicy,
    GaussianMLPPolicy,
    GaussianPolicy,
    MLPPolicy,
    Policy,
    QuantizedPolicy,
)
from nopg.training import TrainingResult

INPUT, OUTPUTS = "observation", ("action", "unknown")
"""The names of the tensors."""

Dtype = Literal["float64", "float32"]


class ControllerGraph(torch.nn.Module):
    """The exported graph: embedded angles, the policy, clipped actions, their unknown share.

    A row with a number that is not finite gives the action NaN and unknown share 1, so that each output shows
    the fault.

    All constants are buffers: the exporter of torch rounds a Python number in a formula to float32, whatever
    the dtype of the tensors.

    Args:
        result: The controller and where its data are.
        dtype: Of all numbers.

    Attributes:
        limits: The lowest and highest value of every action in the graph, in float64, both (d_a,).
        inputs: Number of columns of every input, by name.
        outputs: Names of the outputs.
    """

    sources: torch.Tensor
    angular: torch.Tensor
    turns: torch.Tensor
    phases: torch.Tensor
    periods: torch.Tensor
    low: torch.Tensor
    high: torch.Tensor
    nothing: torch.Tensor
    one: torch.Tensor
    not_a_number: torch.Tensor

    outputs = OUTPUTS

    def __init__(self, result: TrainingResult, dtype: Dtype) -> None:
        super().__init__()
        schema, kind = result.policy.schema, getattr(torch, dtype)
        self.support = SupportGraph(result.support, kind)
        self.policy = copy.deepcopy(result.policy.policy).cpu().to(kind).requires_grad_(False)
        low, high = action_limits(schema, policy_range(result.policy.policy))
        self.limits = _inward(low, high, np.dtype(dtype))
        self.inputs = {INPUT: len(schema.states)}
        self.columns = {name: (k, name in schema.angles) for k, name in enumerate(schema.states)}

        features = feature_map(schema)
        self.register_buffer("sources", torch.tensor(features.sources))
        self.register_buffer("angular", torch.tensor(features.angular))
        buffers = {
            "turns": features.turns,
            "phases": features.phases,
            "periods": [schema.angles.get(name, 1.0) for name in schema.states],
            "low": self.limits[0],
            "high": self.limits[1],
            "nothing": 0.0,
            "one": 1.0,
            "not_a_number": math.nan,
        }
        for name, values in buffers.items():
            self.register_buffer(name, torch.as_tensor(values, dtype=torch.float64).to(kind))

    def forward(self, observation: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return actions (m, d_a) and unknown share (m,) at raw observations (m, d_s)."""
        features = self._features(observation)
        asked = self._asked(self.policy, observation, features)
        finite = features.isfinite().all(dim=1) & asked.isfinite().all(dim=1)
        actions = torch.minimum(torch.maximum(asked, self.low), self.high)
        actions = torch.where(finite[:, None], actions, self.not_a_number)
        inputs = torch.cat([observation, actions], dim=1)
        unknown = self.support(torch.where(finite[:, None], inputs, self.nothing))
        return actions, torch.where(finite, unknown, self.one)

    def _asked(self, policy: Policy, observation: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        """Return the actions of a policy; formulas take raw columns: onnxruntime lacks Atan in float64."""
        if isinstance(policy, DeviationPolicy):
            base, wanted = (self._asked(part, observation, features) for part in (policy.base, policy.policy))
            return policy.between(base, wanted)
        if not isinstance(policy, FormulaPolicy):
            return policy.mode(features)
        turned = observation - self.periods * (observation / self.periods).round()
        return policy.at_states(
            {name: (turned if angle else observation)[:, k] for name, (k, angle) in self.columns.items()}
        )

    def _features(self, observation: torch.Tensor) -> torch.Tensor:
        """Return the features of `Schema.encode`, cosines as sines: older runtimes lack Cos in float64."""
        raw = observation[:, self.sources]
        return torch.where(self.angular, (raw * self.turns + self.phases).sin(), raw)


def policy_range(policy: Policy) -> tuple[Numbers, Numbers] | None:
    """Return the lowest and highest action (d_a,) of a policy; None if it has no bounds."""
    applied = policy.mean if isinstance(policy, GaussianPolicy) else policy
    if isinstance(applied, QuantizedPolicy):
        applied = applied.policy
    if isinstance(applied, DeviationPolicy):
        return wider_range(policy_range(applied.base), policy_range(applied.policy))
    if isinstance(applied, FormulaPolicy):
        return applied.low.double().numpy(), applied.high.double().numpy()
    if not isinstance(applied, (MLPPolicy, GaussianMLPPolicy)):
        return None
    actions = applied.action_range
    center, radius = (part.cpu().double().numpy() for part in (actions.center, actions.radius))
    return center - radius, center + radius


def _inward(low: Numbers, high: Numbers, dtype: np.dtype[np.floating]) -> tuple[Numbers, Numbers]:
    """Return the limits rounded inward to a dtype."""
    lowest, highest = low.astype(dtype), high.astype(dtype)
    lowest = np.where(lowest < low, np.nextafter(lowest, dtype.type(np.inf)), lowest)
    highest = np.where(highest > high, np.nextafter(highest, dtype.type(-np.inf)), highest)
    return cast(Numbers, lowest.astype(np.float64)), cast(Numbers, highest.astype(np.float64))

"""Anything that acts, as a policy of the data."""

from __future__ import annotations

import math
from typing import Any

import torch

from nopg._typing import as_tensor
from nopg.data import Schema
from nopg.envs import ControlLaw
from nopg.errors import ArgumentError
from nopg.evaluation._control_law import control_law
from nopg.policies import Deterministic

__all__ = ["PolicyLaw"]


class PolicyLaw(Deterministic):
    """A control law where an equation asks for a policy.

    What it asks for beyond the bounds that the schema declares for an action is cut off there, as the plant
    will do.

    Args:
        law: From raw states (m, d_s) to actions (m, d_a).
        schema: Of the data.
    """

    def __init__(self, law: ControlLaw, schema: Schema) -> None:
        super().__init__()
        self.law, self.schema, self.num_actions = law, schema, len(schema.actions)
        bounds = [schema.bounds.get(name, (-math.inf, math.inf)) for name in schema.actions]
        self._low, self._high = torch.tensor(bounds, dtype=torch.float64).T

    @classmethod
    def of(cls, policy: Any, schema: Schema) -> PolicyLaw:
        """Return anything that acts as a policy of the data; see `control_law`."""
        return cls(control_law(policy, schema), schema)

    def mode(self, features: torch.Tensor) -> torch.Tensor:
        """Return the actions at features (m, d_f)."""
        with torch.no_grad():
            actions = as_tensor(self.law(self.schema.decode(features.double())))
        if actions.shape != (len(features), self.num_actions):
            raise ArgumentError(
                f"the policy returned actions of shape {tuple(actions.shape)} for {len(features)} states; it "
                f"must return {self.num_actions} numbers for each"
            )
        return actions.clamp(self._low, self._high).to(features.dtype)

"""Any controller as a function of raw states, or as a policy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from nopg._typing import as_tensor
from nopg.data import Schema
from nopg.envs import ControlLaw
from nopg.errors import ArgumentError
from nopg.policies import Deterministic, Policy
from nopg.policies._deterministic import nearest_levels, padded_levels


def control_law(policy: Any, schema: Schema) -> ControlLaw:
    """Return a controller as a function from raw states (m, d_s) to actions (m, d_a), without exploration.

    Args:
        policy: A policy, a model of Stable-Baselines3 or of d3rlpy, or any function of raw states. A model of
            another library gets raw states or features, by its number of inputs.
        schema: Names of the columns, and which of them are angles.
    """
    if isinstance(policy, Policy):
        return lambda states: policy.mode(schema.encode(states)).detach()
    if hasattr(policy, "predict") and (
        hasattr(policy, "observation_space") or hasattr(policy, "observation_shape")
    ):
        return _law_of_model(policy, schema)
    if not callable(policy):
        raise ArgumentError(
            f"{type(policy).__name__} cannot act; give a policy, a model of Stable-Baselines3 or d3rlpy that "
            "has been built, or a function from states (m, d_s) to actions (m, d_a)"
        )
    law: ControlLaw = policy
    return law


class PolicyLaw(Deterministic):
    """A control law as a policy, clipped to the declared bounds of the actions and put to declared levels."""

    draws = False

    def __init__(self, law: ControlLaw, schema: Schema) -> None:
        super().__init__()
        self.law, self.schema, self.num_actions = law, schema, len(schema.actions)
        bounds = [schema.bounds.get(name, (-math.inf, math.inf)) for name in schema.actions]
        self._low, self._high = torch.tensor(bounds, dtype=torch.float64).T
        self._levels = padded_levels(schema.actions, schema.levels)

    @classmethod
    def of(cls, policy: Any, schema: Schema) -> PolicyLaw:
        """Return any controller as a policy; see `control_law`."""
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
        if not bool(actions.isfinite().all()):
            raise ArgumentError("the policy returned an action that is not a finite number")
        return nearest_levels(actions.clamp(self._low, self._high), self._levels).to(features.dtype)


def _law_of_model(model: Any, schema: Schema) -> ControlLaw:
    """Return a model of Stable-Baselines3 or d3rlpy as a control law."""
    space = getattr(model, "observation_space", None)
    shape = tuple((model.observation_shape if space is None else space.shape) or ())
    encodes = {(len(schema.features),): True, (len(schema.states),): False}
    if shape not in encodes:
        raise ArgumentError(
            f"the model takes observations of shape {shape}; the task has {len(schema.states)} states "
            f"({', '.join(schema.states)}) and {len(schema.features)} features"
        )

    def act(states: torch.Tensor) -> torch.Tensor:
        seen = (schema.encode(states) if encodes[shape] else states).numpy().astype(np.float32)
        return as_tensor(model.predict(seen) if space is None else model.predict(seen, deterministic=True)[0])

    return act

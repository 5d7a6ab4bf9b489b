"""Anything that acts, as a function of raw states."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from nopg._typing import as_tensor
from nopg.data import Schema
from nopg.envs import ControlLaw
from nopg.errors import ArgumentError
from nopg.policies import Policy

__all__ = ["control_law"]


def control_law(policy: Any, schema: Schema) -> ControlLaw:
    """Return what acts as a function of raw states (m, d_s) to actions (m, d_a), without exploration.

    Args:
        policy: A policy of ours, a model of Stable-Baselines3 or of d3rlpy, or any function of raw states.
            A library's model gets raw states or features, whichever it was trained on; the number of its
            inputs tells.
        schema: Names of the columns, and which of them are angles.
    """
    if isinstance(policy, Policy):

        def act(states: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                return policy.mode(schema.encode(states))

        return act

    if hasattr(policy, "observation_space") and hasattr(policy, "predict"):  # Stable-Baselines3
        encodes = _encodes(policy.observation_space.shape, schema)

        def ask(states: torch.Tensor) -> torch.Tensor:
            actions, _ = policy.predict(_observations(states, schema, encodes), deterministic=True)
            return as_tensor(actions)

        return ask

    if hasattr(policy, "observation_shape") and hasattr(policy, "predict"):  # d3rlpy
        encodes = _encodes(policy.observation_shape, schema)
        return lambda states: as_tensor(policy.predict(_observations(states, schema, encodes)))

    if callable(policy):
        law: ControlLaw = policy
        return law
    raise ArgumentError(
        f"{type(policy).__name__} cannot act; give a policy, a model of Stable-Baselines3 or d3rlpy that has "
        "been built, or a function from states (m, d_s) to actions (m, d_a)"
    )


def _encodes(shape: Any, schema: Schema) -> bool:
    """Return whether a model with inputs of this shape takes features rather than raw states."""
    inputs = tuple(shape or ())
    for names, encodes in ((schema.features, True), (schema.states, False)):
        if inputs == (len(names),):
            return encodes
    raise ArgumentError(
        f"the model takes observations of shape {inputs}; the task has {len(schema.states)} states "
        f"({', '.join(schema.states)}) and {len(schema.features)} features"
    )


def _observations(states: torch.Tensor, schema: Schema, encodes: bool) -> np.ndarray[Any, Any]:
    seen = schema.encode(states) if encodes else states
    return seen.numpy().astype(np.float32)

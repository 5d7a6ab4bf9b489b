"""What tells one training from another, so that a checkpoint of another run is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import is_dataclass
from numbers import Integral, Real

import torch

from nopg._provenance import fingerprint
from nopg.data import Transitions
from nopg.models._config import ModelConfig
from nopg.policies import Policy
from nopg.training._config import TrainingConfig

__all__ = ["PARAMETERS", "RunFingerprint", "differences", "run_fingerprint"]

RunFingerprint = dict[str, str | int | float | None]
"""Settings by name, and hashes of what is too long to be written down."""

PARAMETERS = "policy_parameters"
"""The hash of the parameters that a policy which was passed in begins with."""

_LONGEST = 80


def run_fingerprint(
    data: Transitions,
    starts: torch.Tensor,
    *,
    model: ModelConfig,
    training: TrainingConfig,
    **settings: object,
) -> RunFingerprint:
    """Return all that the numbers of a training depend on.

    Args:
        data: The transitions.
        starts: Raw initial states, shape (n₀, d_s).
        model: Settings of the model; not where it computes.
        training: Settings of the training; not its callbacks.
        settings: Others by name. Of an object that is no plain value its fields count, or else its type; of
            a policy its parameters too.
    """
    schema, policy = data.schema, settings.get("policy")
    arrays = (data.states, data.actions, data.rewards, data.next_states, data.terminated, data.truncated)
    columns = {name: value for name, value in schema.to_dict().items() if name != "units"}
    trained = {name: getattr(training, name) for name in ("start", "updates", "learning_rate", "seed")}
    return {
        "data": fingerprint((*arrays, data.episodes, data.weights)),
        "rows": len(data),
        "columns": str(columns),
        "initial_states": fingerprint([starts]),
        **{name: _plain(value) for name, value in {**model.identity(), **trained, **settings}.items()},
        PARAMETERS: fingerprint(policy.parameters()) if isinstance(policy, Policy) else None,
    }


def differences(there: Mapping[str, object], here: RunFingerprint) -> list[str]:
    """Return a phrase for every setting that is not the same.

    Example:
        >>> differences({"seed": 0, "updates": 100}, {"seed": 0, "updates": 200})
        ['updates is 100 there and 200 here']
    """
    names = [*there, *(name for name in here if name not in there)]
    return [
        f"{name} is {_shown(there.get(name))} there and {_shown(here.get(name))} here"
        for name in names
        if there.get(name) != here.get(name)
    ]


def _plain(value: object) -> str | int | float | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value) if math.isfinite(value) else str(float(value))
    return repr(value) if is_dataclass(value) else type(value).__name__


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"

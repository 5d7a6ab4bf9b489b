"""Fitted Q evaluation from d3rlpy: what logged data say of a policy that did not log them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from nopg._checks import check_discount
from nopg._typing import ArrayLike, FloatArray, as_tensor
from nopg.baselines._action_range import action_range
from nopg.baselines._isolation import own_randomness, quiet_d3rlpy, require_d3rlpy
from nopg.data import Schema, Transitions
from nopg.data.io import to_d3rlpy
from nopg.envs import ControlLaw
from nopg.errors import ArgumentError, DataError
from nopg.evaluation import control_law

if TYPE_CHECKING:
    from d3rlpy.algos import QLearningAlgoBase

__all__ = ["FittedQ", "fitted_q_evaluation"]

# Updates between two targets; d3rlpy's default.
_TARGET_EVERY = 100


@dataclass(frozen=True, slots=True)
class FittedQ:
    """Values of a policy as a network fitted to the data sees them; float32, and without a certificate.

    Attributes:
        expected_return: The mean value at the initial states.
        policy: What was evaluated.
        schema: Of the data.
        model: d3rlpy's FQE behind it. Its observations are features followed by actions it does not look at.
    """

    expected_return: float
    policy: ControlLaw
    schema: Schema
    model: Any

    def value(self, states: ArrayLike) -> FloatArray:
        """Return V at raw states (m, d_s): the action value of what the policy does there."""
        return self.action_value(states, self.policy(as_tensor(states)))

    def action_value(self, states: ArrayLike, actions: ArrayLike) -> FloatArray:
        """Return Q at raw states (m, d_s) for actions (m, d_a)."""
        return _action_value(self.model, self.schema, as_tensor(states), as_tensor(actions))


def fitted_q_evaluation(
    policy: ControlLaw | QLearningAlgoBase[Any, Any],
    data: Transitions,
    *,
    discount: float,
    updates: int | None = None,
    seed: int = 0,
    hidden_units: Sequence[int] = (256, 256),
) -> FittedQ:
    """Evaluate a policy with d3rlpy's FQE.

    Angles are encoded as cosine and sine, observations standardised and actions scaled to ±1 by d3rlpy; the
    rest is d3rlpy's default.

    Args:
        policy: A control law on raw states, such as a trained controller or that of a snapshot; or an
            algorithm of d3rlpy that was trained on encoded states. It is asked once at every state of the
            data, so a random one counts with the actions it drew then.
        data: The transitions; the expected return is that at `data.starts`.
        discount: γ in [0, 1).
        updates: Of the network. The target is renewed every 100, which lets the future in by one step, so by
            default there are enough for γᵏ = .01, at least 10 000: 15 200 at γ = .97, 45 900 at .99.
        seed: The same seed gives the same values.
        hidden_units: Of the network, layer by layer.
    """
    gamma, (low, high) = check_discount(discount), action_range(data, None)
    count = _enough(gamma) if updates is None else updates
    if count < 1:
        raise ArgumentError(f"updates must be at least 1, got {count}")

    require_d3rlpy()
    from d3rlpy.logging import NoopAdapterFactory
    from d3rlpy.ope import FQE, FQEConfig
    from d3rlpy.preprocessing import MinMaxActionScaler, StandardObservationScaler

    from nopg.baselines._batches import BatchBuffer
    from studies.baselines._given_policy import GivenPolicy, LeadingColumns

    law = control_law(policy, data.schema)
    buffer = to_d3rlpy(_beside(data, law))
    features = len(data.schema.features)
    config = FQEConfig(
        gamma=gamma,
        target_update_interval=_TARGET_EVERY,
        encoder_factory=LeadingColumns(hidden_units=[*hidden_units], features=features),
        observation_scaler=StandardObservationScaler(),
        action_scaler=MinMaxActionScaler(minimum=low.numpy(), maximum=high.numpy()),
    )
    model = FQE(GivenPolicy(config, features, len(data.schema.actions)), config)
    with own_randomness(seed), quiet_d3rlpy():
        for _ in model.fitter(
            BatchBuffer(buffer),
            n_steps=count,
            n_steps_per_epoch=count,
            logger_adapter=NoopAdapterFactory(),
            show_progress=False,
        ):
            pass

    values = _action_value(model, data.schema, data.starts, as_tensor(law(data.starts)))
    return FittedQ(float(values.mean()), law, data.schema, model)


def _enough(gamma: float) -> int:
    """Return the updates after which what the network began with counts for a hundredth."""
    targets = math.ceil(math.log(0.01) / math.log(gamma)) if gamma > 0 else 1
    return _TARGET_EVERY * max(targets, 100)  # each target must be fitted too


def _beside(data: Transitions, law: ControlLaw) -> Transitions:
    """Return the data with encoded states and, beside them, what the policy does there."""
    schema = Schema(
        (*data.schema.features, *(f"policy's {name}" for name in data.schema.actions)), data.schema.actions
    )
    return replace(
        data,
        states=torch.cat([data.features, _actions(law, data.states, data)], dim=1),
        next_states=torch.cat([data.next_features, _actions(law, data.next_states, data)], dim=1),
        initial_states=None,
        schema=schema,
    )


def _actions(law: ControlLaw, states: torch.Tensor, data: Transitions) -> torch.Tensor:
    actions = as_tensor(law(states.clone()))
    if actions.shape != data.actions.shape or not bool(actions.isfinite().all()):
        raise DataError(
            f"at the {len(states)} states of the data the policy returned actions of shape "
            f"{tuple(actions.shape)}; return finite numbers of shape {tuple(data.actions.shape)}"
        )
    return actions


def _action_value(model: Any, schema: Schema, states: torch.Tensor, actions: torch.Tensor) -> FloatArray:
    # The columns of the policy's actions are ignored.
    observations = torch.cat([schema.encode(states), torch.zeros_like(actions)], dim=1)
    values = model.predict_value(observations.numpy().astype(np.float32), actions.numpy().astype(np.float32))
    return np.asarray(values)

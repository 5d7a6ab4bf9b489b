"""What every baseline keeps: the test of one of one's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from nopg._checks import require
from nopg._typing import as_tensor
from nopg.data import Transitions
from nopg.policies import Policy


def check_baseline(make: Callable[..., Any], data: Transitions, discount: float = 0.9) -> None:
    """Raise an `ArgumentError` unless a baseline makes a controller of a log; call it in the test of yours.

    Args:
        make: Makes a controller from a log and a discount, as in `BASELINES`: a policy, or a function of raw
            states (m, d_s).
        data: A log that it can be made from.
        discount: γ.

    Example:
        >>> from nopg.envs import LQR, UniformAgent, collect
        >>> plant = LQR()
        >>> log = collect(plant, UniformAgent.within(plant), episodes=5, steps=20, seed=0)
        >>> check_baseline(lambda data, discount: lambda states: -0.5 * states, log)
    """
    before = [part.clone() for part in (data.states, data.actions, data.rewards)]
    controller = make(data, discount)

    def act(states: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            found = controller.mode(data.schema.encode(states)) if is_policy else controller(states)
        return as_tensor(found)

    is_policy = isinstance(controller, Policy)
    actions, shape = act(data.states), tuple(data.actions.shape)
    require(tuple(actions.shape) == shape, f"actions have shape {tuple(actions.shape)} instead of {shape}")
    require(bool(actions.isfinite().all()), "an action is not finite")
    require(torch.equal(act(data.states), actions), "the same states have other actions in the second call")
    alone = torch.cat([act(row[None]) for row in data.states[:5]])
    require(torch.allclose(alone, actions[:5], rtol=1e-6, atol=1e-9), "an action depends on the other rows")
    after = (data.states, data.actions, data.rewards)
    require(all(map(torch.equal, before, after)), "the log was changed")

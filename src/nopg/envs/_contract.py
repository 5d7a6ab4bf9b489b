"""What every environment keeps: the test of one of one's own."""

from __future__ import annotations

import torch

from nopg._checks import require
from nopg._seeding import generator
from nopg.envs._environment import Environment

_ROWS = 20


def check_environment(plant: Environment) -> None:
    """Raise an `ArgumentError` unless an environment is pure, vectorised and of one size; for tests of yours.

    Args:
        plant: The environment.

    Example:
        >>> from nopg.envs import Pendulum
        >>> check_environment(Pendulum())
    """
    d_s, d_a, rng = len(plant.state_names), len(plant.action_names), generator(0, "contract of a plant")
    for name, size in {"state_low": d_s, "state_high": d_s, "action_low": d_a, "action_high": d_a}.items():
        corner = getattr(plant, name)
        require(
            tuple(corner.shape) == (size,) and bool(corner.isfinite().all()), f"{name} is no finite ({size},)"
        )
    require(bool((plant.state_low < plant.state_high).all()), "state_low is not below state_high")
    require(bool((plant.action_low < plant.action_high).all()), "action_low is not below action_high")
    require(set(plant.angles) <= set(plant.state_names), "an angle is no state")
    starts = plant.initial(_ROWS, rng=rng)
    require(tuple(starts.shape) == (_ROWS, d_s), f"initial returns shape {tuple(starts.shape)}")

    states = plant.state_low + (plant.state_high - plant.state_low) * _uniform(d_s, rng)
    # Up to half their range beyond the bounds.
    actions = plant.action_low + (plant.action_high - plant.action_low) * (2 * _uniform(d_a, rng) - 0.5)
    given = states.clone(), actions.clone()
    after = plant.step(states, actions)
    rewards, ended = plant.reward(states, actions, after), plant.terminal(after)
    require(tuple(after.shape) == (_ROWS, d_s), f"step returns shape {tuple(after.shape)}")
    require(after.dtype == rewards.dtype == torch.float64, "states or rewards are not float64")
    require(tuple(rewards.shape) == (_ROWS,), f"reward returns shape {tuple(rewards.shape)}")
    require(tuple(ended.shape) == (_ROWS,) and ended.dtype == torch.bool, "terminal returns no booleans (m,)")
    unchanged = torch.equal(states, given[0]) and torch.equal(actions, given[1])
    require(unchanged, "a method changes its inputs")
    require(torch.equal(plant.step(states, actions), after), "step returns something else in the second call")
    rows = range(_ROWS)
    alone = torch.cat([plant.step(states[k : k + 1], actions[k : k + 1]) for k in rows])
    require(torch.allclose(alone, after, rtol=1e-12, atol=1e-13), "a step depends on the other rows")
    applied = plant.applied(actions)
    require(torch.equal(plant.applied(applied), applied), "an applied action changes when applied again")
    require(torch.equal(plant.step(states, applied), after), "step does not pass the action through applied")
    again = plant.reward(states, applied, after)
    require(torch.equal(again, rewards), "reward does not pass the action through applied")


def _uniform(columns: int, rng: torch.Generator) -> torch.Tensor:
    return torch.rand(_ROWS, columns, generator=rng, dtype=torch.float64)

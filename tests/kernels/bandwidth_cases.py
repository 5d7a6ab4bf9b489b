"""Datasets, what may be done to them without changing what they say, and how much their bandwidths move."""

import math
from collections.abc import Iterator
from dataclasses import replace

import torch

from nopg._seeding import generator
from nopg.data import Schema, Transitions
from nopg.envs import Pendulum, collect_grid, collect_uniform, simulate
from nopg.kernels import select_bandwidths

__all__ = [
    "INVARIANCES",
    "bandwidth_vector",
    "pendulum_datasets",
    "pendulum_episodes",
    "selected_bandwidth_invariances",
]

INVARIANCES = (
    "row order",
    "every row twice",
    "shift and rescale of a state",
    "shift and rescale of an action",
    "shift and rescale of the reward",
    "rotation of an angle",
    "unit and sense of an angle",
)

# A change of unit, one that also turns the column round, and a small one far from zero: (scale, shift).
_UNITS = ((1e3, -20.0), (-3.7, 5.0), (1e-4, 1e-2))


def pendulum_episodes(num_episodes: int = 8, steps: int = 25) -> Transitions:
    """Episodes of a pendulum under random torques, each from a start of its own."""
    noise = generator(3, "torques")
    trajectories = simulate(
        Pendulum(start="random"),
        lambda states: 4 * torch.rand(len(states), 1, dtype=torch.float64, generator=noise) - 2,
        steps=steps,
        num_episodes=num_episodes,
        rng=generator(1, "starts"),
    )
    return trajectories.transitions(Pendulum())


def pendulum_datasets() -> dict[str, Transitions]:
    """A grid, scattered rows and episodes: (angle, velocity) → torque."""
    return {
        "grid of 200": collect_grid(Pendulum(), (10, 10, 2)),
        "300 random rows": collect_uniform(Pendulum(), 300, seed=0),
        "8 episodes of 25": pendulum_episodes(),
    }


def bandwidth_vector(data: Transitions) -> torch.Tensor:
    """Return the selected h of (cos angle, sin angle, velocity, torque), shape (4,)."""
    h = select_bandwidths(data)
    return torch.cat([h.states, h.actions])


def selected_bandwidth_invariances() -> dict[str, float]:
    """Return, for every invariance, the largest relative change of a bandwidth after undoing the units."""
    deviations = dict.fromkeys(INVARIANCES, 0.0)
    for data in pendulum_datasets().values():
        expected = bandwidth_vector(data)
        for name, changed, units in _changes(data):
            deviation = float((bandwidth_vector(changed) / units / expected - 1).abs().max())
            deviations[name] = max(deviations[name], deviation)
    return deviations


def _changes(data: Transitions) -> Iterator[tuple[str, Transitions, torch.Tensor]]:
    """Yield the invariance, the changed data, and the unit in which each bandwidth is now measured."""
    same = torch.ones(4, dtype=torch.float64)
    for seed in range(2):
        yield "row order", data.take(torch.randperm(len(data), generator=generator(seed))), same
    twice = torch.cat([torch.arange(len(data))] * 2)
    yield "every row twice", data.take(twice), same
    yield "every row twice", data.take(twice[torch.randperm(2 * len(data), generator=generator(2))]), same

    for scale, shift in _UNITS:
        velocity, torque = (_units(place, abs(scale)) for place in (2, 3))
        yield "shift and rescale of a state", _with_states(data, 1, scale, shift), velocity
        yield "shift and rescale of an action", replace(data, actions=scale * data.actions + shift), torque
        yield "shift and rescale of the reward", replace(data, rewards=scale * data.rewards + shift), same

    for turn in (0.3, -2.0, 10.0):
        yield "rotation of an angle", _with_states(data, 0, 1.0, turn), same
    for period in (360.0, -1.0):
        turned = _with_states(data, 0, period / (2 * math.pi), 0.0)
        schema = Schema(data.schema.states, data.schema.actions, {"angle": abs(period)})
        yield "unit and sense of an angle", replace(turned, schema=schema), same


def _units(place: int, unit: float) -> torch.Tensor:
    units = torch.ones(4, dtype=torch.float64)
    units[place] = unit
    return units


def _with_states(data: Transitions, column: int, scale: float, shift: float) -> Transitions:
    states, next_states = data.states.clone(), data.next_states.clone()
    for tensor in (states, next_states):
        tensor[:, column] = scale * tensor[:, column] + shift
    return replace(data, states=states, next_states=next_states)

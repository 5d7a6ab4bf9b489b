"""Small datasets with known answers."""

import torch

from nopg._seeding import generator
from nopg.data import Transitions
from nopg.envs import Pendulum, UniformAgent, collect, collect_uniform

UNCONNECTED = collect_uniform(Pendulum(), 64, seed=0)
EPISODES = collect(Pendulum(), UniformAgent((-2.0,), (2.0,)), episodes=2, steps=40, seed=0)
STATES = collect_uniform(Pendulum(), 20, seed=1).states


def demonstrations() -> Transitions:
    """What a linear demonstrator did at states drawn evenly from a square."""
    states = 2 * torch.rand(500, 2, generator=generator(0, "states"), dtype=torch.float64) - 1
    return Transitions.from_arrays(states, demonstrator(states), torch.zeros(500), states)


def demonstrator(states: torch.Tensor) -> torch.Tensor:
    return states @ torch.tensor([[-0.8], [0.3]], dtype=torch.float64)


def one_step_tasks() -> Transitions:
    """Random actions a in states s, both in ±1; the reward is −(a − s)² and then the task ends."""
    draws = 2 * torch.rand(500, 2, generator=generator(0, "draws"), dtype=torch.float64) - 1
    s, a = draws[:, :1], draws[:, 1:]
    return Transitions.from_arrays(s, a, -(a - s).square()[:, 0], s, terminated=torch.ones(500))


def constant_reward(reward: float) -> Transitions:
    """Random steps on a line that all pay the same and never end."""
    draws = 2 * torch.rand(500, 3, generator=generator(0, "draws"), dtype=torch.float64) - 1
    return Transitions.from_arrays(draws[:, :1], draws[:, 1:2], torch.full((500,), reward), draws[:, 2:])

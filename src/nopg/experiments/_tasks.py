"""The tasks of the comparisons: who collects the data, what is to be learned, how it is judged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch

from nopg._seeding import generator
from nopg.data import LoggedEpisodes, Transitions
from nopg.environments import CartPole, CartPoleParameters, Environment, Pendulum
from nopg.evaluation import Evaluation, evaluate
from nopg.rollouts import AgentWithDensity, MixtureOfGaussians, UniformAgent, collect

__all__ = ["TASKS", "Task"]


@dataclass(frozen=True, slots=True)
class Task:
    """A plant, a behaviour that logs it, and the protocol that judges controllers.

    Attributes:
        name: As on the command line.
        recorded: The plant as it was logged.
        plant: The plant as controllers are judged on it: it may start elsewhere.
        agent: The behaviour, whose density is known.
        episode_steps: Length of a logged episode.
        discount: γ.
        steps: Length of an evaluated episode.
        episodes: How many are evaluated.
        solved: The return from which the task counts as solved.
        num_starts: How many initial states the learners are told.
    """

    name: str
    recorded: Environment
    plant: Environment
    agent: AgentWithDensity
    episode_steps: int
    discount: float
    steps: int
    episodes: int
    solved: float
    num_starts: int = 1

    def data(self, samples: int, seed: int) -> Transitions:
        """Return so many logged transitions, the last episode cut to fit."""
        episodes = math.ceil(samples / self.episode_steps)
        while True:
            whole = collect(self.recorded, self.agent, episodes=episodes, steps=self.episode_steps, seed=seed)
            if len(whole) >= samples:
                break
            episodes *= 2  # episodes of this plant end early
        starts = self.plant.initial(self.num_starts, rng=generator(seed, "starts of the task"))
        return whole.take(torch.arange(samples)).starting_at(starts)

    def logged(self, data: Transitions) -> LoggedEpisodes:
        """Return the data with the density of the behaviour, for importance sampling."""
        low, high = self.recorded.action_low, self.recorded.action_high
        return LoggedEpisodes.from_transitions(
            data, lambda states, actions: self.agent.log_density(states, actions, low=low, high=high)
        )

    def evaluate(self, policy: object, seed: int) -> Evaluation:
        """Run a controller by the task's protocol."""
        return evaluate(policy, self.plant, episodes=self.episodes, steps=self.steps, seed=seed)


def _by_name(*tasks: Task) -> Mapping[str, Task]:
    return MappingProxyType({task.name: task for task in tasks})


_CART = CartPole(CartPoleParameters(rate=50, angle_limit=0.25, start_angle=0.1, max_voltage=5))

TASKS: Mapping[str, Task] = _by_name(
    Task(
        name="pendulum-random",
        recorded=Pendulum(start="upright"),
        plant=Pendulum(),
        agent=MixtureOfGaussians(),
        episode_steps=500,
        discount=0.97,
        steps=500,
        episodes=1,
        solved=-500.0,
    ),
    Task(
        name="cart-pole",
        recorded=_CART,
        plant=_CART,
        agent=UniformAgent(),
        episode_steps=1_000,
        discount=0.99,
        steps=10_000,
        episodes=10,
        solved=9_900.0,
        num_starts=15,
    ),
)
"""By name. Pendulum: logged from upright, judged for 500 steps from hanging. Cart-pole: 10⁴ steps."""

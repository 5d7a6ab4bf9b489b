"""The tasks of the studies: where the data come from, what is to be learned, how it is evaluated."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import torch

from nopg._seeding import generator
from nopg.data import Transitions
from nopg.envs import (
    CartPole,
    Environment,
    MountainCar,
    Pendulum,
    UniformAgent,
    collect,
    collect_grid,
    synthetic_demonstrations,
)
from nopg.errors import ArgumentError, DataError
from nopg.evaluation import Evaluation, evaluate
from studies.baselines import LoggedEpisodes
from studies.paper._demonstrations import read_demonstrations
from studies.paper_data import PENDULUM_GRIDS, MixtureOfGaussians, log_density

__all__ = ["TASKS", "DemonstrationTask", "GridTask", "PaperRecipe", "RandomTask", "Task"]


@dataclass(frozen=True, slots=True)
class PaperRecipe:
    """What the supplement sets by hand for NOPG on a task.

    The bandwidths are those of single columns by cross-validation, times the factors; the prior mass is 0.

    Attributes:
        updates: Policy updates, all of them.
        num_action_samples: N_π, of NOPG-S.
        action_factor: Action h_factor.
        state_factor: State h_factor.
        learning_rate: Adam's.
        largest_std: σ of NOPG-S is this times a sigmoid.
        pwis_learning_rate: Adam's, of PWIS.
    """

    updates: int
    num_action_samples: int
    action_factor: float
    state_factor: float = 1.0
    learning_rate: float = 1e-2
    largest_std: float = 1.0
    pwis_learning_rate: float = 1e-2


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(ABC):
    """Data, and the protocol that evaluates controllers.

    Attributes:
        name: As on the command line.
        plant: The plant on which controllers are evaluated; its starts may differ from those of the data.
        discount: γ.
        steps: Length of an evaluated episode.
        episodes: How many are evaluated.
        solved: The return from which the task counts as solved.
        recipe: The supplement's settings.
    """

    name: str
    plant: Environment
    discount: float
    steps: int
    episodes: int
    solved: float
    recipe: PaperRecipe

    @abstractmethod
    def data(self, size: int, seed: int) -> Transitions:
        """Return the dataset of a trial."""

    def logged(self, data: Transitions) -> LoggedEpisodes:
        """Return the data with the density of the behaviour, for importance sampling."""
        del data
        raise DataError(f"nobody knows the behaviour behind {self.name}; importance sampling does not apply")

    def evaluate(self, policy: object, seed: int) -> Evaluation:
        """Run a controller by the task's protocol."""
        return evaluate(policy, self.plant, episodes=self.episodes, steps=self.steps, seed=seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class GridTask(Task):
    """Single experiments on a grid over states and actions; trials differ in the policy's first weights."""

    def data(self, size: int, seed: int) -> Transitions:
        """Return the grid of this size."""
        del seed
        if size not in PENDULUM_GRIDS:
            raise ArgumentError(f"there is no grid of {size} samples; choose from {sorted(PENDULUM_GRIDS)}")
        return collect_grid(self.plant, PENDULUM_GRIDS[size])


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomTask(Task):
    """A behaviour logs the plant episode by episode.

    Attributes:
        recorded: The plant as it was logged.
        agent: The behaviour, whose density is known.
        episode_steps: Length of a logged episode.
        num_starts: Number of initial states that the data declare.
    """

    recorded: Environment
    agent: UniformAgent | MixtureOfGaussians
    episode_steps: int
    num_starts: int = 1

    def data(self, size: int, seed: int) -> Transitions:
        """Return this number of logged transitions, the last episode cut to fit."""
        episodes = math.ceil(size / self.episode_steps)
        while True:
            whole = collect(self.recorded, self.agent, episodes=episodes, steps=self.episode_steps, seed=seed)
            if len(whole) >= size:
                break
            episodes *= 2  # episodes of this plant end early
        starts = self.plant.initial(self.num_starts, rng=generator(seed, "starts of the task"))
        return whole.take(torch.arange(size)).starting_at(starts)

    def logged(self, data: Transitions) -> LoggedEpisodes:
        """Return the data with the density of the behaviour, for importance sampling."""
        low, high = self.recorded.action_low, self.recorded.action_high
        return LoggedEpisodes.from_transitions(
            data, lambda _, actions: log_density(self.agent, actions, low=low, high=high)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DemonstrationTask(Task):
    """A few demonstrations, drawn without repetition from those there are.

    Attributes:
        demonstrations: Where they are recorded; the package's synthetic ones if None.
    """

    demonstrations: str | None = None

    def all_demonstrations(self) -> Transitions:
        """Return all that there are."""
        if self.demonstrations is None:
            return synthetic_demonstrations()
        return read_demonstrations(self.demonstrations)

    def data(self, size: int, seed: int) -> Transitions:
        """Return this number of demonstrations; their starts are those of the task."""
        whole = self.all_demonstrations()
        assert whole.episodes is not None
        numbers = torch.unique(whole.episodes)
        if not 1 <= size <= len(numbers):
            raise ArgumentError(f"there are {len(numbers)} demonstrations; {size} cannot be drawn from them")
        drawn = numbers[torch.randperm(len(numbers), generator=generator(seed, "demonstrations"))[:size]]
        return replace(whole.take(torch.isin(whole.episodes, drawn)), initial_states=None)


def _by_name(*tasks: RandomTask) -> Mapping[str, RandomTask]:
    return MappingProxyType({task.name: task for task in tasks})


_CART = CartPole(rate=50, angle_limit=0.25, start_angle=0.1, max_voltage=5)

PENDULUM_GRID = GridTask(
    name="pendulum-grid",
    plant=Pendulum(),
    discount=0.97,
    steps=500,
    episodes=1,
    solved=-500.0,
    recipe=PaperRecipe(updates=1_500, num_action_samples=15, action_factor=50.0),
)
MOUNTAIN_CAR = DemonstrationTask(
    name="mountain-car",
    plant=MountainCar(),
    discount=0.99,
    steps=500,
    episodes=20,
    solved=-110.0,
    recipe=PaperRecipe(updates=1_500, num_action_samples=15, action_factor=50.0),
)
TASKS: Mapping[str, RandomTask] = _by_name(
    RandomTask(
        name="pendulum-random",
        recorded=Pendulum(start="upright"),
        plant=Pendulum(),
        agent=MixtureOfGaussians(),
        episode_steps=500,
        discount=0.97,
        steps=500,
        episodes=1,
        solved=-500.0,
        recipe=PaperRecipe(updates=2_000, num_action_samples=10, action_factor=25.0),
    ),
    RandomTask(
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
        recipe=PaperRecipe(updates=2_000, num_action_samples=10, action_factor=20.0, pwis_learning_rate=1e-3),
    ),
)
"""Those on which behaviours with a density were logged, by name.

Pendulum: logged from upright, evaluated for 500 steps from hanging. Cart-pole: 10⁴ steps.
"""

"""The tasks of the studies: where the data come from, what is to be learned, how it is evaluated."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
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
)
from nopg.errors import ArgumentError, DataError
from nopg.evaluation import Evaluation, evaluate
from studies.baselines import LoggedEpisodes
from studies.demonstrations import recorded_demonstrations, some_of, synthetic_demonstrations
from studies.paper_data import PENDULUM_GRIDS, MixtureOfGaussians, log_density


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
        plant: The plant on which controllers are evaluated; its starts may differ from those of the data.
        discount: γ.
        steps: Length of an evaluated episode.
        episodes: How many are evaluated.
        solved: The return from which the task counts as solved.
        recipe: The supplement's settings.
    """

    plant: Environment
    discount: float
    steps: int
    episodes: int
    solved: float
    recipe: PaperRecipe

    @abstractmethod
    def data(self, size: int, seed: int, *, recorded: bool = False) -> Transitions:
        """Return the dataset of a trial; `recorded` takes the drives of a person."""

    def logged(self, data: Transitions) -> LoggedEpisodes:
        """Return the data with the density of the behaviour, for importance sampling."""
        raise DataError("nobody knows the density of this behaviour; importance sampling does not apply")

    def evaluate(self, policy: object, seed: int) -> Evaluation:
        """Run a controller by the task's protocol."""
        return evaluate(policy, self.plant, episodes=self.episodes, steps=self.steps, seed=seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class GridTask(Task):
    """Single experiments on a grid over states and actions; trials differ in the policy's first weights."""

    def data(self, size: int, seed: int, *, recorded: bool = False) -> Transitions:
        """Return the grid of this size."""
        if size not in PENDULUM_GRIDS:
            raise ArgumentError(f"there is no grid of {size} samples; choose from {sorted(PENDULUM_GRIDS)}")
        return collect_grid(self.plant, PENDULUM_GRIDS[size])


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomTask(Task):
    """A behaviour logs the plant episode by episode.

    Attributes:
        logged_plant: The plant as it was logged.
        agent: The behaviour, whose density is known.
        episode_steps: Length of a logged episode.
        num_starts: Number of initial states that the data declare.
    """

    logged_plant: Environment
    agent: UniformAgent | MixtureOfGaussians
    episode_steps: int
    num_starts: int = 1

    def data(self, size: int, seed: int, *, recorded: bool = False) -> Transitions:
        """Return this number of logged transitions, the last episode cut to fit."""
        episodes, rows = math.ceil(size / self.episode_steps), 0
        while rows < size:  # episodes of a plant may end early
            whole = collect(
                self.logged_plant, self.agent, episodes=episodes, steps=self.episode_steps, seed=seed
            )
            episodes, rows = 2 * episodes, len(whole)
        starts = self.plant.initial(self.num_starts, rng=generator(seed, "starts of the task"))
        return whole.take(torch.arange(size)).starting_at(starts)

    def logged(self, data: Transitions) -> LoggedEpisodes:
        """Return the data with the density of the behaviour, for importance sampling."""
        low, high = self.logged_plant.action_low, self.logged_plant.action_high
        return LoggedEpisodes.from_transitions(
            data, lambda _, actions: log_density(self.agent, actions, low=low, high=high)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DemonstrationTask(Task):
    """A few demonstrations, drawn without repetition from the tutorial's synthetic or from recorded ones."""

    def data(self, size: int, seed: int, *, recorded: bool = False) -> Transitions:
        """Return this number of demonstrations."""
        return some_of(recorded_demonstrations() if recorded else synthetic_demonstrations(), size, seed)


_CART = CartPole(rate=50, angle_limit=0.25, start_angle=0.1, max_voltage=5)

TASKS: Mapping[str, Task] = MappingProxyType(
    {
        "pendulum-grid": GridTask(
            plant=Pendulum(),
            discount=0.97,
            steps=500,
            episodes=1,
            solved=-500.0,
            recipe=PaperRecipe(updates=1_500, num_action_samples=15, action_factor=50.0),
        ),
        "pendulum-random": RandomTask(
            logged_plant=Pendulum(start="upright"),
            plant=Pendulum(),
            agent=MixtureOfGaussians(),
            episode_steps=500,
            discount=0.97,
            steps=500,
            episodes=1,
            solved=-500.0,
            recipe=PaperRecipe(updates=2_000, num_action_samples=10, action_factor=25.0),
        ),
        "cart-pole": RandomTask(
            logged_plant=_CART,
            plant=_CART,
            agent=UniformAgent(),
            episode_steps=1_000,
            discount=0.99,
            steps=10_000,
            episodes=10,
            solved=9_900.0,
            num_starts=15,
            recipe=PaperRecipe(
                updates=2_000, num_action_samples=10, action_factor=20.0, pwis_learning_rate=1e-3
            ),
        ),
        "mountain-car": DemonstrationTask(
            plant=MountainCar(),
            discount=0.99,
            steps=500,
            episodes=20,
            solved=-110.0,
            recipe=PaperRecipe(updates=1_500, num_action_samples=15, action_factor=50.0),
        ),
    }
)
"""By the name of the experiment."""

"""The tasks of the studies: where the data come from, what is to be learned, how it is evaluated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from nopg._seeding import generator
from nopg.data import Schema, Transitions
from nopg.envs import (
    CartPole,
    Environment,
    MountainCar,
    Pendulum,
    UniformAgent,
    collect,
    collect_grid,
    simulate,
)
from nopg.errors import ArgumentError, DataError
from nopg.evaluation import control_law
from studies.baselines import LoggedEpisodes
from studies.demonstrations import some_of, synthetic_demonstrations
from studies.paper_data import PENDULUM_GRIDS, MixtureOfGaussians, log_density

_CART = CartPole(rate=50, angle_limit=0.25, start_angle=0.1, max_voltage=5)
NUM_STARTS = 15
"""N_μ₀ of the cart-pole."""


@dataclass(frozen=True, slots=True)
class PaperRecipe:
    """What the supplement sets by hand for NOPG on a task.

    The bandwidths are those of single columns by cross-validation, times the factors; the prior mass is 0.
    """

    updates: int  # Policy updates, all of them.
    num_action_samples: int  # N_π, of NOPG-S.
    action_factor: float  # Action h_factor.
    pwis_learning_rate: float = 1e-2  # Adam's, of PWIS.


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Data, and the protocol that evaluates controllers."""

    # The plant on which controllers are evaluated; its starts may differ from those of the data.
    plant: Environment
    data: Callable[[int, int], Transitions]  # Size and seed in, the dataset of a trial out.
    discount: float  # γ.
    steps: int  # Length of an evaluated episode.
    episodes: int  # How many are evaluated.
    solved: float  # The return from which the task counts as solved.
    recipe: PaperRecipe  # The supplement's settings.
    # What acted in the data, if its density is known.
    behavior: UniformAgent | MixtureOfGaussians | None = None

    def logged(self, data: Transitions) -> LoggedEpisodes:
        """Return the data with the density of the behaviour, for importance sampling."""
        if (behavior := self.behavior) is None:
            raise DataError("nobody knows the density of this behaviour; importance sampling does not apply")
        low, high = self.plant.action_low, self.plant.action_high
        return LoggedEpisodes.from_transitions(
            data, lambda _, actions: log_density(behavior, actions, low=low, high=high)
        )

    def mean_return(self, policy: object, seed: int) -> float:
        """Return the mean return of a controller by the task's protocol."""
        plant = self.plant
        law = control_law(policy, Schema(plant.state_names, plant.action_names, dict(plant.angles)))
        starts = plant.initial(self.episodes, rng=generator(seed, "evaluation"))
        return float(simulate(plant, law, steps=self.steps, initial_states=starts).returns.mean())


def grid_data(size: int, seed: int) -> Transitions:
    """Return the pendulum's grid of this size; trials differ in the policy's first weights."""
    if size not in PENDULUM_GRIDS:
        raise ArgumentError(f"there is no grid of {size} samples; choose from {sorted(PENDULUM_GRIDS)}")
    return collect_grid(Pendulum(), PENDULUM_GRIDS[size])


def pendulum_data(size: int, seed: int) -> Transitions:
    """Return transitions logged from upright; the task starts hanging."""
    upright, episodes = Pendulum(start="upright"), -(-size // 500)
    whole = collect(upright, MixtureOfGaussians(), episodes=episodes, steps=500, seed=seed)
    return whole.take(torch.arange(size)).starting_at(Pendulum().initial(1))


def cart_data(size: int, seed: int) -> Transitions:
    """Return transitions of uniform volts, and 15 starts; episodes end early, the last one is cut to fit."""
    episodes, rows = -(-size // 1_000), 0
    while rows < size:
        whole = collect(_CART, UniformAgent(), episodes=episodes, steps=1_000, seed=seed)
        episodes, rows = 2 * episodes, len(whole)
    starts = _CART.initial(NUM_STARTS, rng=generator(seed, "starts of the task"))
    return whole.take(torch.arange(size)).starting_at(starts)


TASKS: Mapping[str, Task] = {
    "pendulum-grid": Task(
        plant=Pendulum(),
        data=grid_data,
        discount=0.97,
        steps=500,
        episodes=1,
        solved=-500.0,
        recipe=PaperRecipe(updates=1_500, num_action_samples=15, action_factor=50.0),
    ),
    "pendulum-random": Task(
        plant=Pendulum(),
        data=pendulum_data,
        behavior=MixtureOfGaussians(),
        discount=0.97,
        steps=500,
        episodes=1,
        solved=-500.0,
        recipe=PaperRecipe(updates=2_000, num_action_samples=10, action_factor=25.0),
    ),
    "cart-pole": Task(
        plant=_CART,
        data=cart_data,
        behavior=UniformAgent(),
        discount=0.99,
        steps=10_000,
        episodes=10,
        solved=9_900.0,
        recipe=PaperRecipe(updates=2_000, num_action_samples=10, action_factor=20.0, pwis_learning_rate=1e-3),
    ),
    "mountain-car": Task(
        plant=MountainCar(),
        data=lambda size, seed: some_of(synthetic_demonstrations(), size, seed),
        discount=0.99,
        steps=500,
        episodes=20,
        solved=-110.0,
        recipe=PaperRecipe(updates=1_500, num_action_samples=15, action_factor=50.0),
    ),
}
"""By the name of the experiment."""

"""A simulated plant with noise: its log, and runs of a controller on it, with a fault or without."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from nopg import Transitions
from nopg._seeding import generator
from nopg.envs import ControlLaw, Environment, Trajectories

# Measured starts of the task that a log declares.
_STARTS = 50


@dataclass(frozen=True, slots=True)
class Noise:
    """Normal noise, independent from step to step."""

    # Standard deviation of each measured state column; empty for exact sensors.
    measurement: tuple[float, ...] = ()
    # Standard deviation of what the plant adds to each action; empty for none.
    disturbance: tuple[float, ...] = ()

    def measured(self, states: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
        """Return states (m, d_s) as the sensors give them."""
        return _with_noise(states, self.measurement, rng)

    def disturbed(self, actions: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
        """Return actions (m, d_a) as the plant feels them."""
        return _with_noise(actions, self.disturbance, rng)


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a plant; by default nothing."""

    gain: float = 1.0  # Factor of all actions.
    sensor: torch.Tensor | float = 0.0  # Added to measured states, shape (d_s,).
    push: torch.Tensor | float = 0.0  # Added to the true state in every step, shape (d_s,).
    # Name of the sensor or of the column that is pushed; empty for a gain, which all actions lose.
    column: str = ""


@dataclass(frozen=True, kw_only=True)
class WatchedPlant:
    """A plant to watch."""

    name: str  # Name on the command line.
    role: str  # Whether constants of the monitor may be chosen on it ("development") or not ("report").
    # Builds the plant without its noise; called once, when it is first needed.
    make: Callable[[], Environment]
    discount: float  # γ of the task.
    rows: int  # Size of the log.
    steps: int  # Length of an episode of a run.
    sensor: str  # What goes wrong. Nothing depends on the position of a cart, so no step tells its offset.
    log: Callable[[WatchedPlant, int], Transitions]  # Returns the log of a seed.
    noise: Noise = field(default_factory=Noise)  # Noise of the sensors and the actuators.

    @cached_property
    def plant(self) -> Environment:
        """The plant without its noise."""
        return self.make()

    def run(
        self,
        law: Callable[[Any], Any],
        starts: torch.Tensor,
        steps: int,
        rng: torch.Generator,
        fault: Fault | None = None,
    ) -> Transitions:
        """Return the rows of a controller that sees measured states, as a historian would have them.

        Rewards are of measured states and of the actions that were asked for; episodes end by the true state.
        """
        plant, noise, fault = self.plant, self.noise, fault or Fault()
        states, alive = starts, torch.ones(len(starts), dtype=torch.bool)
        seen = [noise.measured(states, rng) + fault.sensor]
        actions, rewards, terminated = [], [], []
        for _ in range(steps):
            asked = plant.applied(torch.as_tensor(law(seen[-1]), dtype=torch.float64))
            states = plant.step(states, noise.disturbed(fault.gain * asked, rng)) + fault.push
            seen.append(noise.measured(states, rng) + fault.sensor)
            actions.append(asked)
            rewards.append(plant.reward(seen[-2], asked, seen[-1]))
            terminated.append(alive & plant.terminal(states))
            alive = alive & ~terminated[-1]
        parts = (torch.stack(part) for part in (seen, actions, rewards, terminated))
        return Trajectories(*parts).transitions(plant)


def logged(
    make_law: Callable[[Environment, torch.Generator], ControlLaw], *, steps: int
) -> Callable[[WatchedPlant, int], Transitions]:
    """Return what logs a plant under a controller, episode after episode, with measured starts declared."""

    def log(watched: WatchedPlant, seed: int) -> Transitions:
        rng, plant = generator(seed, "log"), watched.plant
        law = make_law(plant, rng)
        starts = plant.initial(math.ceil(watched.rows / steps), rng=rng)
        data = watched.run(law, starts, steps, rng).take(torch.arange(watched.rows))
        declared = plant.initial(_STARTS, rng=generator(seed, "declared starts"))
        return data.starting_at(watched.noise.measured(declared, generator(seed, "measured starts")))

    return log


def with_dither(
    law: ControlLaw, plant: Environment, sizes: tuple[float, ...], rng: torch.Generator
) -> ControlLaw:
    """Return a controller with normal noise of these sizes on its actions, within what the plant accepts."""
    scale = torch.tensor(sizes, dtype=torch.float64)

    def act(states: torch.Tensor) -> torch.Tensor:
        asked = torch.as_tensor(law(states), dtype=torch.float64)
        return plant.applied(asked + scale * torch.randn(asked.shape, dtype=torch.float64, generator=rng))

    return act


def _with_noise(values: torch.Tensor, sizes: tuple[float, ...], rng: torch.Generator) -> torch.Tensor:
    if not any(sizes):
        return values
    draws = torch.randn(values.shape, dtype=torch.float64, generator=rng)
    return values + torch.tensor(sizes, dtype=torch.float64) * draws

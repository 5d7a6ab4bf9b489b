"""Episodes of a plant whose sensors and actuators are noisy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from nopg.envs import ControlLaw, Environment, Trajectories, simulate

__all__ = ["Noise", "control_law", "integrate", "run_plant"]


@dataclass(frozen=True, slots=True)
class Noise:
    """Normal noise, independent from step to step.

    Attributes:
        measurement: Standard deviation of each measured state column; empty for exact sensors.
        disturbance: Standard deviation of what the plant adds to each action; empty for none.
    """

    measurement: tuple[float, ...] = ()
    disturbance: tuple[float, ...] = ()

    def __bool__(self) -> bool:
        return any(self.measurement) or any(self.disturbance)

    def measured(self, states: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
        """Return states (m, d_s) as the sensors give them."""
        return _with_noise(states, self.measurement, rng)

    def disturbed(self, actions: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
        """Return actions (m, d_a) as the plant feels them."""
        return _with_noise(actions, self.disturbance, rng)


def control_law(policy: Callable[[Any], Any]) -> ControlLaw:
    """Return a controller on numpy arrays as one on tensors."""
    return lambda states: np.asarray(policy(states.numpy()), dtype=np.float64)


def run_plant(
    plant: Environment,
    law: ControlLaw,
    *,
    starts: torch.Tensor,
    steps: int,
    noise: Noise,
    rng: torch.Generator,
) -> Trajectories:
    """Run a controller on a noisy plant, all episodes at once.

    The controller sees measured states. The trajectories hold measured states and the actions that were asked
    for, and their rewards are computed from both, as a historian would have them. Episodes end by the true
    state.

    Args:
        plant: The plant without its noise.
        law: Maps measured states (m, d_s) to actions (m, d_a).
        starts: True initial states (m, d_s).
        steps: Length of an episode that does not end early.
        noise: Noise of sensors and actuators.
        rng: Source of the noise.
    """
    if not noise:
        return simulate(plant, law, steps=steps, initial_states=starts)

    m, d_a = len(starts), len(plant.action_names)
    seen = torch.empty(steps + 1, *starts.shape, dtype=torch.float64)
    actions = torch.zeros(steps, m, d_a, dtype=torch.float64)
    rewards = torch.zeros(steps, m, dtype=torch.float64)
    terminated = torch.zeros(steps, m, dtype=torch.bool)

    states, alive = starts, torch.ones(m, dtype=torch.bool)
    seen[0] = noise.measured(states, rng)
    for t in range(steps):
        asked = plant.applied(torch.as_tensor(law(seen[t].clone()), dtype=torch.float64))
        moved = plant.step(states, noise.disturbed(asked, rng))
        states = torch.where(alive[:, None], moved, states)
        seen[t + 1] = torch.where(alive[:, None], noise.measured(moved, rng), seen[t])
        actions[t] = torch.where(alive[:, None], asked, 0.0)
        rewards[t] = torch.where(alive, plant.reward(seen[t], asked, seen[t + 1]), 0.0)
        terminated[t] = alive & plant.terminal(moved)
        alive = alive & ~terminated[t]
        if not bool(alive.any()):
            seen[t + 2 :] = seen[t + 1]
            break
    return Trajectories(states=seen, actions=actions, rewards=rewards, terminated=terminated)


def integrate(
    rates: Callable[[torch.Tensor], torch.Tensor], states: torch.Tensor, *, time: float, substeps: int
) -> torch.Tensor:
    """Return states (m, d) after some time, by fourth-order Runge-Kutta steps.

    Args:
        rates: Time derivative (m, d) at states (m, d).
        states: States at the beginning.
        time: Time to pass, in the unit of the rates.
        substeps: Number of steps.
    """
    dt = time / substeps
    for _ in range(substeps):
        k_1 = rates(states)
        k_2 = rates(states + dt / 2 * k_1)
        k_3 = rates(states + dt / 2 * k_2)
        k_4 = rates(states + dt * k_3)
        states = states + dt / 6 * (k_1 + 2 * k_2 + 2 * k_3 + k_4)
    return states


def _with_noise(values: torch.Tensor, sizes: tuple[float, ...], rng: torch.Generator) -> torch.Tensor:
    if not any(sizes):
        return values
    draws = torch.randn(values.shape, dtype=torch.float64, generator=rng)
    return values + torch.tensor(sizes, dtype=torch.float64) * draws

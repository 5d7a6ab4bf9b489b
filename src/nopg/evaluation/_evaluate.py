"""Returns of a controller in an environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from nopg._seeding import generator
from nopg._typing import as_tensor
from nopg.data import Schema
from nopg.envs import ControlLaw, Environment, simulate
from nopg.envs._simulate import ClosedLoop, discounted_sums
from nopg.errors import ArgumentError
from nopg.evaluation._control_law import control_law


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Rewards and lengths of episodes.

    Attributes:
        rewards: Reward of every step and episode, 0 after its end, shape (T, m).
        lengths: Number of steps of each episode, shape (m,).
    """

    rewards: torch.Tensor
    lengths: torch.Tensor

    @property
    def returns(self) -> torch.Tensor:
        """The undiscounted sum of rewards of each episode, shape (m,)."""
        return self.rewards.sum(dim=0)

    @property
    def mean(self) -> float:
        """The mean return."""
        return float(self.returns.mean())

    def discounted(self, discount: float) -> float:
        """Return the mean discounted return."""
        return float(discounted_sums(self.rewards, discount).mean())


def evaluate(policy: Any, environment: Any, *, episodes: int, steps: int, seed: int) -> Evaluation:
    """Run a controller in an environment without exploration.

    Args:
        policy: Any controller; see `control_law`.
        environment: One of `nopg.envs`, all episodes at once; or any Gymnasium environment with vectors as
            observations, one episode after another.
        episodes: Number of episodes.
        steps: Maximum number of steps of an episode.
        seed: Seed of the initial states.

    Example:
        >>> from nopg.envs import Pendulum
        >>> rest = evaluate(lambda states: 0 * states[:, :1], Pendulum(), episodes=1, steps=500, seed=0)
        >>> round(rest.mean, 1)
        -4934.8
    """
    if episodes < 1 or steps < 1:
        raise ArgumentError(f"episodes is {episodes} and steps {steps}; give at least 1 of both")
    plant = environment
    if not isinstance(plant, Environment) and hasattr(plant, "unwrapped"):
        plant = getattr(plant.unwrapped, "environment", plant)
    if isinstance(plant, Environment):
        schema = Schema(plant.state_names, plant.action_names, dict(plant.angles))
        law, rng = control_law(policy, schema), generator(seed, "evaluation")
        runs = simulate(plant, law, steps=steps, initial_states=plant.initial(episodes, rng=rng))
        return Evaluation(torch.where(runs.alive, runs.rewards, 0.0), runs.alive.sum(dim=0))
    if not (hasattr(plant, "reset") and hasattr(plant, "observation_space")):
        raise ArgumentError(f"{type(plant).__name__} is no environment; give one of ours or of Gymnasium")
    return _run(plant, policy, episodes, steps, seed)


def _run(env: Any, policy: Any, episodes: int, steps: int, seed: int) -> Evaluation:
    """Run a Gymnasium environment, one episode after another."""
    spaces = env.observation_space.shape, env.action_space.shape
    if any(shape is None or len(shape) != 1 for shape in spaces):
        raise ArgumentError(f"observations and actions have shapes {spaces}; both must be vectors")
    states, actions = (
        Schema.default_names(prefix, shape[0]) for prefix, shape in zip("sa", spaces, strict=True)
    )
    law: ControlLaw = control_law(policy, Schema(states, actions))
    rewards = torch.zeros(steps, episodes, dtype=torch.float64)
    lengths = torch.zeros(episodes, dtype=torch.int64)
    for episode in range(episodes):
        observation, _ = env.reset(seed=seed if episode == 0 else None)
        loop, applied = ClosedLoop(law, states, 1), None
        for t in range(steps):
            action = as_tensor(loop(as_tensor(np.asarray(observation))[None], applied))[0]
            given = action.numpy().astype(env.action_space.dtype)
            observation, reward, terminated, truncated, info = env.step(given)
            applied = as_tensor(info.get("applied_action", given))[None]
            rewards[t, episode], lengths[episode] = float(reward), t + 1
            if terminated or truncated:
                break
    return Evaluation(rewards, lengths)

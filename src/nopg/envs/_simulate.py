"""Simulated episodes of a controller, and their transitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch

from nopg._stream import Streaming
from nopg._typing import ArrayLike, as_tensor
from nopg.data import Transitions
from nopg.envs._environment import Environment
from nopg.errors import ArgumentError

ControlLaw = Callable[[torch.Tensor], ArrayLike]
"""Maps raw states (m, d_s) to actions (m, d_a)."""


class ClosedLoop:
    """The actions of a controller in m episodes side by side, from their start on.

    One with a memory gets the columns that it measures, by name, and the actions that the plant received.
    """

    def __init__(self, controller: ControlLaw, state_names: Sequence[str], episodes: int) -> None:
        self._law, given, self._stream = controller, cast(object, controller), None
        self._columns: list[int] | slice = slice(None)
        if isinstance(given, Streaming) and given.has_memory:
            self._stream = given.stream(batch=episodes)
            measured = self._stream.columns.measured
            if set(measured) <= set(state_names):
                self._columns = [list(state_names).index(name) for name in measured]

    def __call__(self, observations: torch.Tensor, applied: torch.Tensor | None) -> ArrayLike:
        """Return actions (m, d_a) at observations (m, d_s), after those applied in the last step, if any."""
        if self._stream is None:
            return self._law(observations)
        last = None if applied is None else applied.numpy()
        return self._stream.act(observations[:, self._columns].numpy(), last)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Trajectories:
    """m episodes of T steps; after an episode has terminated, its last state repeats, without reward.

    Attributes:
        states: The states, the initial one first, shape (T+1, m, d_s).
        actions: The actions that the plant received, after clipping, shape (T, m, d_a).
        rewards: The rewards of the steps, shape (T, m).
        terminated: True at the terminating step, at most once per episode, shape (T, m).
    """

    states: torch.Tensor
    actions: torch.Tensor
    rewards: torch.Tensor
    terminated: torch.Tensor

    @property
    def alive(self) -> torch.Tensor:
        """True for the steps up to termination, the terminating one included, shape (T, m)."""
        ended = self.terminated.long()
        return ended.cumsum(0) - ended == 0

    @property
    def returns(self) -> torch.Tensor:
        """The undiscounted sum of rewards of each episode, shape (m,)."""
        return self.discounted_returns(1.0)

    def discounted_returns(self, discount: float) -> torch.Tensor:
        """Return Σₜ γᵗ rₜ of each episode, shape (m,); γ may be 1 because the episodes are finite."""
        if not 0 <= discount <= 1:
            raise ArgumentError(f"discount must lie between 0 and 1, got {discount}; try 0.97")
        weights = discount ** torch.arange(len(self.rewards), dtype=self.rewards.dtype)  # (T,)
        return weights @ torch.where(self.alive, self.rewards, 0.0)

    def transitions(self, environment: Environment) -> Transitions:
        """Return the steps up to termination as a dataset, episode after episode.

        The last step of an episode is `terminated` if the environment, which names the columns, terminated
        it, else `truncated`.
        """
        taken = self.alive.T  # (m, T)
        truncated = torch.zeros_like(taken)
        truncated[:, -1] = taken[:, -1] & ~self.terminated[-1]
        numbers = torch.arange(len(taken))[:, None].expand_as(taken)
        return dataset(
            environment,
            self.states[:-1].transpose(0, 1)[taken],
            self.actions.transpose(0, 1)[taken],
            self.rewards.T[taken],
            self.states[1:].transpose(0, 1)[taken],
            terminated=self.terminated.T[taken],
            truncated=truncated[taken],
            episodes=numbers[taken],
        )


def dataset(
    environment: Environment,
    states: torch.Tensor,
    actions: torch.Tensor,
    rewards: torch.Tensor,
    next_states: torch.Tensor,
    **others: Any,
) -> Transitions:
    """Return transitions with the names and the angles of an environment."""
    return Transitions.from_arrays(
        states,
        actions,
        rewards,
        next_states,
        state_names=environment.state_names,
        action_names=environment.action_names,
        angles=environment.angles,
        **others,
    )


def simulate(
    environment: Environment,
    controller: ControlLaw,
    *,
    steps: int,
    initial_states: ArrayLike | None = None,
) -> Trajectories:
    """Run a controller in an environment, all episodes in parallel.

    Args:
        environment: The plant.
        controller: Maps raw states (m, d_s) to actions (m, d_a); its actions in terminated episodes are
            ignored. A trained controller with derived columns gets the measured ones and has its own memory.
        steps: T, the length of an episode that does not terminate, at least 1.
        initial_states: One row (m, d_s) per episode, such as `environment.initial(m, rng=rng)`; by default
            the fixed start of the environment.

    Example:
        >>> from nopg.envs import Pendulum
        >>> rest = simulate(Pendulum(), lambda states: torch.zeros(len(states), 1), steps=500)
        >>> round(rest.returns.item(), 2)  # 500 steps of −π²
        -4934.8
    """
    if steps < 1:
        raise ArgumentError(f"steps must be at least 1, got {steps}")
    start = environment.initial(1) if initial_states is None else as_tensor(initial_states)
    names, shape = environment.state_names, tuple(start.shape)
    if start.ndim != 2 or shape[1] != len(names) or len(start) == 0 or not bool(start.isfinite().all()):
        raise ArgumentError(
            f"initial_states has shape {shape}; give one row of {len(names)} finite numbers "
            f"({', '.join(names)}) per episode"
        )
    m, d_s, d_a = len(start), len(environment.state_names), len(environment.action_names)

    states = torch.empty(steps + 1, m, d_s, dtype=torch.float64)
    actions = torch.zeros(steps, m, d_a, dtype=torch.float64)
    rewards = torch.zeros(steps, m, dtype=torch.float64)
    terminated = torch.zeros(steps, m, dtype=torch.bool)

    states[0] = start
    alive = torch.ones(m, dtype=torch.bool)
    law, a = ClosedLoop(controller, environment.state_names, m), None
    with torch.no_grad():
        for t in range(steps):
            s = states[t]
            # A copy, so that the controller cannot change the record.
            a = environment.applied(_checked(law(s.clone(), a), (m, d_a), t, alive))
            s_next = environment.step(s, a)

            actions[t] = torch.where(alive[:, None], a, 0.0)
            rewards[t] = torch.where(alive, environment.reward(s, a, s_next), 0.0)
            terminated[t] = alive & environment.terminal(s_next)
            states[t + 1] = torch.where(alive[:, None], s_next, s)
            alive = alive & ~terminated[t]
            if not bool(alive.any()):
                states[t + 2 :] = states[t + 1]
                break

    return Trajectories(states=states, actions=actions, rewards=rewards, terminated=terminated)


def _checked(actions: ArrayLike, shape: tuple[int, int], t: int, alive: torch.Tensor) -> torch.Tensor:
    a = as_tensor(actions)
    if a.shape != shape:
        raise ArgumentError(
            f"the controller returned actions of shape {tuple(a.shape)} at step {t}; "
            f"return {shape}, one row per episode"
        )
    if not bool(a[alive].isfinite().all()):
        raise ArgumentError(
            f"the controller returned NaN or infinities at step {t}; look at the states it saw there"
        )
    return a

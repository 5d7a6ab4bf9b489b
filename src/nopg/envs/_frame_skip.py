"""An environment whose actions are held for several steps of another one."""

from dataclasses import dataclass
from typing import Any, final

import torch

from nopg.envs._environment import Environment
from nopg.errors import ArgumentError


def _inner(name: str) -> Any:
    return property(lambda self: getattr(self.environment, name), doc="As in the inner environment.")


@final
@dataclass(frozen=True, slots=True)
class FrameSkip(Environment):
    """An environment in which each action is held for several steps of an inner environment.

    A step far shorter than the bandwidth keeps the paper's model at the same state; hold the actions longer
    then. The rewards of the frames are summed. A terminal state among the frames ends the step.

    A policy learned from such data acts at the same rate: run it in the same `FrameSkip`.

    Attributes:
        environment: The inner environment, whose steps are the frames.
        frames: Number of frames per action, at least 1.

    Example:
        >>> from nopg.envs import Pendulum
        >>> hanging = torch.tensor([[3.14159, 0.0]], dtype=torch.float64)
        >>> slow = FrameSkip(Pendulum(), 4)
        >>> slow.reward(hanging, torch.zeros(1, 1), slow.step(hanging, torch.zeros(1, 1))).round()
        tensor([-39.], dtype=torch.float64)
    """

    environment: Environment
    frames: int

    state_names = _inner("state_names")
    action_names = _inner("action_names")
    angles = _inner("angles")
    state_low = _inner("state_low")
    state_high = _inner("state_high")
    action_low = _inner("action_low")
    action_high = _inner("action_high")

    def __post_init__(self) -> None:
        if self.frames < 1:
            raise ArgumentError(f"an action is held for {self.frames} frames; give at least 1")

    def initial(self, num_states: int, *, rng: torch.Generator | None = None) -> torch.Tensor:
        """Return initial states (num_states, d_s) of the inner environment."""
        return self.environment.initial(num_states, rng=rng)

    def step(self, states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return the states (m, d_s) after the frames, or at the first terminal state among them."""
        return self._hold(states, actions)[0]

    def reward(self, states: torch.Tensor, actions: torch.Tensor, next_states: torch.Tensor) -> torch.Tensor:
        """Return the sums (m,) of the rewards up to the first terminal state."""
        del next_states  # the rewards depend on the frames, which are simulated again
        return self._hold(states, actions)[1]

    def terminal(self, next_states: torch.Tensor) -> torch.Tensor:
        """Return booleans (m,): the terminal states of the inner environment."""
        return self.environment.terminal(next_states)

    def applied(self, actions: torch.Tensor) -> torch.Tensor:
        """Return the actions (m, d_a) that the inner environment applies."""
        return self.environment.applied(actions)

    def _hold(self, states: torch.Tensor, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        s, total = states, torch.zeros(len(states), dtype=torch.float64)
        alive = torch.ones(len(states), dtype=torch.bool)
        for _ in range(self.frames):
            s_next = self.environment.step(s, actions)
            total = torch.where(alive, total + self.environment.reward(s, actions, s_next), total)
            s = torch.where(alive[:, None], s_next, s)
            alive = alive & ~self.environment.terminal(s_next)
        return s, total

"""What every environment offers: pure dynamics, vectorised in float64, without hidden state."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType

import torch

__all__ = ["Environment"]


class Environment(ABC):
    """A task whose dynamics, rewards and ends are pure functions of states and actions.

    States are rows of shape (m, d_s), actions rows of shape (m, d_a), both float64. No method changes its
    inputs or remembers a call; randomness enters only through the generator given to `initial`. The grid
    collector, the rollouts and the adapters all call the same functions.

    `step` and `reward` take the action as the controller asked for it and pass it through `applied`
    themselves; an applied action passes unchanged.

    To add an environment, implement the abstract members; names may be plain class attributes.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def state_names(self) -> tuple[str, ...]:
        """The names of the d_s state dimensions, in order."""

    @property
    @abstractmethod
    def action_names(self) -> tuple[str, ...]:
        """The names of the d_a action dimensions, in order."""

    @property
    def angles(self) -> Mapping[str, float]:
        """The period of each state dimension that is an angle, by name; empty by default."""
        return MappingProxyType({})

    @property
    @abstractmethod
    def state_low(self) -> torch.Tensor:
        """The lower corner (d_s,) of the finite box of states that the collectors span."""

    @property
    @abstractmethod
    def state_high(self) -> torch.Tensor:
        """The upper corner (d_s,) of the finite box of states that the collectors span."""

    @property
    @abstractmethod
    def action_low(self) -> torch.Tensor:
        """The lower corner (d_a,) of the finite box of actions."""

    @property
    @abstractmethod
    def action_high(self) -> torch.Tensor:
        """The upper corner (d_a,) of the finite box of actions."""

    @abstractmethod
    def initial(self, num_states: int, *, rng: torch.Generator | None = None) -> torch.Tensor:
        """Draw states in which the task starts.

        Args:
            num_states: How many states to draw, at least 1.
            rng: The source of randomness; a task with one fixed start needs none.

        Returns:
            Initial states of shape (num_states, d_s).
        """

    @abstractmethod
    def step(self, states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return the states (m, d_s) one time step after acting in the given ones."""

    @abstractmethod
    def reward(self, states: torch.Tensor, actions: torch.Tensor, next_states: torch.Tensor) -> torch.Tensor:
        """Return the rewards (m,) of moving from the states to the next states under the actions."""

    @abstractmethod
    def terminal(self, next_states: torch.Tensor) -> torch.Tensor:
        """Tell, as booleans (m,), which states end the episode for good; a time limit never does."""

    def applied(self, actions: torch.Tensor) -> torch.Tensor:
        """Return the actions (m, d_a) that the plant really receives: by default, clipped to the box."""
        return torch.clamp(actions, self.action_low, self.action_high)

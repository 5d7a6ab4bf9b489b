"""The interface of a plant: pure dynamics, vectorised in float64, without hidden state."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import torch

from nopg.errors import ArgumentError


class Environment(ABC):
    """A task whose dynamics, rewards and terminal states are pure functions of states and actions.

    States are rows of shape (m, d_s), actions rows of shape (m, d_a), both float64. No method changes its
    inputs or keeps state between calls; the only randomness is the generator passed to `initial`.

    `step` and `reward` pass the requested action through `applied` themselves; an applied action does not
    change when it is applied again.

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
    def state_low(self) -> torch.Tensor:
        """The lower corner (d_s,) of the box of states that the collectors sample; −state_high by default."""
        return -self.state_high

    @property
    @abstractmethod
    def state_high(self) -> torch.Tensor:
        """The upper corner (d_s,) of the finite box of states that the collectors sample."""

    @property
    def action_low(self) -> torch.Tensor:
        """The lower corner (d_a,) of the box of actions; −action_high by default."""
        return -self.action_high

    @property
    @abstractmethod
    def action_high(self) -> torch.Tensor:
        """The upper corner (d_a,) of the finite box of actions."""

    @abstractmethod
    def initial(self, num_states: int, *, rng: torch.Generator | None = None) -> torch.Tensor:
        """Return initial states of the task, shape (num_states, d_s).

        Args:
            num_states: Number of states, at least 1.
            rng: The source of randomness; a task with one fixed start needs none.
        """

    @abstractmethod
    def step(self, states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return the states (m, d_s) one time step later."""

    @abstractmethod
    def reward(self, states: torch.Tensor, actions: torch.Tensor, next_states: torch.Tensor) -> torch.Tensor:
        """Return the rewards (m,) of the transitions from the states to the next states."""

    def terminal(self, next_states: torch.Tensor) -> torch.Tensor:
        """Return booleans (m,): which states terminate the episode; none by default.

        A time limit truncates an episode and does not belong here.
        """
        return torch.zeros(next_states.shape[:-1], dtype=torch.bool)

    def applied(self, actions: torch.Tensor) -> torch.Tensor:
        """Return the actions (m, d_a) that the plant receives: clipped to the box by default."""
        return torch.clamp(actions, self.action_low, self.action_high)


def check_numbers(
    plant: object,
    *,
    positive: Sequence[str] = (),
    non_negative: Sequence[str] = (),
    finite: Sequence[str] = (),
) -> None:
    """Refuse a plant with a parameter outside its range."""
    for names, requirement in ((positive, "positive and "), (non_negative, "at least 0 and "), (finite, "")):
        for name in names:
            value = getattr(plant, name)
            allowed = value > 0 if names is positive else value >= 0 or names is finite
            if not (math.isfinite(value) and allowed):
                raise ArgumentError(f"{name} must be {requirement}finite, got {value}; try the default")


def check_initial(num_states: int, rng: torch.Generator | None, *, random: bool) -> None:
    """Refuse a count below 1, and random initial states without a generator."""
    if num_states < 1:
        raise ArgumentError(f"num_states must be at least 1, got {num_states}")
    if random and rng is None:
        raise ArgumentError("the initial states are random, got no generator; pass rng or seed")

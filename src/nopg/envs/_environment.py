"""The interface of a plant: pure dynamics, vectorised in float64, without hidden state."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

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
        """Return initial states (num_states, d_s) of the task; one fixed start needs no generator."""

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


def corner(*values: float) -> Any:
    """Return a property: one corner of a box that is the same for all plants of a class."""
    return property(lambda self: torch.tensor(values, dtype=torch.float64), doc="Corner of the box.")


def check_positive(plant: object, *names: str) -> None:
    """Refuse a plant with a parameter that is not a positive, finite number."""
    for name in names:
        if not 0 < (value := getattr(plant, name)) < math.inf:
            raise ArgumentError(f"{name} must be positive and finite, got {value}; try the default")


def check_initial(num_states: int, rng: torch.Generator | None, *, random: bool) -> None:
    """Refuse a count below 1, and random initial states without a generator."""
    if num_states < 1:
        raise ArgumentError(f"num_states must be at least 1, got {num_states}")
    if random and rng is None:
        raise ArgumentError("the initial states are random, got no generator; pass rng or seed")

"""The interface of a plant: pure dynamics, vectorised in float64, without hidden state; and its check."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch

from nopg._checks import require
from nopg._seeding import generator
from nopg.errors import ArgumentError

# States on which a plant is checked.
_ROWS = 20


class Environment(ABC):
    """A task whose dynamics, rewards and terminal states are pure functions of states and actions.

    States are rows of shape (m, d_s), actions rows of shape (m, d_a), both float64. No method changes its
    inputs or keeps state between calls; the only randomness is the generator passed to `initial`. `step` and
    `reward` pass the requested action through `applied` themselves; an applied action does not change when it
    is applied again. Names and boxes may be plain class attributes; `check_environment` tests the rest.
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
        """Return booleans (m,): which states terminate the episode, time limits apart; none by default."""
        return torch.zeros(next_states.shape[:-1], dtype=torch.bool)

    def applied(self, actions: torch.Tensor) -> torch.Tensor:
        """Return the actions (m, d_a) that the plant receives: clipped to the box by default."""
        return torch.clamp(actions, self.action_low, self.action_high)


def corner(*values: float | str) -> Any:
    """Return a property: one corner of a box, of numbers and attributes by name."""

    def found(self: object) -> torch.Tensor:
        numbers = [getattr(self, one) if isinstance(one, str) else one for one in values]
        return torch.tensor(numbers, dtype=torch.float64)

    return property(found, doc="Corner of the box.")


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
        raise ArgumentError(
            "the initial states are random; pass rng to initial(), and what it returns as initial_states"
        )


def check_environment(plant: Environment) -> None:
    """Raise an `ArgumentError` unless an environment is pure and vectorised; for tests of yours."""
    d_s, d_a, rng = len(plant.state_names), len(plant.action_names), generator(0, "contract of a plant")
    for name, size in {"state_low": d_s, "state_high": d_s, "action_low": d_a, "action_high": d_a}.items():
        corner = getattr(plant, name)
        require(
            tuple(corner.shape) == (size,) and bool(corner.isfinite().all()), f"{name} is no finite ({size},)"
        )
    require(bool((plant.state_low < plant.state_high).all()), "state_low is not below state_high")
    require(bool((plant.action_low < plant.action_high).all()), "action_low is not below action_high")
    require(set(plant.angles) <= set(plant.state_names), "an angle is no state")
    starts = plant.initial(_ROWS, rng=rng)
    require(tuple(starts.shape) == (_ROWS, d_s), f"initial returns shape {tuple(starts.shape)}")

    states = plant.state_low + (plant.state_high - plant.state_low) * _uniform(d_s, rng)
    # Up to half their range beyond the bounds.
    actions = plant.action_low + (plant.action_high - plant.action_low) * (2 * _uniform(d_a, rng) - 0.5)
    given = states.clone(), actions.clone()
    after = plant.step(states, actions)
    rewards, ended = plant.reward(states, actions, after), plant.terminal(after)
    require(tuple(after.shape) == (_ROWS, d_s), f"step returns shape {tuple(after.shape)}")
    require(after.dtype == rewards.dtype == torch.float64, "states or rewards are not float64")
    require(tuple(rewards.shape) == (_ROWS,), f"reward returns shape {tuple(rewards.shape)}")
    require(tuple(ended.shape) == (_ROWS,) and ended.dtype == torch.bool, "terminal returns no booleans (m,)")
    unchanged = torch.equal(states, given[0]) and torch.equal(actions, given[1])
    require(unchanged, "a method changes its inputs")
    require(torch.equal(plant.step(states, actions), after), "step returns something else in the second call")
    rows = range(_ROWS)
    alone = torch.cat([plant.step(states[k : k + 1], actions[k : k + 1]) for k in rows])
    require(torch.allclose(alone, after, rtol=1e-12, atol=1e-13), "a step depends on the other rows")
    applied = plant.applied(actions)
    require(torch.equal(plant.applied(applied), applied), "an applied action changes when applied again")
    require(torch.equal(plant.step(states, applied), after), "step does not pass the action through applied")
    again = plant.reward(states, applied, after)
    require(torch.equal(again, rewards), "reward does not pass the action through applied")


def _uniform(columns: int, rng: torch.Generator) -> torch.Tensor:
    return torch.rand(_ROWS, columns, generator=rng, dtype=torch.float64)

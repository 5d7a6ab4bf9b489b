"""Random agents: behaviours that draw their actions, from a generator they are given."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, final

import torch

from nopg._typing import as_tensor
from nopg.envs._environment import Environment
from nopg.envs._simulate import ControlLaw
from nopg.errors import ArgumentError
from nopg.policies._density import log_normal

__all__ = ["AgentWithDensity", "MixtureOfGaussians", "RandomAgent", "UniformAgent"]


class RandomAgent(ABC):
    """A behaviour with randomness; the generator makes it a controller that can be run."""

    __slots__ = ()

    @abstractmethod
    def controller(self, rng: torch.Generator) -> ControlLaw:
        """Return a controller for one run, which draws from the generator at every step.

        What the agent remembers from step to step lives in that controller, never in the agent.
        """


class AgentWithDensity(RandomAgent):
    """A behaviour of which the density is known, as importance sampling must know it; a person's is not."""

    __slots__ = ()

    @abstractmethod
    def log_density(
        self,
        states: torch.Tensor,
        actions: torch.Tensor,
        *,
        low: torch.Tensor | None = None,
        high: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return log π_β(a | s) of each row, (n,), at raw states (n, d_s) and actions (n, d_a).

        With `low` and `high`, (d_a,), the actions were clipped to this box: an action at a bound has the
        probability of everything beyond it.
        """


@final
@dataclass(frozen=True, slots=True)
class UniformAgent(AgentWithDensity):
    """Actions drawn uniformly from a box, whatever the state.

    The default is the paper's on the cart-pole: uniform, in the ±5 V that its policies are allowed
    (`5 tanh(f(s))` in the supplement's table; the width of the behaviour itself it does not print).

    Attributes:
        low: The smallest value of each of the d_a actions, in their units.
        high: The largest, not below `low`.

    Example:
        >>> controller = UniformAgent(low=(-1.0,), high=(1.0,)).controller(torch.Generator())
        >>> controller(torch.zeros(3, 4)).shape
        torch.Size([3, 1])
    """

    low: Sequence[float] = (-5.0,)
    high: Sequence[float] = (5.0,)

    def __post_init__(self) -> None:
        low, high = as_tensor(self.low), as_tensor(self.high)
        if low.ndim != 1 or low.shape != high.shape or len(low) == 0:
            raise ArgumentError(
                f"low is {self.low} and high is {self.high}; give one number per action in both"
            )
        if not bool((low.isfinite() & high.isfinite() & (low <= high)).all()):
            raise ArgumentError(f"low is {self.low} and high is {self.high}; give finite numbers, low ≤ high")

    @classmethod
    def within(cls, environment: Environment) -> Self:
        """Return the agent that fills the environment's whole box of actions."""
        return cls(low=tuple(environment.action_low.tolist()), high=tuple(environment.action_high.tolist()))

    def controller(self, rng: torch.Generator) -> ControlLaw:
        """Return a controller that draws anew at every step."""
        low, high = as_tensor(self.low), as_tensor(self.high)

        def act(states: torch.Tensor) -> torch.Tensor:
            draws = torch.rand(len(states), len(low), dtype=torch.float64, generator=rng)
            return low + (high - low) * draws

        return act

    def log_density(
        self,
        states: torch.Tensor,
        actions: torch.Tensor,
        *,
        low: torch.Tensor | None = None,
        high: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the same everywhere in the box, −∞ outside."""
        del states
        a, b = as_tensor(self.low), as_tensor(self.high)
        density = torch.where((actions >= a) & (actions <= b), 1.0, 0.0)
        if low is not None:
            density = torch.where(actions <= low, (low - a).clamp(min=0), density)
        if high is not None:
            density = torch.where(actions >= high, (b - high).clamp(min=0), density)
        return (density / (b - a)).log().sum(dim=1)


@final
@dataclass(frozen=True, slots=True)
class MixtureOfGaussians(AgentWithDensity):
    """Actions drawn from a mixture of Gaussians, whatever the state.

    The paper collects its random pendulum data so, from upright, but prints no parameters. The default is
    our choice: three components of equal weight at full torque to either side and at none, each with a
    standard deviation of a third of the torque bound. Neighbours overlap, so that torques in between are
    met too, and about a third of the draws is clipped to the bounds. What is stored is the clipped torque.

    Attributes:
        means: One row of d_a numbers per component.
        standard_deviations: One row of d_a numbers per component, none negative.
        weights: The share of each component, positive; they are divided by their sum.

    Example:
        >>> controller = MixtureOfGaussians().controller(torch.Generator())
        >>> controller(torch.zeros(3, 2)).shape
        torch.Size([3, 1])
    """

    means: Sequence[Sequence[float]] = ((-2.0,), (0.0,), (2.0,))
    standard_deviations: Sequence[Sequence[float]] = ((2 / 3,), (2 / 3,), (2 / 3,))
    weights: Sequence[float] = (1.0, 1.0, 1.0)

    def __post_init__(self) -> None:
        means, sigmas, weights = self._tensors()
        if means.ndim != 2 or means.numel() == 0 or sigmas.shape != means.shape:
            raise ArgumentError(
                f"means have shape {tuple(means.shape)}, standard_deviations {tuple(sigmas.shape)}; "
                "give one row of numbers per component in both, such as ((-1.0,), (1.0,))"
            )
        if weights.shape != means.shape[:1]:
            raise ArgumentError(f"weights is {self.weights}; give one number for each of {len(means)} means")
        if not bool(means.isfinite().all() and (sigmas.isfinite() & (sigmas >= 0)).all()):
            raise ArgumentError("means must be finite, standard_deviations finite and not negative")
        if not bool((weights.isfinite() & (weights > 0)).all()):
            raise ArgumentError(f"weights is {self.weights}; give positive numbers")

    def controller(self, rng: torch.Generator) -> ControlLaw:
        """Return a controller that draws a component and an action anew at every step."""
        means, sigmas, weights = self._tensors()

        def act(states: torch.Tensor) -> torch.Tensor:
            k = torch.multinomial(weights, len(states), replacement=True, generator=rng)
            noise = torch.randn(len(states), means.shape[1], dtype=torch.float64, generator=rng)
            return means[k] + sigmas[k] * noise

        return act

    def log_density(
        self,
        states: torch.Tensor,
        actions: torch.Tensor,
        *,
        low: torch.Tensor | None = None,
        high: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the log of the mixture's density."""
        del states
        means, sigmas, weights = self._tensors()
        of_each = log_normal(actions[:, None], means, sigmas, low=low, high=high).sum(dim=2)  # (n, k)
        return torch.logsumexp(of_each + (weights / weights.sum()).log(), dim=1)

    def _tensors(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return as_tensor(self.means), as_tensor(self.standard_deviations), as_tensor(self.weights)

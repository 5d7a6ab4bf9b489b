"""The behaviours and grids of the paper's datasets, and the densities of such behaviours."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import torch

from nopg._typing import as_tensor
from nopg.envs import ControlLaw, UniformAgent

PENDULUM_GRIDS: Mapping[int, tuple[int, int, int]] = {2 * n * n: (n, n, 2) for n in (10, 15, 20, 25, 30, 40)}
"""The paper's uniform datasets (`tab:pendulum_uniform`): size → points per (angle, velocity, torque)."""


@final
@dataclass(frozen=True, slots=True)
class MixtureOfGaussians:
    """Actions drawn from a mixture of Gaussians, independent of the state.

    The paper collects its random pendulum data so, from upright, but prints no parameters. The default is
    our choice: three components of equal weight at full torque to either side and at 0, each with a standard
    deviation of a third of the torque bound. Neighbouring components overlap, and about a third of the
    draws is clipped to the bounds. The clipped torque is stored.

    Example:
        >>> controller = MixtureOfGaussians().controller(torch.Generator())
        >>> controller(torch.zeros(3, 2)).shape
        torch.Size([3, 1])
    """

    means: Sequence[Sequence[float]] = ((-2.0,), (0.0,), (2.0,))  # One row of d_a numbers per component.
    # One row of d_a numbers per component, none negative.
    standard_deviations: Sequence[Sequence[float]] = ((2 / 3,), (2 / 3,), (2 / 3,))
    # The share of each component, positive; they are divided by their sum.
    weights: Sequence[float] = (1.0, 1.0, 1.0)

    def controller(self, rng: torch.Generator) -> ControlLaw:
        """Return a controller that draws a component and an action at every step."""
        means, sigmas, weights = self.tensors()

        def act(states: torch.Tensor) -> torch.Tensor:
            k = torch.multinomial(weights, len(states), replacement=True, generator=rng)
            noise = torch.randn(len(states), means.shape[1], dtype=torch.float64, generator=rng)
            return means[k] + sigmas[k] * noise

        return act

    def tensors(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return means (k, d_a), standard deviations (k, d_a) and weights (k,)."""
        return as_tensor(self.means), as_tensor(self.standard_deviations), as_tensor(self.weights)


def log_density(
    agent: UniformAgent | MixtureOfGaussians,
    actions: torch.Tensor,
    *,
    low: torch.Tensor | None = None,
    high: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return log π_β(a) of each row of actions (n, d_a), shape (n,).

    With `low` and `high`, (d_a,), the actions were clipped to this box: the density of an action at a bound
    is the probability of all actions beyond it.
    """
    if isinstance(agent, MixtureOfGaussians):
        means, sigmas, weights = agent.tensors()
        of_each = log_normal(actions[:, None], means, sigmas, low=low, high=high).sum(dim=2)  # (n, k)
        return torch.logsumexp(of_each + (weights / weights.sum()).log(), dim=1)
    a, b = as_tensor(agent.low), as_tensor(agent.high)
    density = torch.where((actions >= a) & (actions <= b), 1.0, 0.0)
    if low is not None:
        density = torch.where(actions <= low, (low - a).clamp(min=0), density)
    if high is not None:
        density = torch.where(actions >= high, (b - high).clamp(min=0), density)
    return (density / (b - a)).log().sum(dim=1)


def log_normal(
    actions: torch.Tensor,
    mean: torch.Tensor,
    std: torch.Tensor,
    *,
    low: torch.Tensor | None = None,
    high: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the log density of each action, not summed over the actions, in the shape of all three.

    Actions were clipped to `low` and `high`, if given: that of a bound is the probability of all beyond it.

    Example:
        >>> a = torch.tensor([0.0, 1.0], dtype=torch.float64)
        >>> zero, one = torch.zeros(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64)
        >>> log_normal(a, zero, one, high=one).exp()  # the second is P(x ≥ 1)
        tensor([0.3989, 0.1587], dtype=torch.float64)
    """
    z = (actions - mean) / std
    log_p = -0.5 * z.square() - std.log() - 0.5 * math.log(2 * math.pi)
    if low is not None:
        log_p = torch.where(actions <= low, torch.special.log_ndtr(z), log_p)
    if high is not None:
        log_p = torch.where(actions >= high, torch.special.log_ndtr(-z), log_p)
    return log_p

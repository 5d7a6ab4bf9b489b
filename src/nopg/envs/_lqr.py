"""The linear quadratic regulator of the paper's supplement."""

from dataclasses import dataclass
from typing import final

import numpy as np
import torch

from nopg.envs._environment import Environment, check_initial, check_positive
from nopg.errors import ArgumentError


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LQR(Environment):
    """Bring the linear system x′ = Ax + Bu to rest and maximise ½ Σₜ γᵗ (xᵀQx + uᵀRu).

    Two decoupled, unstable coordinates, x₁′ = 1.2 x₁ + 0.1 u₁ and x₂′ = 1.1 x₂ + 0.2 u₂, each with its own
    action, from (1, 1). Actions are never clipped, so that a linear controller stays linear. The reward takes
    the state *before* the step, with Q = −diag(.5, .25), R = −.01 I and γ = .9. No state is terminal; the
    paper's data are episodes of 30 steps.

    Attributes:
        control: B, shape (2, 2).
        state_bound: Half the width of the box of states that the collectors sample, positive.
        action_bound: Half the width of the box of actions that the collectors sample, positive.

    Example:
        >>> lqr = LQR()
        >>> lqr.step(lqr.initial(1), torch.zeros(1, 2, dtype=torch.float64))
        tensor([[1.2000, 1.1000]], dtype=torch.float64)
    """

    control: tuple[tuple[float, float], tuple[float, float]] = ((0.1, 0.0), (0.0, 0.2))
    state_bound: float = 2.0
    action_bound: float = 15.0

    dynamics = ((1.2, 0.0), (0.0, 1.1))  # A
    state_reward = ((-0.5, 0.0), (0.0, -0.25))  # Q
    action_reward = ((-0.01, 0.0), (0.0, -0.01))  # R
    initial_state, discount = (1.0, 1.0), 0.9
    state_names = ("x1", "x2")
    action_names = ("u1", "u2")

    def __post_init__(self) -> None:
        B = np.array(self.control, dtype=float)
        if B.shape != (2, 2) or not np.isfinite(B).all():
            raise ArgumentError(f"control is {self.control}; give finite numbers of shape (2, 2)")
        check_positive(self, "state_bound", "action_bound")

    @property
    def state_high(self) -> torch.Tensor:
        """The upper corner of the collectors' box, state_bound."""
        return torch.full((2,), self.state_bound, dtype=torch.float64)

    @property
    def action_high(self) -> torch.Tensor:
        """The upper corner of the collectors' box, action_bound."""
        return torch.full((2,), self.action_bound, dtype=torch.float64)

    def initial(self, num_states: int, *, rng: torch.Generator | None = None) -> torch.Tensor:
        """Return x₀ repeated, shape (num_states, 2); the generator is not used."""
        check_initial(num_states, rng, random=False)
        return torch.tensor([self.initial_state], dtype=torch.float64).repeat(num_states, 1)

    def step(self, states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return Ax + Bu for every row, shape (m, 2)."""
        A, B = (torch.tensor(rows, dtype=torch.float64) for rows in (self.dynamics, self.control))
        return states @ A.T + self.applied(actions) @ B.T

    def reward(self, states: torch.Tensor, actions: torch.Tensor, next_states: torch.Tensor) -> torch.Tensor:
        """Return ½(xᵀQx + uᵀRu) for every row, shape (m,)."""
        del next_states  # required by the interface
        Q, R = (torch.tensor(rows, dtype=torch.float64) for rows in (self.state_reward, self.action_reward))
        u = self.applied(actions)
        return 0.5 * ((states @ Q * states).sum(-1) + (u @ R * u).sum(-1))

    def applied(self, actions: torch.Tensor) -> torch.Tensor:
        """Return the actions unchanged."""
        return actions

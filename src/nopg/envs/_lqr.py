"""The linear quadratic regulator of the paper's supplement."""

from dataclasses import dataclass
from typing import final

import numpy as np
import torch

from nopg._checks import check_discount
from nopg.envs._environment import Environment, check_initial, check_positive
from nopg.errors import ArgumentError

Matrix = tuple[tuple[float, ...], ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LQR(Environment):
    """Bring the linear system x′ = Ax + Bu to rest and maximise ½ Σₜ γᵗ (xᵀQx + uᵀRu).

    Two decoupled, unstable coordinates, x₁′ = 1.2 x₁ + 0.1 u₁ and x₂′ = 1.1 x₂ + 0.2 u₂, each with its own
    action. Actions are never clipped, so that a linear controller stays linear. The reward takes the state
    *before* the step, with Q = −diag(.5, .25) and R = −.01 I. No state is terminal; the paper's data are
    episodes of 30 steps.

    Attributes:
        dynamics: A, shape (d_s, d_s).
        control: B, shape (d_s, d_a).
        state_reward: Q, symmetric, shape (d_s, d_s).
        action_reward: R, symmetric, shape (d_a, d_a).
        initial_state: x₀, shape (d_s,), where every episode starts.
        discount: γ, at least 0 and less than 1.
        state_bound: Half the width of the box of states that the collectors sample, positive.
        action_bound: Half the width of the box of actions that the collectors sample, positive.

    Example:
        >>> lqr = LQR()
        >>> lqr.step(lqr.initial(1), torch.zeros(1, 2, dtype=torch.float64))
        tensor([[1.2000, 1.1000]], dtype=torch.float64)
    """

    dynamics: Matrix = ((1.2, 0.0), (0.0, 1.1))
    control: Matrix = ((0.1, 0.0), (0.0, 0.2))
    state_reward: Matrix = ((-0.5, 0.0), (0.0, -0.25))
    action_reward: Matrix = ((-0.01, 0.0), (0.0, -0.01))
    initial_state: tuple[float, ...] = (1.0, 1.0)
    discount: float = 0.9
    state_bound: float = 2.0
    action_bound: float = 15.0

    def __post_init__(self) -> None:
        d_s, d_a = len(self.initial_state), len(self.action_reward)
        shapes = {"initial_state": (d_s,), "dynamics": (d_s, d_s), "control": (d_s, d_a)}
        for name, shape in (shapes | {"state_reward": (d_s, d_s), "action_reward": (d_a, d_a)}).items():
            rows = getattr(self, name)
            try:
                array = np.array(rows, dtype=float)
            except ValueError:
                raise ArgumentError(f"{name} has rows of different lengths; give the shape {shape}") from None
            if array.shape != shape or 0 in shape or not np.isfinite(array).all():
                raise ArgumentError(f"{name} is {rows}; give finite numbers of shape {shape}")
            if name.endswith("_reward") and not np.array_equal(array, array.T):
                raise ArgumentError(
                    f"{name} must be symmetric, got {rows}; try half of it plus its transpose"
                )
        check_discount(self.discount)
        check_positive(self, "state_bound", "action_bound")

    @property
    def state_names(self) -> tuple[str, ...]:
        """x1, x2, … in order."""
        return tuple(f"x{i + 1}" for i in range(len(self.initial_state)))

    @property
    def action_names(self) -> tuple[str, ...]:
        """u1, u2, … in order."""
        return tuple(f"u{i + 1}" for i in range(len(self.action_reward)))

    @property
    def state_high(self) -> torch.Tensor:
        """The upper corner of the collectors' box, state_bound."""
        return torch.full((len(self.initial_state),), self.state_bound, dtype=torch.float64)

    @property
    def action_high(self) -> torch.Tensor:
        """The upper corner of the collectors' box, action_bound."""
        return torch.full((len(self.action_reward),), self.action_bound, dtype=torch.float64)

    def initial(self, num_states: int, *, rng: torch.Generator | None = None) -> torch.Tensor:
        """Return x₀ repeated, shape (num_states, d_s); the generator is not used."""
        check_initial(num_states, rng, random=False)
        return torch.tensor([self.initial_state], dtype=torch.float64).repeat(num_states, 1)

    def step(self, states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return Ax + Bu for every row, shape (m, d_s)."""
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

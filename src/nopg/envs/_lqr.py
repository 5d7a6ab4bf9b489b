"""The linear quadratic regulator of the paper's supplement, with its values and gradients in closed form."""

import math
from dataclasses import dataclass, field
from typing import final

import numpy as np
import scipy.linalg
import torch

from nopg._checks import check_discount
from nopg._typing import ArrayLike, as_tensor
from nopg.envs._environment import Environment
from nopg.errors import ArgumentError

__all__ = ["LQR", "LQRParameters", "UnstableGainError"]

Matrix = tuple[tuple[float, ...], ...]


class UnstableGainError(ArgumentError):
    """The closed loop grows faster than the discount shrinks it: the infinite sum has no value."""


@dataclass(frozen=True, slots=True)
class LQRParameters:
    """The matrices of a regulator x′ = Ax + Bu that maximises ½ Σₜ γᵗ (xᵀQx + uᵀRu).

    The defaults are the supplement's, except the sign of R: printed as +.01, it pays for large actions, so
    that nothing bounds the return. `as_printed` gives the printed problem.

    Attributes:
        dynamics: A, shape (d_s, d_s).
        control: B, shape (d_s, d_a).
        state_reward: Q, symmetric, shape (d_s, d_s).
        action_reward: R, symmetric, shape (d_a, d_a).
        initial_state: x₀, where every episode starts, shape (d_s,).
        discount: γ, at least 0 and less than 1.
        state_bound: Half the width of the box of states that the collectors span, positive.
        action_bound: Half the width of the box of actions that the collectors span, positive.

    Example:
        >>> LQRParameters.as_printed().action_reward
        ((0.01, 0.0), (0.0, 0.01))
    """

    dynamics: Matrix = ((1.2, 0.0), (0.0, 1.1))
    control: Matrix = ((0.1, 0.0), (0.0, 0.2))
    state_reward: Matrix = ((-0.5, 0.0), (0.0, -0.25))
    action_reward: Matrix = ((-0.01, 0.0), (0.0, -0.01))
    initial_state: tuple[float, ...] = (1.0, 1.0)
    discount: float = 0.9
    state_bound: float = 2.0
    action_bound: float = 15.0

    @classmethod
    def as_printed(cls) -> "LQRParameters":
        """Return the supplement's problem to the letter, R = +.01 I, whose return has no maximum."""
        return cls(action_reward=((0.01, 0.0), (0.0, 0.01)))

    def __post_init__(self) -> None:
        d_s, d_a = len(self.initial_state), len(self.action_reward)
        shapes = {
            "initial_state": (d_s,),
            "dynamics": (d_s, d_s),
            "control": (d_s, d_a),
            "state_reward": (d_s, d_s),
            "action_reward": (d_a, d_a),
        }
        for name, shape in shapes.items():
            _check_array(name, getattr(self, name), shape)
        for name in ("state_reward", "action_reward"):
            rows = getattr(self, name)
            if rows != tuple(zip(*rows, strict=True)):
                raise ArgumentError(
                    f"{name} must be symmetric, got {rows}; try half of it plus its transpose"
                )
        check_discount(self.discount)
        for name in ("state_bound", "action_bound"):
            bound = getattr(self, name)
            if not (math.isfinite(bound) and bound > 0):
                raise ArgumentError(f"{name} must be positive and finite, got {bound}; try a value like 2")


@final
@dataclass(frozen=True, slots=True)
class LQR(Environment):
    """Bring a linear system to rest, where the value of every linear controller is known exactly.

    ## Description

    Two decoupled, unstable coordinates, x₁′ = 1.2 x₁ + 0.1 u₁ and x₂′ = 1.1 x₂ + 0.2 u₂, each pushed by its
    own action. Controllers are linear, u = Kx, with a full gain K (d_a, d_s) or a diagonal one given by its
    diagonal (d,); `value`, `expected_return`, `gradient` and `optimal_gain` are exact, so the task judges
    estimators of gradients.

    ## Action Space

    Real numbers without bounds: nothing is clipped, or the closed forms would not hold. The box below is
    only what the collectors span.

    | Num | Action | Min | Max |
    |-----|--------|-----|-----|
    | 0   | `u1`   | −15 | 15  |
    | 1   | `u2`   | −15 | 15  |

    ## Observation Space

    The state itself, unbounded; the box is what the collectors span.

    | Num | Observation | Min | Max |
    |-----|-------------|-----|-----|
    | 0   | `x1`        | −2  | 2   |
    | 1   | `x2`        | −2  | 2   |

    ## Rewards

    r = ½(xᵀQx + uᵀRu) with the state *before* the step, Q = −diag(.5, .25) and R = −.01 I. The paper prints
    R = +.01 I, which rewards effort without limit; `LQRParameters.as_printed()` gives that problem.

    ## Starting State

    Always (1, 1).

    ## Episode End

    No state is terminal. The paper's data are episodes of 30 steps; `horizon=30` gives the exact return and
    gradient over that length, also where the infinite sum diverges, as at the paper's behaviour gains.

    ## Version History

    * v0: the supplement's regulator with R negative.

    Attributes:
        parameters: The matrices, the start and the discount.

    Example:
        >>> lqr = LQR()
        >>> gain = lqr.optimal_gain()
        >>> [round(number, 3) for number in gain.diagonal().tolist()]
        [-6.394, -3.355]
        >>> round(lqr.expected_return(gain), 4)
        -0.8509
        >>> [round(number, 2) for number in lqr.gradient([-3.0, -2.0]).tolist()]
        [-0.54, -0.08]
    """

    parameters: LQRParameters = field(default_factory=LQRParameters)

    @property
    def state_names(self) -> tuple[str, ...]:
        """x1, x2, … in order."""
        return tuple(f"x{i + 1}" for i in range(len(self.parameters.initial_state)))

    @property
    def action_names(self) -> tuple[str, ...]:
        """u1, u2, … in order."""
        return tuple(f"u{i + 1}" for i in range(len(self.parameters.action_reward)))

    @property
    def state_low(self) -> torch.Tensor:
        """The lower corner of the collectors' box, −state_bound."""
        return -self.state_high

    @property
    def state_high(self) -> torch.Tensor:
        """The upper corner of the collectors' box, state_bound."""
        return torch.full((len(self.state_names),), self.parameters.state_bound, dtype=torch.float64)

    @property
    def action_low(self) -> torch.Tensor:
        """The lower corner of the collectors' box, −action_bound."""
        return -self.action_high

    @property
    def action_high(self) -> torch.Tensor:
        """The upper corner of the collectors' box, action_bound."""
        return torch.full((len(self.action_names),), self.parameters.action_bound, dtype=torch.float64)

    def initial(self, num_states: int, *, rng: torch.Generator | None = None) -> torch.Tensor:
        """Return x₀ repeated, shape (num_states, d_s); the generator is not used."""
        del rng  # part of the interface; this task has one start
        if num_states < 1:
            raise ArgumentError(f"num_states must be at least 1, got {num_states}")
        return torch.tensor([self.parameters.initial_state], dtype=torch.float64).repeat(num_states, 1)

    def step(self, states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return Ax + Bu for every row, shape (m, d_s)."""
        A, B = _matrix(self.parameters.dynamics), _matrix(self.parameters.control)
        return states @ A.T + self.applied(actions) @ B.T

    def reward(self, states: torch.Tensor, actions: torch.Tensor, next_states: torch.Tensor) -> torch.Tensor:
        """Return ½(xᵀQx + uᵀRu) for every row, shape (m,)."""
        del next_states  # part of the interface; this task rewards the state it leaves
        Q, R = _matrix(self.parameters.state_reward), _matrix(self.parameters.action_reward)
        u = self.applied(actions)
        return 0.5 * ((states @ Q * states).sum(-1) + (u @ R * u).sum(-1))

    def terminal(self, next_states: torch.Tensor) -> torch.Tensor:
        """Return booleans (m,), all false: the task never ends by itself."""
        return torch.zeros(next_states.shape[:-1], dtype=torch.bool)

    def applied(self, actions: torch.Tensor) -> torch.Tensor:
        """Return the actions unchanged: a regulator that clips is not linear."""
        return actions

    def value(self, gain: ArrayLike, states: ArrayLike, *, horizon: int | None = None) -> torch.Tensor:
        """Return V(x) = xᵀPx, the discounted return of u = Kx from each state, shape (m,).

        Args:
            gain: K (d_a, d_s), or its diagonal (d,).
            states: Where to start, shape (m, d_s).
            horizon: How many rewards to sum; all of them if absent.

        Raises:
            UnstableGainError: If the sum is infinite and √γ(A + BK) has an eigenvalue outside the unit disc.
        """
        x = self._states(states)
        P = self._values(self._gain(gain), horizon)[-1]
        return (x @ P * x).sum(-1)

    def expected_return(
        self, gain: ArrayLike, initial: ArrayLike | None = None, *, horizon: int | None = None
    ) -> float:
        """Return J, the mean value over the initial states, shape (m, d_s); x₀ if absent."""
        states = self.initial(1) if initial is None else initial
        return self.value(gain, states, horizon=horizon).mean().item()

    def gradient(
        self, gain: ArrayLike, initial: ArrayLike | None = None, *, horizon: int | None = None
    ) -> torch.Tensor:
        """Return ∂J/∂K = Σₜ γᵗ (RK + 2γBᵀP₍ₜ₎M) Xₜ with M = A + BK and Xₜ the second moment of xₜ.

        P₍ₜ₎ holds the value of the steps that remain after the next; over an infinite horizon it is always
        the same, and the sum over Xₜ solves a linear equation.

        Args:
            gain: K (d_a, d_s), or its diagonal (d,).
            initial: Where to start, shape (m, d_s), each row with weight 1/m; x₀ if absent.
            horizon: How many rewards to sum; all of them if absent.

        Returns:
            The gradient in the shape of the gain, by all its entries or by its diagonal.

        Raises:
            UnstableGainError: If the sum is infinite and √γ(A + BK) has an eigenvalue outside the unit disc.
        """
        x = self._states(self.initial(1) if initial is None else initial)
        K, gamma = self._gain(gain), self.parameters.discount
        B, R, M = _matrix(self.parameters.control), _matrix(self.parameters.action_reward), self._loop(K)
        values = self._values(K, horizon)
        X = x.T @ x / len(x)

        if horizon is None:
            slope = (R @ K + 2 * gamma * B.T @ values[-1] @ M) @ _discounted_sum(X, M.T, gamma)
        else:
            slope = torch.zeros_like(K)
            for t, P in enumerate(reversed(values[:-1])):
                slope += gamma**t * (R @ K + 2 * gamma * B.T @ P @ M) @ X
                X = M @ X @ M.T

        return slope.diagonal().clone() if as_tensor(gain).ndim == 1 else slope

    def optimal_gain(self) -> torch.Tensor:
        """Return the gain (d_a, d_s) of the best controller, from the discounted Riccati equation.

        Raises:
            ArgumentError: If R is not negative definite, as printed in the paper: no controller is best.
        """
        p = self.parameters
        B, R = _matrix(p.control), _matrix(p.action_reward)
        if bool((torch.linalg.eigvalsh(R) >= 0).any()):
            raise ArgumentError(
                f"action_reward is {p.action_reward}, which pays for large actions, so the return has no "
                "maximum; make it negative definite, or ask for value and gradient only"
            )

        # √γ carries the discount: the undiscounted regulator of (√γA, √γB) has the same values.
        A_g, B_g = (math.sqrt(p.discount) * np.array(rows) for rows in (p.dynamics, p.control))
        cost = scipy.linalg.solve_discrete_are(A_g, B_g, -np.array(p.state_reward) / 2, -R.numpy() / 2)
        P = -torch.as_tensor(cost)

        curvature = R / 2 + p.discount * B.T @ P @ B
        gain: torch.Tensor = -torch.linalg.solve(curvature, p.discount * B.T @ P @ _matrix(p.dynamics))
        return gain

    def _gain(self, gain: ArrayLike) -> torch.Tensor:
        """Return the gain as a matrix (d_a, d_s)."""
        K = as_tensor(gain)
        d_s, d_a = len(self.state_names), len(self.action_names)
        if K.ndim == 1 and d_s == d_a:
            K = torch.diag(K)
        if K.shape != (d_a, d_s):
            raise ArgumentError(
                f"gain has shape {tuple(as_tensor(gain).shape)}; give {(d_a, d_s)} or a diagonal"
            )
        if not bool(K.isfinite().all()):
            raise ArgumentError("gain holds NaN or infinities; give finite numbers")
        return K

    def _states(self, states: ArrayLike) -> torch.Tensor:
        x, d_s = as_tensor(states), len(self.state_names)
        if x.ndim != 2 or x.shape[1] != d_s or len(x) == 0:
            raise ArgumentError(f"states has shape {tuple(x.shape)}; give rows of {d_s} numbers")
        return x

    def _loop(self, K: torch.Tensor) -> torch.Tensor:
        """Return M = A + BK, the dynamics under the gain."""
        return _matrix(self.parameters.dynamics) + _matrix(self.parameters.control) @ K

    def _values(self, K: torch.Tensor, horizon: int | None) -> list[torch.Tensor]:
        """Return P after 0, 1, …, horizon steps, P ← S + γMᵀPM; only its limit for an infinite horizon."""
        Q, R = _matrix(self.parameters.state_reward), _matrix(self.parameters.action_reward)
        gamma, M = self.parameters.discount, self._loop(K)
        S = (Q + K.T @ R @ K) / 2

        if horizon is None:
            _check_stability(M, gamma)
            return [_discounted_sum(S, M, gamma)]
        if horizon < 1:
            raise ArgumentError(
                f"horizon must be at least 1, got {horizon}; leave it out for infinitely many steps"
            )
        values = [torch.zeros_like(S)]
        for _ in range(horizon):
            values.append(S + gamma * M.T @ values[-1] @ M)
        return values


def _matrix(rows: Matrix) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def _discounted_sum(S: torch.Tensor, M: torch.Tensor, gamma: float) -> torch.Tensor:
    """Return Σₜ γᵗ (Mᵀ)ᵗ S Mᵗ, the solution of P = S + γMᵀPM, which is linear in the entries of P."""
    d = len(S)
    system = torch.eye(d * d, dtype=S.dtype) - gamma * torch.kron(M.T.contiguous(), M.T.contiguous())
    P: torch.Tensor = torch.linalg.solve(system, S.reshape(-1)).reshape(d, d)
    return P


def _check_stability(M: torch.Tensor, gamma: float) -> None:
    radius = torch.linalg.eigvals(M).abs().max().item()
    if gamma * radius**2 >= 1:
        raise UnstableGainError(
            f"the closed loop A + BK has spectral radius {radius:.4g}; with discount {gamma} the infinite "
            f"sum needs less than {gamma**-0.5:.4g}; give a horizon, such as the paper's 30 steps"
        )


def _check_array(name: str, rows: Matrix | tuple[float, ...], shape: tuple[int, ...]) -> None:
    try:
        array = np.array(rows, dtype=float)
    except ValueError:
        raise ArgumentError(f"{name} has rows of different lengths; give the shape {shape}") from None
    if array.shape != shape or 0 in shape:
        raise ArgumentError(f"{name} has shape {array.shape}, but the other matrices ask for {shape}")
    if not np.isfinite(array).all():
        raise ArgumentError(f"{name} holds NaN or infinities; give finite numbers")

"""Exact values, gradients and the optimum of linear controllers u = Kx on the LQR, in closed form."""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg
import torch

from nopg._typing import ArrayLike, as_tensor
from nopg.envs import LQR
from nopg.errors import ArgumentError

__all__ = ["UnstableGainError", "exact_gradient", "exact_return", "exact_value", "optimal_gain"]


class UnstableGainError(ArgumentError):
    """The closed loop grows faster than the discount shrinks it: the infinite sum diverges."""


def exact_value(lqr: LQR, gain: ArrayLike, states: ArrayLike, *, horizon: int | None = None) -> torch.Tensor:
    """Return V(x) = xᵀPx, the discounted return of u = Kx from each state, shape (m,).

    Args:
        lqr: The regulator.
        gain: K (d_a, d_s), or its diagonal (d,).
        states: Initial states, shape (m, d_s).
        horizon: Number of rewards; infinite if absent.

    Raises:
        UnstableGainError: If the horizon is infinite and √γ(A + BK) has an eigenvalue outside the unit disc.
    """
    x = _states(lqr, states)
    P = _value_matrices(lqr, _gain(lqr, gain), horizon)[-1]
    return (x @ P * x).sum(-1)


def exact_return(
    lqr: LQR, gain: ArrayLike, initial: ArrayLike | None = None, *, horizon: int | None = None
) -> float:
    """Return J, the mean value over the initial states, shape (m, d_s); x₀ if absent.

    Example:
        >>> round(exact_return(LQR(), optimal_gain(LQR())), 4)
        -0.8509
    """
    states = lqr.initial(1) if initial is None else initial
    return exact_value(lqr, gain, states, horizon=horizon).mean().item()


def exact_gradient(
    lqr: LQR, gain: ArrayLike, initial: ArrayLike | None = None, *, horizon: int | None = None
) -> torch.Tensor:
    """Return ∂J/∂K = Σₜ γᵗ (RK + 2γBᵀP₍ₜ₎M) Xₜ with M = A + BK and Xₜ the second moment of xₜ.

    P₍ₜ₎ is the value of the steps that remain after the next one; for an infinite horizon it is constant, and
    the sum over Xₜ is the solution of a linear equation.

    Args:
        lqr: The regulator.
        gain: K (d_a, d_s), or its diagonal (d,).
        initial: Initial states, shape (m, d_s), each row with weight 1/m; x₀ if absent.
        horizon: Number of rewards; infinite if absent.

    Returns:
        The gradient in the shape of the gain, by all its entries or by its diagonal.

    Raises:
        UnstableGainError: If the horizon is infinite and √γ(A + BK) has an eigenvalue outside the unit disc.

    Example:
        >>> [round(number, 2) for number in exact_gradient(LQR(), [-3.0, -2.0]).tolist()]
        [-0.54, -0.08]
    """
    x = _states(lqr, lqr.initial(1) if initial is None else initial)
    K, gamma = _gain(lqr, gain), lqr.discount
    B, R, M = _matrix(lqr.control), _matrix(lqr.action_reward), _closed_loop(lqr, K)
    values = _value_matrices(lqr, K, horizon)
    X = x.T @ x / len(x)

    if horizon is None:
        slope = (R @ K + 2 * gamma * B.T @ values[-1] @ M) @ _discounted_sum(X, M.T, gamma)
    else:
        slope = torch.zeros_like(K)
        for t, P in enumerate(reversed(values[:-1])):
            slope += gamma**t * (R @ K + 2 * gamma * B.T @ P @ M) @ X
            X = M @ X @ M.T

    return slope.diagonal().clone() if as_tensor(gain).ndim == 1 else slope


def optimal_gain(lqr: LQR) -> torch.Tensor:
    """Return the gain (d_a, d_s) of the best controller, from the discounted Riccati equation.

    Raises:
        ArgumentError: If R is not negative definite, as printed in the paper: no controller is best.

    Example:
        >>> [round(number, 3) for number in optimal_gain(LQR()).diagonal().tolist()]
        [-6.394, -3.355]
    """
    B, R = _matrix(lqr.control), _matrix(lqr.action_reward)
    if bool((torch.linalg.eigvalsh(R) >= 0).any()):
        raise ArgumentError(
            f"action_reward is {lqr.action_reward}, which rewards large actions, so the return has no "
            "maximum; make it negative definite, or compute value and gradient only"
        )

    # √γ carries the discount: the undiscounted regulator of (√γA, √γB) has the same values.
    A_g, B_g = (math.sqrt(lqr.discount) * np.array(rows) for rows in (lqr.dynamics, lqr.control))
    cost = scipy.linalg.solve_discrete_are(A_g, B_g, -np.array(lqr.state_reward) / 2, -R.numpy() / 2)
    P = -torch.as_tensor(cost)

    curvature = R / 2 + lqr.discount * B.T @ P @ B
    gain: torch.Tensor = -torch.linalg.solve(curvature, lqr.discount * B.T @ P @ _matrix(lqr.dynamics))
    return gain


def _gain(lqr: LQR, gain: ArrayLike) -> torch.Tensor:
    """Return the gain as a matrix (d_a, d_s)."""
    K = as_tensor(gain)
    d_s, d_a = len(lqr.state_names), len(lqr.action_names)
    if K.ndim == 1 and d_s == d_a:
        K = torch.diag(K)
    if K.shape != (d_a, d_s):
        raise ArgumentError(f"gain has shape {tuple(as_tensor(gain).shape)}; give {(d_a, d_s)} or a diagonal")
    if not bool(K.isfinite().all()):
        raise ArgumentError("gain holds NaN or infinities; give finite numbers")
    return K


def _states(lqr: LQR, states: ArrayLike) -> torch.Tensor:
    x, d_s = as_tensor(states), len(lqr.state_names)
    if x.ndim != 2 or x.shape[1] != d_s or len(x) == 0:
        raise ArgumentError(f"states has shape {tuple(x.shape)}; give rows of {d_s} numbers")
    return x


def _closed_loop(lqr: LQR, K: torch.Tensor) -> torch.Tensor:
    """Return M = A + BK."""
    return _matrix(lqr.dynamics) + _matrix(lqr.control) @ K


def _value_matrices(lqr: LQR, K: torch.Tensor, horizon: int | None) -> list[torch.Tensor]:
    """Return P after 0, 1, …, horizon steps, P ← S + γMᵀPM; only its limit for an infinite horizon."""
    Q, R = _matrix(lqr.state_reward), _matrix(lqr.action_reward)
    gamma, M = lqr.discount, _closed_loop(lqr, K)
    S = (Q + K.T @ R @ K) / 2

    if horizon is None:
        _check_stability(M, gamma)
        return [_discounted_sum(S, M, gamma)]
    if horizon < 1:
        raise ArgumentError(f"horizon must be at least 1, got {horizon}; leave it out for an infinite one")
    values = [torch.zeros_like(S)]
    for _ in range(horizon):
        values.append(S + gamma * M.T @ values[-1] @ M)
    return values


def _matrix(rows: tuple[tuple[float, ...], ...]) -> torch.Tensor:
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

"""The regulator's exact return and gradient under diagonal gains, and its best gains."""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg
import torch

from nopg._typing import ArrayLike, as_tensor
from nopg.envs import LQR

STEPS = 30
"""Length of the supplement's episodes."""


def exact_return(gains: ArrayLike, std: float = 0.0, *, steps: int = STEPS) -> torch.Tensor:
    """Return J of u ~ N(diag(k) x, σ²I) from x₀, a number that can be differentiated by the gains (2,).

    With M = A + B diag(k) and Xₜ = E[xxᵀ] at time t, of which X₀ = x₀x₀ᵀ,

        J = ½ Σₜ γᵗ [tr((Q + KᵀRK) Xₜ) + σ² tr R],    Xₜ₊₁ = M Xₜ Mᵀ + σ² BBᵀ.

    Example:
        >>> round(float(exact_return([-3.0, -2.0], steps=1)), 2)  # ½(−.5 − .25 − .01·9 − .01·4)
        -0.44
    """
    lqr = LQR()
    rows = (lqr.dynamics, lqr.control, lqr.state_reward, lqr.action_reward)
    A, B, Q, R = (torch.tensor(matrix, dtype=torch.float64) for matrix in rows)
    K = torch.diag(torch.as_tensor(gains, dtype=torch.float64))
    M, S = A + B @ K, Q + K.T @ R @ K
    start = lqr.initial(1)
    X, J = start.T @ start, torch.zeros((), dtype=torch.float64)
    for t in range(steps):
        J = J + 0.5 * lqr.discount**t * ((S * X).sum() + std**2 * R.trace())
        X = M @ X @ M.T + std**2 * B @ B.T
    return J


def exact_gradient(gains: ArrayLike, std: float = 0.0, *, steps: int = STEPS) -> torch.Tensor:
    """Return ∂J/∂k, shape (2,)."""
    k = as_tensor(gains).detach().clone().requires_grad_()
    with torch.enable_grad():
        (slope,) = torch.autograd.grad(exact_return(k, std, steps=steps), k)
    return slope


def optimum() -> tuple[torch.Tensor, float]:
    """Return the best gains (2,) and their return, from the discounted Riccati equation.

    Example:
        >>> gains, best = optimum()
        >>> [round(gain, 3) for gain in gains.tolist()], round(best, 4)
        ([-6.394, -3.355], -0.8509)
    """
    lqr = LQR()
    # √γ carries the discount: the undiscounted regulator of (√γA, √γB) has the same values.
    A, B = (math.sqrt(lqr.discount) * np.array(rows) for rows in (lqr.dynamics, lqr.control))
    Q, R = (-np.array(rows) / 2 for rows in (lqr.state_reward, lqr.action_reward))
    P = scipy.linalg.solve_discrete_are(A, B, Q, R)
    gains = -np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A).diagonal()
    start = np.array(lqr.initial_state)
    return torch.tensor(gains), -float(start @ P @ start)

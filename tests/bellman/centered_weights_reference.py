"""Weights with a given mean a second time: row by row, on a tape."""

from __future__ import annotations

import math

import torch

__all__ = ["dense_weights"]

_MOST_STEPS = 200


def dense_weights(y: torch.Tensor, mask: torch.Tensor, slack: float) -> torch.Tensor:
    """Return P (m, n) ∝ exp(−½‖y‖² + λ·y) with ΣPy = −ρλ, differentiable by the offsets y (m, n, d).

    λ is found row by row off the tape. Two Newton steps on the tape move it by rounding, but carry its
    derivative: that of an implicit function.
    """
    base = (-0.5 * y.square().sum(dim=2)).masked_fill(mask == 0, -math.inf)
    with torch.no_grad():
        rows = zip(base, y, strict=True)
        tilt = torch.stack([_tilt(row, points, slack) for row, points in rows])
    for _ in range(2):
        gradient, hessian = _derivatives(base, y, tilt, slack)
        tilt = tilt - torch.linalg.solve(hessian, gradient)
    return torch.softmax(base + (y @ tilt[:, :, None])[:, :, 0], dim=1)


def _tilt(base: torch.Tensor, y: torch.Tensor, slack: float) -> torch.Tensor:
    """Minimise log Σ exp(base + λ·y) + ½ρ‖λ‖² for one row: base (n,), y (n, d)."""

    def objective(tilt: torch.Tensor) -> float:
        return float(torch.logsumexp(base + y @ tilt, dim=0) + 0.5 * slack * tilt @ tilt)

    tilt = torch.zeros(y.shape[1], dtype=torch.float64)
    for _ in range(_MOST_STEPS):
        gradient, hessian = _derivatives(base[None], y[None], tilt[None], slack)
        step = torch.linalg.solve(hessian, gradient)[0]
        if float(gradient[0] @ step) < 1e-20:
            return tilt
        length, before = 1.0, objective(tilt)
        while objective(tilt - length * step) > before + 1e-13 * (1 + abs(before)):
            length /= 2
        tilt = tilt - length * step
    return tilt


def _derivatives(
    base: torch.Tensor, y: torch.Tensor, tilt: torch.Tensor, slack: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return gradient (m, d) and second derivative (m, d, d) by λ (m, d)."""
    P = torch.softmax(base + (y @ tilt[:, :, None])[:, :, 0], dim=1)[:, :, None]
    mean = (P * y).sum(dim=1)
    second = (P * y).transpose(1, 2) @ y - mean[:, :, None] * mean[:, None]
    return mean + slack * tilt, second + slack * torch.eye(y.shape[2], dtype=torch.float64)

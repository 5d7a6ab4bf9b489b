"""Non-negative interpolation weights without a first-order error.

The mean of kernel weights around a place is biased towards the side with more nodes, and a policy learns to
exploit the bias. The weights below are centred as well: they solve

    max over P ≥ 0, ΣP = 1 of   entropy(P) − ½ Σ Pₖ‖yₖ‖² − ‖Σ Pₖyₖ‖²/(2ρ),

where yₖ is the offset of node k from the place in bandwidths. Without the last term P is the Gaussian kernel.
For ρ → 0 the mean offset goes to 0 wherever the nodes surround the place: the local maximum-entropy
approximants of Arroyo and Ortiz (2006). The slack ρ keeps P unique and smooth where they do not.
"""

from __future__ import annotations

import torch
from torch import Tensor

# Places outside the hull of nodes many widths apart need hundreds of steps.
_MAX_STEPS = 1_000
_SMALL_DECREMENT = 1e-13
# Below this decrement a full Newton step always decreases the objective.
_SHORT_STEP = 1e-2
_MAX_HALVINGS = 60


def centered_weights(offsets: Tensor, log_psi: Tensor, slack: float) -> tuple[Tensor, Tensor]:
    """Return P (m, K) ∝ exp(−½‖yₖ‖² + λ·yₖ) and λ (m, d), λ such that Σ Pₖyₖ = −ρλ.

    λ minimises log Σ exp(−½‖yₖ‖² + λ·yₖ) + ½ρ‖λ‖², which is strongly convex: damped Newton.

    Args:
        offsets: y, from the place to each node in bandwidths, shape (m, K, d).
        log_psi: 0 at a node, −∞ at padding, shape (m, K).
        slack: ρ, positive.

    Example:
        >>> y = torch.tensor([[[-1.0], [0.5], [2.0]]], dtype=torch.float64)
        >>> P, _ = centered_weights(y, torch.zeros(1, 3, dtype=torch.float64), 1e-9)
        >>> abs(float((P[..., None] * y).sum())) < 1e-8
        True
    """
    y, base = offsets, log_psi - 0.5 * offsets.square().sum(dim=2)
    tilt, weights = offsets.new_zeros(len(offsets), offsets.shape[2]), torch.softmax(base, dim=1)
    left = torch.arange(len(offsets))  # rows that have not converged
    at, P = tilt, weights
    for _ in range(_MAX_STEPS):
        mean = (P[:, None] @ y)[:, 0]
        apart = y - mean[:, None]
        hessian = (P[:, :, None] * apart).mT @ apart
        hessian.diagonal(dim1=1, dim2=2).add_(slack)
        gradient = mean + slack * at
        step = torch.cholesky_solve(gradient[:, :, None], torch.linalg.cholesky(hessian))[:, :, 0]
        decrement = (gradient * step).sum(dim=1)
        at = at - _lengths(y, base, at, step=step, slope=decrement, slack=slack)[:, None] * step
        P = torch.softmax(_tilted(base, y, at), dim=1)
        tilt[left], weights[left] = at, P
        # Convergence is quadratic: the step just taken squares the decrement.
        far = (decrement > _SMALL_DECREMENT).nonzero()[:, 0]
        if len(far) == 0:
            break
        if len(far) < len(left):
            left, y, base, at, P = left[far], y[far], base[far], at[far], P[far]
    return weights, tilt


def _tilted(base: Tensor, y: Tensor, tilt: Tensor) -> Tensor:
    return base + (y @ tilt[:, :, None])[:, :, 0]


def _lengths(y: Tensor, base: Tensor, at: Tensor, *, step: Tensor, slope: Tensor, slack: float) -> Tensor:
    """Return t of λ − tΔ, shape (m,): 1 for a short step.

    Otherwise t is halved until the objective decreases by a quarter of t times the slope along Δ.
    """
    lengths = torch.ones_like(slope)
    far = (slope > _SHORT_STEP).nonzero()[:, 0]
    y, base, at, step, slope = y[far], base[far], at[far], step[far], slope[far]

    def objective(tilt: Tensor) -> Tensor:
        return torch.logsumexp(_tilted(base, y, tilt), dim=1) + 0.5 * slack * tilt.square().sum(dim=1)

    before, length = objective(at), torch.ones_like(slope)
    rounding = 1e-14 * (1.0 + before.abs())
    for _ in range(_MAX_HALVINGS):
        falls = objective(at - length[:, None] * step) <= before - 0.25 * length * slope + rounding
        if bool(falls.all()):
            break
        length = torch.where(falls, length, 0.5 * length)
    lengths[far] = length
    return lengths

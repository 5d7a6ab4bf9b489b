"""Non-negative interpolation weights without a first-order error.

The mean of kernel weights around a place is biased towards the side with more nodes, and a policy learns to
exploit the bias. The weights below are centred as well: they solve

    max over P ≥ 0, ΣP = 1 of   entropy(P) − ½ Σ Pₖ‖yₖ‖² − ‖Σ Pₖyₖ‖²/(2ρ),

where yₖ is the offset of node k from the place in bandwidths. Without the last term P is the Gaussian kernel.
For ρ → 0 the mean offset goes to 0 wherever the nodes surround the place: the local maximum-entropy
approximants of Arroyo and Ortiz (2006). The slack ρ keeps P unique and smooth where they do not.
"""

from __future__ import annotations

import numpy as np
import torch

from nopg._typing import FloatArray, IntArray

# Places outside the hull of nodes many widths apart need hundreds of steps.
_MAX_STEPS = 1_000
_SMALL_DECREMENT = 1e-13
# Below this decrement a full Newton step always decreases the objective.
_SHORT_STEP = 1e-2
# Halvings of a step go on until it is a rounding of itself.
_SHORTEST = 2.0**-60


def centered_weights(offsets: FloatArray, log_psi: FloatArray, slack: float) -> tuple[FloatArray, FloatArray]:
    """Return P (K, m) ∝ exp(log ψ − ½‖yₖ‖² + λ·yₖ) and λ (d, m), λ such that Σ Pₖyₖ = −ρλ.

    λ minimises log Σ exp(log ψ − ½‖yₖ‖² + λ·yₖ) + ½ρ‖λ‖², which is strongly convex: damped Newton.

    Args:
        offsets: y, from the places to each of their nodes in bandwidths, shape (d, K, m).
        log_psi: Logarithm of a factor of the kernel, shape (K, m).
        slack: ρ, positive.

    Example:
        >>> y = np.array([[[-1.0], [0.5], [2.0]]])
        >>> P, _ = centered_weights(y, np.zeros((3, 1)), 1e-9)
        >>> abs((P * y).sum()) < 1e-8
        np.True_
    """
    y, base = offsets, log_psi - 0.5 * np.square(offsets).sum(axis=0)
    tilt: FloatArray = np.zeros((len(y), y.shape[2]))
    weights = np.empty(base.shape)
    left = np.arange(y.shape[2])  # places that have not converged
    at = tilt
    P, objective = _tilted(base, y, at, slack)
    for _ in range(_MAX_STEPS):
        step, decrement = _newton_step(P, y, at, slack)
        at, P, objective = _line_search(base, y, at, slack, step=step, slope=decrement, objective=objective)
        tilt[:, left], weights[:, left] = at, P
        # Convergence is quadratic: the step just taken squares the decrement.
        far = np.flatnonzero(decrement > _SMALL_DECREMENT)
        if len(far) == 0:
            break
        if len(far) < len(left):
            left, objective = left[far], objective[far]
            y, base, at, P = (_take(one, far) for one in (y, base, at, P))
    return weights, tilt


def _tilted(base: FloatArray, y: FloatArray, tilt: FloatArray, slack: float) -> tuple[FloatArray, FloatArray]:
    """Return the weights of a tilt (d, m), and the objective (m,)."""
    P: FloatArray = base + (tilt[:, None] * y).sum(axis=0)
    top = P.max(axis=0)
    np.exp(np.subtract(P, top, out=P), out=P)
    total = P.sum(axis=0)
    P /= total
    return P, top + np.log(total) + 0.5 * slack * np.square(tilt).sum(axis=0)


def _newton_step(P: FloatArray, y: FloatArray, at: FloatArray, slack: float) -> tuple[FloatArray, FloatArray]:
    """Return the Newton step (d, m) and its decrement (m,)."""
    mean = (P * y).sum(axis=1)
    apart = y - mean[:, None]
    hessian = torch.as_tensor(np.einsum("ikm,jkm->mij", P * apart, apart))
    hessian.diagonal(dim1=1, dim2=2).add_(slack)
    gradient = mean + slack * at
    right = torch.as_tensor(np.ascontiguousarray(gradient.T))[:, :, None]
    step = torch.cholesky_solve(right, torch.linalg.cholesky(hessian))[:, :, 0].numpy().T
    return step, (gradient * step).sum(axis=0)


def _line_search(
    base: FloatArray,
    y: FloatArray,
    at: FloatArray,
    slack: float,
    *,
    step: FloatArray,
    slope: FloatArray,
    objective: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return λ − tΔ with its weights and objective: t is 1 for a short step.

    Otherwise t is halved until the objective decreases by a quarter of t times the slope along Δ.
    """
    length, to = np.ones_like(slope), at - step
    P, after = _tilted(base, y, to, slack)
    most = objective + 1e-14 * (1.0 + np.abs(objective))
    some = np.flatnonzero((slope > _SHORT_STEP) & (after > most - 0.25 * slope))
    while len(some):
        length[some] *= 0.5
        to[:, some] = at[:, some] - length[some] * step[:, some]
        P[:, some], after[some] = _tilted(_take(base, some), _take(y, some), to[:, some], slack)
        rises = after[some] > most[some] - 0.25 * length[some] * slope[some]
        some = some[rises & (length[some] > _SHORTEST)]
    return to, P, after


def _take(values: FloatArray, places: IntArray) -> FloatArray:
    """Return values (…, m) of some places."""
    found: FloatArray = np.take(values, places, axis=-1, mode="clip")
    return found

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

Columns = tuple[Tensor, ...]

# A block of this size stays in the cache.
_ENTRIES_AT_ONCE = 1 << 16
# Places outside the hull of nodes many widths apart need hundreds of steps.
_MAX_STEPS = 1_000
_SMALL_DECREMENT = 1e-13
# Below this decrement a full Newton step always decreases the objective.
_SHORT_STEP = 1e-2
_MAX_HALVINGS = 60
# With more columns products of matrices are faster than a loop over columns.
_FEW_COLUMNS = 8


def centered_weights(
    offsets: Tensor, log_psi: Tensor, slack: float, start: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return P (m, K) ∝ exp(−½‖yₖ‖² + λ·yₖ) and λ (m, d), λ such that Σ Pₖyₖ = −ρλ.

    λ minimises log Σ exp(−½‖yₖ‖² + λ·yₖ) + ½ρ‖λ‖², which is strongly convex: damped Newton.

    Args:
        offsets: y, from the place to each node in bandwidths, shape (m, K, d).
        log_psi: 0 at a node, −∞ at padding, shape (m, K).
        slack: ρ, positive.
        start: λ of places nearby, shape (m, d); 0 if not given.

    Example:
        >>> y = torch.tensor([[[-1.0], [0.5], [2.0]]], dtype=torch.float64)
        >>> P, _ = centered_weights(y, torch.zeros(1, 3, dtype=torch.float64), 1e-9)
        >>> abs(float((P[..., None] * y).sum())) < 1e-8
        True
    """
    guess = offsets.new_zeros(len(offsets), offsets.shape[2]) if start is None else start
    some = max(_ENTRIES_AT_ONCE // log_psi.shape[1], 1)
    parts = [
        _centered(*rows, slack)
        for rows in zip(offsets.split(some), log_psi.split(some), guess.split(some), strict=True)
    ]
    return torch.cat([weights for weights, _ in parts]), torch.cat([tilt for _, tilt in parts])


def _centered(offsets: Tensor, log_psi: Tensor, start: Tensor, slack: float) -> tuple[Tensor, Tensor]:
    """Return P and λ of a few rows."""
    columns = tuple(column.contiguous() for column in offsets.unbind(2))
    kernel = log_psi.clone()
    for column in columns:
        kernel -= 0.5 * column.square()
    tilt = start
    weights = torch.softmax(_tilted(kernel, columns, tilt), dim=1)
    left = torch.arange(len(offsets))  # rows that have not converged
    y, base, at, P = columns, kernel, tilt, weights
    for _ in range(_MAX_STEPS):
        gradient, step = _newton(y, P, at, slack)
        decrement = (gradient * step).sum(dim=1)

        at, logits = _step(y, base, at, step, decrement=decrement, slack=slack)
        P = torch.softmax(logits, dim=1)
        if len(left) == len(offsets):
            tilt, weights = at, P
        else:
            tilt[left], weights[left] = at, P
        # Convergence is quadratic: the step just taken squares the decrement.
        far = (decrement > _SMALL_DECREMENT).nonzero()[:, 0]
        if len(far) == 0:
            break
        if len(far) < len(left):
            left, base, at, P = left[far], base[far], at[far], P[far]
            y = tuple(column[far] for column in y)
    return weights, tilt


def _newton(y: Columns, weights: Tensor, at: Tensor, slack: float) -> tuple[Tensor, Tensor]:
    """Return the gradient of the objective and the step of Newton, both (m, d)."""
    if len(y) <= _FEW_COLUMNS:
        mean, covariance = _moments(y, weights)
        gradient = mean + slack * at
        return gradient, _solve(covariance, slack, gradient)
    offsets = torch.stack(y, dim=2)
    mean = (weights[:, None] @ offsets)[:, 0]
    apart = offsets - mean[:, None]
    hessian = (weights[:, :, None] * apart).mT @ apart
    hessian.diagonal(dim1=1, dim2=2).add_(slack)
    gradient = mean + slack * at
    factor = torch.linalg.cholesky(hessian)
    return gradient, torch.cholesky_solve(gradient[:, :, None], factor)[:, :, 0]


def _moments(y: Columns, weights: Tensor) -> tuple[Tensor, list[Columns]]:
    """Return the mean (m, d) and the lower half of the covariance, d rows of (m,), of columns y of (m, K)."""
    # Column by column: with few columns that is many times faster than products of small matrices.
    mean = torch.stack([(weights * column).sum(dim=1) for column in y], dim=1)
    apart = [column - mean[:, k, None] for k, column in enumerate(y)]
    weighted = [weights * column for column in apart]
    covariance = [
        tuple((weighted[row] * apart[column]).sum(dim=1) for column in range(row + 1))
        for row in range(len(y))
    ]
    return mean, covariance


def _solve(covariance: list[Columns], slack: float, right: Tensor) -> Tensor:
    """Return (C + ρI)⁻¹ b for right-hand sides b (m, d), by Cholesky factors of all m matrices at once."""
    d = len(covariance)
    L: list[list[Tensor]] = [[] for _ in range(d)]
    for row in range(d):
        for column in range(row + 1):
            rest = covariance[row][column] + slack if row == column else covariance[row][column]
            for k in range(column):
                rest = rest - L[row][k] * L[column][k]
            L[row].append(rest.sqrt() if row == column else rest / L[column][column])

    forward: list[Tensor] = []
    for row in range(d):
        rest = right[:, row]
        for k in range(row):
            rest = rest - L[row][k] * forward[k]
        forward.append(rest / L[row][row])
    solution: list[Tensor] = []  # from the last to the first
    for row in reversed(range(d)):
        rest = forward[row]
        for k in range(row + 1, d):
            rest = rest - L[k][row] * solution[d - 1 - k]
        solution.append(rest / L[row][row])
    return torch.stack(solution[::-1], dim=1)


def _tilted(base: Tensor, y: Columns, tilt: Tensor) -> Tensor:
    logits = base
    for k, column in enumerate(y):
        logits = logits + tilt[:, k, None] * column
    return logits


def _step(
    y: Columns, base: Tensor, at: Tensor, step: Tensor, *, decrement: Tensor, slack: float
) -> tuple[Tensor, Tensor]:
    """Return λ − tΔ and its logits; t is 1 for a short step.

    Otherwise t is halved until the objective decreases by a quarter of t times the decrement.
    """
    there = at - step
    logits = _tilted(base, y, there)
    far = (decrement > _SHORT_STEP).nonzero()[:, 0]
    if len(far) == 0:
        return there, logits

    def objective(tilt: Tensor, logits: Tensor) -> Tensor:
        return torch.logsumexp(logits, dim=1) + 0.5 * slack * tilt.square().sum(dim=1)

    y = tuple(column[far] for column in y)
    base, at, step, decrement = base[far], at[far], step[far], decrement[far]
    before = objective(at, _tilted(base, y, at))
    rounding = 1e-14 * (1.0 + before.abs())
    length, tilt, tilted = torch.ones_like(decrement), there[far], logits[far]
    for _ in range(_MAX_HALVINGS):
        falls = objective(tilt, tilted) <= before - 0.25 * length * decrement + rounding
        if bool(falls.all()):
            break
        length = torch.where(falls, length, 0.5 * length)
        tilt = at - length[:, None] * step
        tilted = _tilted(base, y, tilt)
    there[far], logits[far] = tilt, tilted
    return there, logits

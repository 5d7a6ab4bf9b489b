"""Value nodes: states that carry the values of a Bellman equation, and smooth interpolation between them.

The mean of kernel weights around a place is biased towards the side with more nodes, and a policy learns to
exploit the bias. `centered_weights` are centred as well: they solve

    max over P ≥ 0, ΣP = 1 of   entropy(P) − ½ Σ Pₖ‖yₖ‖² − ‖Σ Pₖyₖ‖²/(2ρ),

where yₖ is the offset of node k from the place in bandwidths. Without the last term P is the Gaussian kernel.
For ρ → 0 the mean offset goes to 0 wherever the nodes surround the place: the local maximum-entropy
approximants of Arroyo and Ortiz (2006). The slack ρ keeps P unique and smooth where they do not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial import cKDTree

from nopg._typing import FloatArray, IntArray
from nopg.models import LocalModel
from nopg.models._charts import farthest_points
from nopg.models._regression_rows import StateCoordinates

_INTERPOLATED = 16
# Bandwidth of the weights in spacings of the nodes around, and how far weights may be off centre.
_WIDTH, _SLACK = 0.35, 1e-2
_MOST_CANDIDATES = 10_000
_TINY = 1e-12
# The first node left out counts as farther by this factor: at equal distances weights are not 0.
_WIDER = 1.0 + 1e-6

# Places outside the hull of nodes many widths apart need hundreds of steps.
_MAX_STEPS = 1_000
_SMALL_DECREMENT = 1e-13
# Below this decrement a full Newton step always decreases the objective.
_SHORT_STEP = 1e-2
# Halvings of a step go on until it is a rounding of itself.
_SHORTEST = 2.0**-60


@dataclass(frozen=True, slots=True)
class Interpolation:
    """Non-negative weights on the nodes nearest to some states; they sum to 1 and are smooth in the states.

    With z the coordinates of s in their units u, xₖ = (zₖ − z)/u, D = ‖x_last‖² the squared distance to the
    first node left out and h = c√D, weights of the offsets yₖ = xₖ/h are P ∝ ψ exp(−½‖y‖² + λ·y) with
    ψ = (1 − ‖x‖²/D)², λ such that the mean offset is −ρλ.
    """

    near: torch.Tensor  # numbers of the nodes, (m, k)
    weights: torch.Tensor  # P, (m, k)
    tilt: FloatArray  # λ, (d_z, m)
    offsets: FloatArray  # x of the nodes and of the first one left out, (d_z, k + 1, m)
    share: float  # c
    coordinates: StateCoordinates  # z of states

    def values(self, x: torch.Tensor) -> torch.Tensor:
        """Return Σ Pₖxₖ (m,) for values x (m, k) at the nodes."""
        return (self.weights * x).sum(dim=1)

    def slopes(self, x: torch.Tensor) -> torch.Tensor:
        """Return the derivative (m, d_s) of `values` by the raw states; λ is differentiated implicitly."""
        P, last = self.weights.numpy().T, _last(self.offsets)
        apart, straight = self.offsets[:, : len(P)], 1.0 / (self.share * np.sqrt(last))
        y, stretched = straight * apart, -_WIDER * self.offsets[:, -1] / last  # ∂log h
        mean = (P * y).sum(axis=1)
        centered = y - mean[:, None]
        covariance = np.einsum("ikm,jkm->mij", P * centered, centered) + _SLACK * np.eye(len(y))
        away = P * (x.numpy().T - self.values(x).numpy())
        w = np.linalg.solve(covariance, (away * y).sum(axis=1).T[:, :, None])[:, :, 0].T
        shares = away - P * (w[:, None] * centered).sum(axis=0)
        # ∂y = −1/h − y ⊗ ∂log h; −½‖y‖² + λ·y and ψ follow by the chain rule.
        pull, ratio = y - self.tilt[:, None], _ratio(apart, last)
        by_logit = straight * pull + (pull * y).sum(axis=0) * stretched[:, None]
        by_logit += 4.0 / (1.0 - ratio) * (apart / last + ratio * stretched[:, None])
        # The mean offset moves by ∂ȳ even where the weights stand still.
        moved = -w * straight - (w * mean).sum(axis=0) * stretched
        by_z = ((shares * by_logit).sum(axis=1) - moved).T / self.coordinates.space.units.numpy()
        return self.coordinates.slopes(torch.as_tensor(by_z))


def _last(offsets: FloatArray) -> FloatArray:
    """Return the squared distance (m,) to the first node left out, which the others stay within."""
    found: FloatArray = _WIDER * np.maximum(np.square(offsets[:, -1]).sum(axis=0), _TINY)
    return found


def _ratio(apart: FloatArray, last: FloatArray) -> FloatArray:
    """Return the squared distances (k, m) of nodes in units of the last one, below 1."""
    found: FloatArray = np.minimum(np.square(apart).sum(axis=0) / last, 1.0 - 1e-9)
    return found


class Nodes:
    """Distinct raw states (m, d_s) that carry values, near each other in some coordinates."""

    def __init__(self, states: torch.Tensor, coordinates: StateCoordinates) -> None:
        self.states, self._coordinates, space = states, coordinates, coordinates.space
        self._places = coordinates.at(states)
        self._tree = cKDTree(space.embed(self._places).numpy())
        d = self._places.shape[1]
        ball = math.pi ** (d / 2) / math.gamma(d / 2 + 1)
        self._share = _WIDTH * (ball / _INTERPOLATED) ** (1 / d)
        distances, _ = self._tree.query(self._tree.data, k=min(2, len(states)))
        self.spacing = float(torch.as_tensor(distances).reshape(len(states), -1)[:, -1].median())

    @classmethod
    def covering(cls, model: LocalModel, count: int, visited: torch.Tensor | None = None) -> Nodes:
        """Return at most `count` nodes that cover the log of a model by a farthest-point rule.

        Half of them cover the states (v, d_s) that a controller visits, if there are some.
        """
        data, few = model.data, model.rows.first[model.rows.sample[:_MOST_CANDIDATES]]
        logged = torch.cat([data.states[few], data.next_states[few][~data.terminated[few]]])
        if visited is None or len(visited) == 0:
            return cls(_cover(logged, model.coordinates, count), model.coordinates)
        mine = _cover(visited, model.coordinates, count // 2)
        return cls(_cover(torch.cat([mine, logged]), model.coordinates, count, len(mine)), model.coordinates)

    def __len__(self) -> int:
        return len(self.states)

    def value(self, states: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Return values x of the nodes, shape (n,), interpolated at raw states (m, d_s)."""
        between = self.interpolate(states)
        return between.values(x[between.near])

    def interpolate(self, states: torch.Tensor) -> Interpolation:
        """Return the weights at raw states (m, d_s)."""
        space, count, z = self._coordinates.space, len(self.states), self._coordinates.at(states)
        k = min(_INTERPOLATED, count - 1) or 1
        _, found = self._tree.query(space.embed(z).numpy(), k=[*range(1, min(k + 1, count) + 1)])
        near = torch.as_tensor(found)
        apart = space.offsets(z[:, None], self._places[near])  # (m, k + 1, d_z), from the state
        if bool((space.periods > 0).any()):  # an angle's arc and chord may disagree on who is last
            order = apart.square().sum(dim=2).argsort(dim=1, stable=True)
            near, apart = near.gather(1, order), apart.gather(1, order[:, :, None].expand_as(apart))
        offsets = np.ascontiguousarray(apart.permute(2, 1, 0).numpy())
        last = _last(offsets)
        y = offsets[:, :k] / (self._share * np.sqrt(last))
        P, tilt = centered_weights(y, 2.0 * np.log1p(-_ratio(offsets[:, :k], last)), _SLACK)
        return Interpolation(near[:, :k], torch.as_tensor(P.T), tilt, offsets, self._share, self._coordinates)


def _cover(states: torch.Tensor, coordinates: StateCoordinates, count: int, kept: int = 0) -> torch.Tensor:
    """Return at most `count` distinct states that cover all, the first `kept` of them among these."""
    points = coordinates.space.embed(coordinates.at(states))
    chosen = farthest_points(points, count, kept=kept)
    _, first = np.unique((points[chosen] * 1e9).round().numpy(), axis=0, return_index=True)
    return states[chosen[np.sort(first)]]


def centered_weights(offsets: FloatArray, log_psi: FloatArray, slack: float) -> tuple[FloatArray, FloatArray]:
    """Return P (K, m) ∝ exp(log ψ − ½‖yₖ‖² + λ·yₖ) and λ (d, m), λ such that Σ Pₖyₖ = −ρλ.

    The offsets y (d, K, m) are from m places to their nodes in bandwidths, log ψ (K, m) is of a factor of the
    kernel, ρ > 0 the slack. λ minimises log Σ exp(log ψ − ½‖yₖ‖² + λ·yₖ) + ½ρ‖λ‖², which is strongly convex:
    damped Newton.

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

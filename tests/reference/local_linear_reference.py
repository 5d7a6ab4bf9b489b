"""The local-linear model a second time: fits by least squares in a loop, weights and equation on a tape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

__all__ = ["FitProblem", "FittedStates", "Settings", "dense_return", "dense_weights", "fit_at"]

Array = npt.NDArray[np.float64]

_MOST_STEPS = 200


# Fits


@dataclass(frozen=True, slots=True)
class FitProblem:
    """Samples in raw columns and the settings of the regression.

    Attributes:
        states, actions, rewards, next_states: s (n, d_s), a (n, d_a), r (n,), s′ (n, d_s).
        periods: Of every state column; None where it is no angle.
        bandwidths: Of every state column; of an angle's cosine and sine, as on a circle of radius 1.
        num_neighbors: K.
        ridge: Penalty on standardised slopes, relative to the sum of the weights.
        quadratic: Whether the squares of the actions are regressors.
    """

    states: Array
    actions: Array
    rewards: Array
    next_states: Array
    periods: Sequence[float | None]
    bandwidths: Sequence[float]
    num_neighbors: int
    ridge: float
    quadratic: bool


def fit_at(problem: FitProblem, state: Array) -> tuple[Array, Array, Array, Array]:
    """Return shift, slope, curvature and variance: the fit is shift + slope·a + curvature·a².

    Weights are (1 − d²/d_K²)². Slopes by an action are penalised per standard deviation of that action
    in all data, curvatures per variance, slopes by a state per bandwidth, the intercept by 10⁻¹⁰.
    """
    distances = [_distance(problem, state, s) for s in problem.states]
    near = sorted(range(len(distances)), key=distances.__getitem__)[: problem.num_neighbors]
    reach = distances[near[-1]] * (1 + 1e-6)
    w = [(1 - (distances[j] / reach) ** 2) ** 2 for j in near]

    mean, std = problem.actions.mean(axis=0), problem.actions.std(axis=0)
    unit = [
        h if period is None else h * period / (2 * math.pi)
        for h, period in zip(problem.bandwidths, problem.periods, strict=True)
    ]
    bent = [problem.ridge * std**4] if problem.quadratic else []
    by_state = [problem.ridge * u**2 for u in unit]
    penalties = np.concatenate([[1e-10], problem.ridge * std**2, *bent, by_state])

    # Ridge regression is least squares with one more row per coefficient; the normal equations never appear.
    design, targets = [], []
    for j in near:
        apart = problem.actions[j] - mean
        squares = [apart**2] if problem.quadratic else []
        design.append(
            np.concatenate([[1.0], apart, *squares, _difference(problem, state, problem.states[j])])
        )
        step = _difference(problem, problem.states[j], problem.next_states[j])
        targets.append(np.array([*step, problem.rewards[j]]))
    rows = [math.sqrt(weight) * row for weight, row in zip(w, design, strict=True)]
    right = [math.sqrt(weight) * target for weight, target in zip(w, targets, strict=True)]
    for k, penalty in enumerate(penalties):
        rows.append(math.sqrt(penalty * sum(w)) * np.eye(len(penalties))[k])
        right.append(np.zeros(len(targets[0])))
    coefficients = np.linalg.lstsq(np.array(rows), np.array(right), rcond=None)[0]  # (p, d_s + 1)

    # c + b(a − μ) + k(a − μ)² in powers of a.
    d_a = len(mean)
    b: Array = coefficients[1 : 1 + d_a].T
    bends: Array = coefficients[1 + d_a : 1 + 2 * d_a].T if problem.quadratic else np.zeros_like(b)
    shift = coefficients[0] - b @ mean + bends @ mean**2
    missed = [target - row @ coefficients for target, row in zip(targets, design, strict=True)]
    return shift, b - 2 * bends * mean, bends, _variance(w, missed, len(penalties))[:-1]


def _variance(weights: list[float], missed: list[Array], coefficients: int) -> Array:
    """Return Σwe²/Σw · N/(N − p) with N = (Σw)²/Σw² samples' worth of weight; the factor is at most 10."""
    total = sum(weights)
    effective = total**2 / sum(w**2 for w in weights)
    factor = effective / max(effective - coefficients, effective / 10)
    squares = np.array([w * e**2 for w, e in zip(weights, missed, strict=True)])
    result: Array = squares.sum(axis=0) / total * factor
    return result


def _difference(problem: FitProblem, start: Array, end: Array) -> list[float]:
    """Return end − start, angles in (−½, ½] periods."""
    raw = zip(end - start, problem.periods, strict=True)
    return [x if T is None else x - T * math.ceil(x / T - 0.5) for x, T in raw]


def _distance(problem: FitProblem, x: Array, y: Array) -> float:
    """Return the distance in bandwidths; between two angles the chord, 2 sin of half the angle."""
    total = 0.0
    for x_k, y_k, h, T in zip(x, y, problem.bandwidths, problem.periods, strict=True):
        gap = y_k - x_k if T is None else 2 * math.sin(math.pi * (y_k - x_k) / T)
        total += (gap / h) ** 2
    return math.sqrt(total)


# Weights


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


# The equation


@dataclass(frozen=True, slots=True)
class Settings:
    """What all queries share.

    Attributes:
        nodes: Raw states, shape (n, d_s).
        periods: Of every state column; None where it is no angle.
        bounds: Of every state column; infinite where none are declared.
        h: Bandwidth of the interpolation per raw state column, shape (d_s,).
        slack: ρ.
        rewards: The lowest and the highest that may be predicted.
    """

    nodes: torch.Tensor
    periods: Sequence[float | None]
    bounds: Sequence[tuple[float, float]]
    h: torch.Tensor
    slack: float
    rewards: tuple[float, float]


@dataclass(frozen=True, slots=True)
class FittedStates:
    """Query states with fits, candidates and known shares, taken as given.

    Attributes:
        states: Raw, shape (m, d_s).
        shift, slope, curvature: Of displacement and reward, shapes (m, d_s + 1) and twice (m, d_s + 1, d_a).
        variance: Of the displacement, shape (m, d_s).
        candidates: Which nodes carry the value of which query, shape (m, n).
        known: 1 − m, shape (m,).
    """

    states: torch.Tensor
    shift: torch.Tensor
    slope: torch.Tensor
    curvature: torch.Tensor
    variance: torch.Tensor
    candidates: torch.Tensor
    known: torch.Tensor

    def backup(
        self, actions: torch.Tensor, settings: Settings
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return P (m, n), m (m,) and r (m,), means over actions (L, m, d_a)."""
        width = (settings.h.square() + self.variance).sqrt()
        P, reward = [], []
        for a in actions:
            by_action = (self.slope @ a[:, :, None] + self.curvature @ a[:, :, None].square())[:, :, 0]
            predicted = self.shift + by_action
            place = self.states + predicted[:, :-1]
            inside = [place[:, k].clamp(*ends) for k, ends in enumerate(settings.bounds)]
            gap = settings.nodes - torch.stack(inside, dim=1)[:, None]  # (m, n, d_s)
            wrapped = [
                gap[..., k] if T is None else gap[..., k] - T * (gap[..., k] / T).round().detach()
                for k, T in enumerate(settings.periods)
            ]
            y = torch.stack(wrapped, dim=-1) / width[:, None]
            P.append(dense_weights(y, self.candidates, settings.slack))
            reward.append(predicted[:, -1].clamp(*settings.rewards))
        known = self.known
        return torch.stack(P).mean(dim=0) * known[:, None], 1 - known, torch.stack(reward).mean(dim=0) * known


def dense_return(
    node: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    initial: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    continues: torch.Tensor,
    *,
    discount: float,
    unknown_value: float,
) -> torch.Tensor:
    """Return J = mean(r₀ + P₀x + m₀v), where (I − γEP)x = γE(r + mv) and E is how far nodes continue.

    Args:
        node: P, m, r of the nodes.
        initial: P₀, m₀, r₀ of the initial states.
        continues: 0 at a terminal node, 1 where the task goes on, shape (n,).
        discount: γ.
        unknown_value: v.
    """
    (P, m, r), (P_0, m_0, r_0) = node, initial
    E = torch.diag(continues)
    eye = torch.eye(len(continues), dtype=torch.float64)
    x = torch.linalg.solve(eye - discount * E @ P, discount * E @ (r + m * unknown_value))
    J: torch.Tensor = (r_0 + P_0 @ x + m_0 * unknown_value).mean()
    return J

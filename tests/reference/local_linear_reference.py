"""The local-linear model a second time: fits by least squares in a loop, the equation dense on a tape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

__all__ = ["FitProblem", "FittedStates", "dense_return", "fit_at"]

Array = npt.NDArray[np.float64]


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
    """

    states: Array
    actions: Array
    rewards: Array
    next_states: Array
    periods: Sequence[float | None]
    bandwidths: Sequence[float]
    num_neighbors: int
    ridge: float


def fit_at(problem: FitProblem, state: Array) -> tuple[Array, Array]:
    """Return (shift, slope): displacement and reward at the raw state are shift + slope·action.

    Weights are (1 − d²/d_K²)². Slopes by an action are penalised per standard deviation of that action
    in all data, slopes by a state per bandwidth, the intercept at the mean action by 10⁻¹⁰.
    """
    distances = [_distance(problem, state, s) for s in problem.states]
    near = sorted(range(len(distances)), key=distances.__getitem__)[: problem.num_neighbors]
    reach = distances[near[-1]] * (1 + 1e-6)
    w = [(1 - (distances[j] / reach) ** 2) ** 2 for j in near]

    d_a, d_s = problem.actions.shape[1], problem.states.shape[1]
    mean, std = problem.actions.mean(axis=0), problem.actions.std(axis=0)
    unit = [
        h if period is None else h * period / (2 * math.pi)
        for h, period in zip(problem.bandwidths, problem.periods, strict=True)
    ]
    penalties = [1e-10, *(problem.ridge * std**2), *(problem.ridge * u**2 for u in unit)]

    # Ridge regression is least squares with one more row per coefficient; the normal equations never appear.
    rows, targets = [], []
    for j, weight in zip(near, w, strict=True):
        offset = _difference(problem, state, problem.states[j])
        row = [1.0, *(problem.actions[j] - mean), *offset]
        target = [*_difference(problem, problem.states[j], problem.next_states[j]), problem.rewards[j]]
        rows.append(math.sqrt(weight) * np.array(row))
        targets.append(math.sqrt(weight) * np.array(target))
    for k, penalty in enumerate(penalties):
        rows.append(math.sqrt(penalty * sum(w)) * np.eye(1 + d_a + d_s)[k])
        targets.append(np.zeros(d_s + 1))
    coefficients = np.linalg.lstsq(np.array(rows), np.array(targets), rcond=None)[0]  # (p, d_s + 1)

    slope = coefficients[1 : 1 + d_a].T
    return coefficients[0] - slope @ mean, slope


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


# The equation


@dataclass(frozen=True, slots=True)
class FittedStates:
    """Query states with fits and candidates, taken as given.

    Attributes:
        states: Raw, shape (m, d_s).
        shift, slope: Of displacement and reward, shapes (m, d_s + 1) and (m, d_s + 1, d_a).
        candidates: Which nodes carry the value of which query, shape (m, n).
    """

    states: torch.Tensor
    shift: torch.Tensor
    slope: torch.Tensor
    candidates: torch.Tensor

    def backup(
        self,
        actions: torch.Tensor,
        nodes: torch.Tensor,
        periods: Sequence[float | None],
        *,
        h: torch.Tensor,
        beta: float,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return P (m, n), m (m,) and r (m,), means over actions (L, m, d_a).

        Args:
            actions: L per state.
            nodes: Raw states, shape (n, d_s).
            periods: Of every state column; None where it is no angle.
            h: Bandwidth of the interpolation per state column, shape (d_s,); of an angle on the unit circle.
            beta: β.
        """
        P, unknown, reward = [], [], []
        for a in actions:
            predicted = self.shift + (self.slope @ a[:, :, None])[:, :, 0]
            gap = (self.states + predicted[:, :-1])[:, None] - nodes  # (m, n, d_s)
            gaps = [
                gap[..., k] if T is None else 2 * torch.sin(math.pi * gap[..., k] / T)
                for k, T in enumerate(periods)
            ]
            kernel = torch.exp(-0.5 * (torch.stack(gaps, dim=-1) / h).square().sum(dim=-1)) * self.candidates
            total = beta + kernel.sum(dim=1)
            P.append(kernel / total[:, None])
            unknown.append(beta / total)
            reward.append(predicted[:, -1])
        return torch.stack(P).mean(dim=0), torch.stack(unknown).mean(dim=0), torch.stack(reward).mean(dim=0)


def dense_return(
    node: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    initial: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    terminated: torch.Tensor,
    *,
    discount: float,
    unknown_value: float,
) -> torch.Tensor:
    """Return J = mean(r₀ + P₀x + m₀v), where (I − γEP)x = γE(r + mv) and E is 0 at terminal nodes.

    Args:
        node: P, m, r of the nodes.
        initial: P₀, m₀, r₀ of the initial states.
        terminated: Flags of the nodes, shape (n,).
        discount: γ.
        unknown_value: v.
    """
    (P, m, r), (P_0, m_0, r_0) = node, initial
    E = torch.diag((~terminated).double())
    eye = torch.eye(len(terminated), dtype=torch.float64)
    x = torch.linalg.solve(eye - discount * E @ P, discount * E @ (r + m * unknown_value))
    J: torch.Tensor = (r_0 + P_0 @ x + m_0 * unknown_value).mean()
    return J

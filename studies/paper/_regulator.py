"""Gradients on the regulator, where the truth is known: the paper's first figure (`figure:gradient`).

Every estimator gives its direction on datasets of 100 episodes of 30 steps, and the cosine with the exact
gradient over 30 steps says how right it is, on a line of gains from the behaviour to the optimum.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.linalg
import torch

from nopg import Bandwidths
from nopg._seeding import generator
from nopg._typing import ArrayLike, as_tensor
from nopg.bellman import ControlProblem
from nopg.bellman._problem import GradientEstimator
from nopg.data import Transitions
from nopg.envs import LQR, collect, simulate
from nopg.errors import NopgError, SupportWarning
from nopg.models._local_model import LocalModelConfig
from nopg.paper import NOPG, PaperModel, PaperProblem
from nopg.paper._selection import Table, leave_one_out, step_length
from nopg.policies import GaussianPolicy, LinearPolicy, Policy
from studies.baselines import DPG, PWIS, LoggedEpisodes
from studies.paper._experiment import Mode
from studies.paper_data import log_normal

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


EPISODES = 100
SUPPORTED_SHARE = 0.5
"""Gains are supported if at least this share of their discounted visits has rows enough."""

DATASETS, HELD_OUT = 5, 20
"""Number of datasets, and the first of as many that had no part in the choice of settings."""

# Rows beyond are left out, except in faithful mode: the states of the log grow to 10⁶, and no kernel width
# suits all. The regulator is to work within three times the start; bandwidths are selected there. A slope
# needs a wider kernel than a mean. Chosen by cosines on the datasets 0 to 4 and 10 to 14.
_RANGE, _WORKING_RANGE, _ACTION_FACTOR = 7.0, 3.0, 1.5
# A slope in two actions needs three rows. Steps of a path: one effective horizon, 1/(1 − γ).
_ROWS_NEEDED, _PATH = 3.0, 10
# DPG: fits of the critic at a point of the line, where it must forget the last one.
_CRITIC_STEPS = 1_000
# Points of the line. Gaussian policies: points this far apart around the behaviour's gains.
_POINTS, _SPACING, _CLOSE = 20, 0.02, 5


@dataclass(frozen=True, slots=True)
class Log:
    """How 100 episodes of 30 steps are logged, and the settings that the supplement gives for them."""

    gains: tuple[float, float] = (0.7, -0.7)  # Of the behaviour.
    std: float = 0.0  # Of a Gaussian behaviour and policy; 0 for gains that are disturbed once per episode.
    # The supplement's, of states and of actions, "on average".
    bandwidths: tuple[tuple[float, float], tuple[float, float]] = ((0.03, 0.05), (0.33, 0.27))
    start_width: float = 0.0  # Initial states are uniform within ± this; 0 for (1, 1), as printed.
    action_noise: float = 0.0  # Standard deviation of noise on the actions of disturbed gains.

    def policy(self, gains: Sequence[float], *, num_action_samples: int | None = None) -> Policy:
        """Return the policy with these gains."""
        mean = LinearPolicy(gains)
        return GaussianPolicy(mean, self.std, num_action_samples=num_action_samples) if self.std else mean

    def data(self, seed: int) -> Transitions:
        """Return the 3 000 rows; the task starts at (1, 1)."""
        lqr, task_starts = LQR(), LQR().initial(1)
        if self.std:
            behavior = self.policy(self.gains, num_action_samples=15)
            return collect(lqr, behavior, episodes=EPISODES, steps=STEPS, seed=seed).starting_at(task_starts)
        # Four draws per episode: one for all four gains, as it could be read, would tie u₁ − u₂ to the state.
        disturbance = torch.randn(EPISODES, 2, 2, generator=generator(seed, "gains"), dtype=torch.float64)
        gains = torch.diag(torch.tensor(self.gains, dtype=torch.float64)) + disturbance
        noise_rng, initial = generator(seed, "noise"), lqr.initial(EPISODES)
        if self.start_width:
            uniform = torch.rand(EPISODES, 2, generator=generator(seed, "starts"), dtype=torch.float64)
            initial = self.start_width * (2 * uniform - 1)

        def act(x: torch.Tensor) -> torch.Tensor:
            noise = torch.randn(EPISODES, 2, generator=noise_rng, dtype=torch.float64)
            return torch.einsum("mij,mj->mi", gains, x) + self.action_noise * noise

        runs = simulate(lqr, act, steps=STEPS, initial_states=initial)
        return runs.transitions(lqr).starting_at(task_starts)

    def log_density(self, states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return the log density (n,) of the Gaussian behaviour."""
        mean = states * torch.tensor(self.gains, dtype=torch.float64)
        return log_normal(actions, mean, torch.full_like(mean, self.std)).sum(dim=1)


LOGS: Mapping[str, Log] = {
    "printed": Log(),
    "covering": Log(start_width=1.5, action_noise=3.0),
    "gaussian": Log((0.35, -0.35), 0.1, ((0.008, 0.003), (0.02, 0.02))),
}
"""As printed; initial states in ±1.5 and noise of sd 3 on the actions; the supplement's stochastic log."""


@dataclass(frozen=True, slots=True)
class Estimator:
    """An estimator on a log."""

    log: str  # Name of the log.
    kind: Literal["paper", "local", "dpg", "dpg-full", "pwis"]  # The estimator.
    label: str  # On the page.
    faithful: bool = False  # Whether the supplement has it.
    claimed: bool = False  # Whether a claim rests on it, which further datasets then check.


ESTIMATORS: Mapping[str, Estimator] = {
    "nopg-d": Estimator("printed", "paper", "NOPG-D, paper's model", faithful=True, claimed=True),
    "local": Estimator("printed", "local", "NOPG-D, LocalModel"),
    "dpg": Estimator("printed", "dpg", "DPG, supplement's critic", faithful=True),
    "dpg-full": Estimator("printed", "dpg-full", "DPG, full quadratic critic"),
    "nopg-d-covering": Estimator("covering", "paper", "NOPG-D, paper's model", claimed=True),
    "local-covering": Estimator("covering", "local", "NOPG-D, LocalModel", claimed=True),
    "nopg-s": Estimator("gaussian", "paper", "NOPG-S, paper's model", faithful=True, claimed=True),
    "pwis": Estimator("gaussian", "pwis", "PWIS"),
}


class Support:
    """The share of a controller's discounted visits where the log has rows for a slope in the actions.

    The controller is followed from (1, 1) for ten steps of a linear least-squares fit to the rows, as long as
    they stay within ±3. A visit counts if the kernels ψφ of all rows sum to 3 there or more.
    """

    def __init__(self, data: Transitions, bandwidths: Bandwidths) -> None:
        self._data, self._h = data, bandwidths
        near = rows_within(data, _WORKING_RANGE)
        self._plant = torch.linalg.lstsq(torch.cat([near.states, near.actions], dim=1), near.next_states)[0]

    def share(self, gains: Sequence[float]) -> float:
        """Return the share for gains."""
        states = self.path(gains)
        there = torch.cat([states, states * torch.tensor(gains, dtype=torch.float64)], dim=1)
        rows = torch.cat([self._data.states, self._data.actions], dim=1)
        h = torch.cat([self._h.states, self._h.actions])
        counts = (-0.5 * ((there[:, None] - rows) / h).square().sum(dim=2)).exp().sum(dim=1)
        weights = LQR().discount ** torch.arange(len(counts), dtype=torch.float64)
        return float((weights * (counts >= _ROWS_NEEDED)).sum() / weights.sum())

    def path(self, gains: Sequence[float]) -> torch.Tensor:
        """Return the states (T, 2) whose steps stay in the working range, at least the start."""
        k, state, path = torch.tensor(gains, dtype=torch.float64), LQR().initial(1), list[torch.Tensor]()
        for _ in range(_PATH):
            path.append(state)
            state = torch.cat([state, state * k], dim=1) @ self._plant
            if float(state.abs().max()) > _WORKING_RANGE:
                path = path[:-1] or path
                break
        return torch.cat(path)


def _bandwidths(rows: Transitions) -> Bandwidths:
    """Return those of least one-step error, up to two steps and half the range of the actions."""
    widest = np.concatenate([2.0 * step_length(rows), 0.5 * np.ptp(rows.actions.numpy(), axis=0)])
    h = leave_one_out(Table.of(rows), np.zeros(len(widest)), widest)
    width = rows.states.shape[1]
    return Bandwidths.from_values(h[:width], _ACTION_FACTOR * h[width:], source="leave-one-out")


def rows_within(data: Transitions, limit: float) -> Transitions:
    """Return the rows that stay within ± the limit; without control the states grow to 10⁶."""
    near = (data.states.abs().amax(dim=1) <= limit) & (data.next_states.abs().amax(dim=1) <= limit)
    return data.take(near).starting_at(LQR().initial(1))


def measure_regulator(
    name: str, seed: int, mode: Mode, *, points: int = _POINTS
) -> tuple[dict[str, Any], Transitions]:
    """Measure one estimator on one dataset.

    Args:
        name: One of `ESTIMATORS`.
        seed: Of the dataset; all estimators on a log see the same one.
        mode: 'faithful': the supplement's bandwidths, and all rows. 'ours': rows within ±7, our bandwidths,
            sigma points. PWIS reads whole episodes.
        points: Of the line.

    Returns:
        Numbers for a record, and the dataset. On the line the `shares` of the way to the optimum, `gains`,
        `cosines` and `support`, the share of visits with enough rows; with a Gaussian log the same `close` to
        the behaviour. A cosine is None where there is no direction.
    """
    chosen = ESTIMATORS[name]
    log = LOGS[chosen.log]
    logged = log.data(seed)
    within = rows_within(logged, _RANGE)
    data = logged if mode == "faithful" or chosen.kind == "pwis" else within
    h = _bandwidths(rows_within(logged, _WORKING_RANGE))
    if log.std:  # the actions of a state lie σ apart
        h = Bandwidths.from_values(log.bandwidths[0], [log.std, log.std])
    support = Support(within, h)
    if mode == "faithful":
        h = Bandwidths.from_values(*log.bandwidths)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)  # a few wild rows are part of the set-up
        problem = _problem_of(chosen, data, h)

    def estimator() -> GradientEstimator:
        """Return an estimator without a past."""
        if isinstance(problem, PaperProblem):
            return NOPG(problem, tolerance=1e-6)
        if problem is not None:
            return problem.estimator()
        if chosen.kind == "pwis":
            episodes = LoggedEpisodes.from_transitions(data, log.log_density)
            return PWIS(episodes, LQR().discount)
        return DPG(data, LQR().discount, critic_steps=_CRITIC_STEPS, cross=chosen.kind == "dpg-full")

    def policy(gains: Sequence[float]) -> Policy:
        return log.policy(gains, num_action_samples=15 if mode == "faithful" else None)

    def on_line(shares: list[float]) -> dict[str, Any]:
        start, asked = torch.tensor(log.gains, dtype=torch.float64), estimator()
        gains = [torch.lerp(start, optimum()[0], share).tolist() for share in shares]
        cosines = [cosine(asked, policy(k), exact_gradient(k, log.std), seed) for k in gains]
        shown = [support.share(k) for k in gains]
        return {"shares": shares, "gains": gains, "cosines": cosines, "support": shown}

    results = on_line([point / points for point in range(points)])
    if log.std:
        step = _SPACING / math.dist(optimum()[0].tolist(), log.gains)
        results["close"] = on_line([step * k for k in range(-_CLOSE, _CLOSE + 1)])
    return results, data


def cosine(estimator: GradientEstimator, policy: Policy, truth: torch.Tensor, seed: int) -> float | None:
    """Return the cosine of the estimate at a policy with the true gradient, None without a direction."""
    try:
        (direction,) = estimator.estimate(policy, rng=generator(seed, "actions")).direction
    except NopgError:  # weights beyond all numbers, a critic that diverged
        return None
    norms = float(direction.norm() * truth.norm())
    return float(direction @ truth) / norms if norms > 0 and math.isfinite(norms) else None


def _problem_of(chosen: Estimator, data: Transitions, h: Bandwidths) -> ControlProblem | None:
    """Return the problem of an estimator of ours, None of a rival.

    The default model's value of leaving the data is the worst mean of a path. From gains that let the state
    grow, leaving is then better than staying, and the direction turns round: it takes the paper's value.
    """
    gamma = LQR().discount
    if chosen.kind == "local":
        worst = float(data.rewards.min()) / (1 - gamma)
        return ControlProblem.from_data(data, gamma, model=LocalModelConfig(unknown_value=worst))
    return PaperProblem(PaperModel(data, h), data.starts, gamma) if chosen.kind == "paper" else None

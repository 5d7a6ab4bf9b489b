"""Gradients on the regulator, where the truth is known: the paper's first figure (`figure:gradient`).

Every estimator gives its direction on datasets of 100 episodes of 30 steps, and the cosine with the exact
gradient over 30 steps says how right it is: on a line of gains that is common to all, and along the path that
the estimator takes by itself until it leaves what the log supports.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import torch

from nopg import Bandwidths, TrainingConfig, select_bandwidths
from nopg._seeding import generator
from nopg.bellman import ControlProblem
from nopg.bellman._estimate import GradientEstimator
from nopg.data import Transitions
from nopg.envs import LQR, collect, simulate
from nopg.errors import NopgError, SupportWarning
from nopg.models._config import LocalModelConfig
from nopg.paper import NOPG, PaperModel, PaperProblem
from nopg.policies import GaussianPolicy, LinearPolicy, Policy
from nopg.training._ascent import ascend
from studies.baselines import DPG, PWIS, LoggedEpisodes
from studies.paper._experiment import Experiment, Finding, Measurement, Mode, mode_of
from studies.paper_data import log_normal
from studies.records import Record
from studies.regulator import STEPS, exact_gradient, exact_return, optimum

EPISODES = 100
SUPPORTED_SHARE = 0.5
"""Gains are supported if at least this share of their discounted visits has rows enough."""

HELD_OUT = 20
"""First of the datasets that had no part in the choice of settings."""

_DATASETS = 5
# Rows beyond are left out, except in faithful mode: the states of the log grow to 10⁶, and no kernel width
# suits all. The regulator is to work within three times the start; bandwidths are selected there. A slope
# needs a wider kernel than a mean. Chosen by cosines on the datasets 0 to 4 and 10 to 14.
_RANGE, _WORKING_RANGE, _ACTION_FACTOR = 7.0, 3.0, 1.5
# A slope in two actions needs three rows. Steps of a path: one effective horizon, 1/(1 − γ).
_ROWS_NEEDED, _PATH = 3.0, 10
# DPG: fits of the critic at a point of the line, where it must forget the last one, and per update of a path.
_CRITIC_STEPS, _CRITIC_STEPS_PER_UPDATE = 1_000, 100
# Common points, and updates of an estimator's own path. Gaussian policies: points this far apart on the line
# around the behaviour's gains.
_POINTS, _UPDATES, _SPACING, _CLOSE = 20, 60, 0.02, 5


@dataclass(frozen=True, slots=True)
class Log:
    """How 100 episodes of 30 steps are logged, and the settings that the supplement gives for them.

    Attributes:
        gains: Of the behaviour, and of the policy at the start of an ascent.
        std: Of a Gaussian behaviour and policy; 0 for gains that are disturbed once per episode.
        bandwidths: The supplement's, of states and of actions, "on average".
        start_width: Initial states are uniform within ± this; 0 for (1, 1), as printed.
        action_noise: Standard deviation of noise on the actions of disturbed gains.
    """

    gains: tuple[float, float] = (0.7, -0.7)
    std: float = 0.0
    bandwidths: tuple[tuple[float, float], tuple[float, float]] = ((0.03, 0.05), (0.33, 0.27))
    start_width: float = 0.0
    action_noise: float = 0.0

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


LOGS: Mapping[str, Log] = MappingProxyType(
    {
        "printed": Log(),
        "covering": Log(start_width=1.5, action_noise=3.0),
        "gaussian": Log((0.35, -0.35), 0.1, ((0.008, 0.003), (0.02, 0.02))),
    }
)
"""As printed; initial states in ±1.5 and noise of sd 3 on the actions; the supplement's stochastic log."""


@dataclass(frozen=True, slots=True)
class Estimator:
    """An estimator on a log.

    Attributes:
        log: Name of the log.
        kind: The estimator.
        label: On the page.
        learning_rate: Of its own ascent, the supplement's.
        faithful: Whether the supplement has it.
        claimed: Whether a claim rests on it, which further datasets then check.
    """

    log: str
    kind: Literal["paper", "local", "dpg", "dpg-full", "pwis"]
    label: str
    learning_rate: float = 0.5
    faithful: bool = False
    claimed: bool = False


ESTIMATORS: Mapping[str, Estimator] = MappingProxyType(
    {
        "nopg-d": Estimator("printed", "paper", "NOPG-D, paper's model", faithful=True, claimed=True),
        "local": Estimator("printed", "local", "NOPG-D, LocalModel"),
        "dpg": Estimator("printed", "dpg", "DPG, supplement's critic", faithful=True),
        "dpg-full": Estimator("printed", "dpg-full", "DPG, full quadratic critic"),
        "nopg-d-covering": Estimator("covering", "paper", "NOPG-D, paper's model", claimed=True),
        "local-covering": Estimator("covering", "local", "NOPG-D, LocalModel", claimed=True),
        "nopg-s": Estimator("gaussian", "paper", "NOPG-S, paper's model", 0.25, faithful=True, claimed=True),
        "pwis": Estimator("gaussian", "pwis", "PWIS", 2.5e-4, faithful=True),
    }
)


class Support:
    """The share of a controller's discounted visits where the log has rows for a slope in the actions.

    The controller is followed from (1, 1) for ten steps of a linear least-squares fit to the rows, as long as
    they stay within ±3. A visit counts if the kernels ψφ of all rows sum to 3 there or more.

    Args:
        data: The log.
        bandwidths: Of ψ and φ.
    """

    def __init__(self, data: Transitions, bandwidths: Bandwidths) -> None:
        self._data, self._h = data, bandwidths
        near = rows_within(data, _WORKING_RANGE)
        self._plant = torch.linalg.lstsq(torch.cat([near.states, near.actions], dim=1), near.next_states)[0]

    def share(self, gains: Sequence[float]) -> float:
        """Return the share for gains."""
        counts = self._counts(gains)
        weights = LQR().discount ** torch.arange(len(counts), dtype=torch.float64)
        return float((weights * (counts >= _ROWS_NEEDED)).sum() / weights.sum())

    def reaches(self, gains: Sequence[float]) -> bool:
        """Return whether the first action under gains has a row's worth of rows or more."""
        return float(self._counts(gains)[0]) >= 1.0

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

    def _counts(self, gains: Sequence[float]) -> torch.Tensor:
        """Return the sum of the kernels of all rows at every visit, shape (T,)."""
        states = self.path(gains)
        there = torch.cat([states, states * torch.tensor(gains, dtype=torch.float64)], dim=1)
        rows = torch.cat([self._data.states, self._data.actions], dim=1)
        h = torch.cat([self._h.states, self._h.actions])
        return (-0.5 * ((there[:, None] - rows) / h).square().sum(dim=2)).exp().sum(dim=1)


def rows_within(data: Transitions, limit: float) -> Transitions:
    """Return the rows that stay within ± the limit; without control the states grow to 10⁶."""
    near = (data.states.abs().amax(dim=1) <= limit) & (data.next_states.abs().amax(dim=1) <= limit)
    return data.take(near).starting_at(LQR().initial(1))


def measure_regulator(
    name: str, seed: int, mode: Mode, *, points: int = _POINTS, updates: int = _UPDATES
) -> tuple[dict[str, Any], Transitions]:
    """Measure one estimator on one dataset.

    Args:
        name: One of `ESTIMATORS`.
        seed: Of the dataset; all estimators on a log see the same one.
        mode: 'faithful': the supplement's bandwidths, and all rows. 'ours': rows within ±7, our bandwidths,
            sigma points; self-normalised weights for PWIS, on whole episodes.
        points: Of the common line.
        updates: Of the estimator's own path.

    Returns:
        Numbers for a record, and the dataset. On the line the `shares` of the way to the optimum, `gains`,
        `cosines` and `support`, the share of visits with enough rows; with a Gaussian log the same `close` to
        the behaviour. Of the estimator's own path `own_path`, and `own_end`, why it ended; `start_return` and
        `final_return`, exact over 30 steps, at its ends. A cosine is None where there is no direction.
    """
    chosen = ESTIMATORS[name]
    log = LOGS[chosen.log]
    logged = log.data(seed)
    within = rows_within(logged, _RANGE)
    data = logged if mode == "faithful" or chosen.kind == "pwis" else within
    h = select_bandwidths(rows_within(logged, _WORKING_RANGE))
    h = Bandwidths.from_values(h.states, _ACTION_FACTOR * h.actions)
    if log.std:  # the actions of a state lie σ apart
        h = Bandwidths.from_values(log.bandwidths[0], [log.std, log.std])
    support = Support(within, h)
    if mode == "faithful":
        h = Bandwidths.from_values(*log.bandwidths)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)  # a few wild rows are part of the set-up
        problem = _problem_of(chosen, data, h)

    def estimator(critic_steps: int) -> GradientEstimator:
        """Return an estimator without a past."""
        if isinstance(problem, PaperProblem):
            return NOPG(problem, tolerance=1e-6)
        if problem is not None:
            return problem.estimator()
        if chosen.kind == "pwis":
            episodes = LoggedEpisodes.from_transitions(data, log.log_density)
            weights: Any = "self-normalised" if mode == "ours" else "per-decision"
            return PWIS(episodes, LQR().discount, weights=weights)
        return DPG(data, LQR().discount, critic_steps=critic_steps, cross=chosen.kind == "dpg-full")

    def policy(gains: Sequence[float]) -> Policy:
        return log.policy(gains, num_action_samples=15 if mode == "faithful" else None)

    def on_line(shares: list[float]) -> dict[str, Any]:
        start, asked = torch.tensor(log.gains, dtype=torch.float64), estimator(_CRITIC_STEPS)
        gains = [torch.lerp(start, optimum()[0], share).tolist() for share in shares]
        cosines = [cosine(asked, policy(k), exact_gradient(k, log.std), seed) for k in gains]
        shown = [support.share(k) for k in gains]
        return {"shares": shares, "gains": gains, "cosines": cosines, "support": shown}

    results = on_line([point / points for point in range(points)])
    if log.std:
        step = _SPACING / math.dist(optimum()[0].tolist(), log.gains)
        results["close"] = on_line([step * k for k in range(-_CLOSE, _CLOSE + 1)])
    climbing = policy(log.gains)
    config = TrainingConfig(updates=updates, learning_rate=chosen.learning_rate, seed=seed)
    # Leaving the data is part of LocalModel's objective.
    path, end = follow(
        estimator(_CRITIC_STEPS_PER_UPDATE), climbing, config, None if chosen.kind == "local" else support
    )
    results |= {"own_path": path, "own_end": end}
    for place, gains in (("start_return", path[0]), ("final_return", path[-1])):
        results[place] = float(exact_return(gains, log.std))
    return results, data


def cosine(estimator: GradientEstimator, policy: Policy, truth: torch.Tensor, seed: int) -> float | None:
    """Return the cosine of the estimate at a policy with the true gradient, None without a direction."""
    try:
        (direction,) = estimator.estimate(policy, rng=generator(seed, "actions")).direction
    except NopgError:  # weights beyond all numbers, a critic that diverged
        return None
    norms = float(direction.norm() * truth.norm())
    return float(direction @ truth) / norms if norms > 0 and math.isfinite(norms) else None


def follow(
    estimator: GradientEstimator, policy: Policy, config: TrainingConfig, support: Support | None
) -> tuple[list[list[float]], str]:
    """Return the gains on an ascent that ends where it leaves the support, and why it ended.

    It may begin outside; the gains where it left are not kept.
    """
    mean = policy.mean if isinstance(policy, GaussianPolicy) else policy
    assert isinstance(mean, LinearPolicy)
    path, end = [mean.gain.tolist()], "updates"
    inside = support is not None and support.reaches(path[0])

    def watch(_: object) -> bool:
        nonlocal inside, end
        gains = mean.gain.tolist()
        reached = support is not None and support.reaches(gains)
        if inside and not reached:
            end = "support"
            return True
        inside |= reached
        path.append(gains)
        return False

    try:
        ascend(
            estimator, policy, TrainingConfig(config.updates, config.learning_rate, config.seed, stop=watch)
        )
    except NopgError:
        end = "no direction"
    return path, end


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RegulatorStudy(Experiment):
    """Directions of all estimators on datasets of the regulator."""

    def plan(self) -> list[Record]:
        """Return the runs; the size of the data is the supplement's."""
        rows, seeds = EPISODES * STEPS, range(_DATASETS)
        held_out = range(HELD_OUT, HELD_OUT + _DATASETS)
        return [
            *(self.run(name, rows, seed) for seed in seeds for name in ESTIMATORS),
            *(self.run(n, rows, seed) for seed in held_out for n, one in ESTIMATORS.items() if one.claimed),
            *(
                self.run(name, rows, seed, "faithful")
                for seed in seeds
                for name, one in ESTIMATORS.items()
                if one.faithful
            ),
        ]

    def measure(self, run: Record) -> Measurement:
        """Measure one estimator on one dataset."""
        results, data = measure_regulator(run.method, run.seed, mode_of(run))
        chosen = ESTIMATORS[run.method]
        config = {"log": chosen.log, "estimator": chosen.kind, "learning_rate": chosen.learning_rate}
        return Measurement(results, data, {"episodes": EPISODES, "steps": STEPS, **config})

    def tables(self, records: Sequence[Record]) -> list[str]:
        """Return a row for each log and method."""
        from studies.paper._regulator_findings import regulator_table

        return regulator_table(records)

    def findings(self, records: Sequence[Record]) -> list[Finding]:
        """Return what the records say of the paper's claim, and of ours."""
        from studies.paper._regulator_findings import regulator_findings

        return regulator_findings(records)

    def draw(self, records: Sequence[Record]) -> Any:
        """Return the cosines on the line and the paths."""
        from studies.paper._regulator_figure import draw_regulator

        return draw_regulator(records)

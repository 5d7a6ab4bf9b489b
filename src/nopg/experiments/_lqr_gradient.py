"""Gradients on the regulator, where the truth is known: the paper's first figure (`figure:gradient`).

Every estimator gives its direction on datasets of 100 episodes of 30 steps, and the cosine with the exact
gradient over 30 steps says how right it is: at points that are common to all, and along the path that the
estimator takes by itself. Deterministic policies: NOPG-D and DPG; Gaussian ones: NOPG-S and PWIS.

The common points stand on the straight line from the gains of the behaviour to the optimal ones. It favours
no estimator and no optimiser; an ascent by the exact gradient would leave the first coordinate, whose
gradient is larger by orders of magnitude, to decide alone for most of the way.
"""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, get_args

import torch

from nopg._seeding import generator
from nopg.bandwidths import select_bandwidths
from nopg.bellman import ControlProblem
from nopg.data import LoggedEpisodes, Transitions
from nopg.environments import LQR
from nopg.errors import ArgumentError, NopgError, SupportWarning
from nopg.gradients import DPG, NOPG, PWIS, ExactLQR, GradientEstimate, GradientEstimator, QuadraticForm
from nopg.graph import DEFAULT_PRIOR_MASS, CandidateSearch, NadarayaWatson
from nopg.kernels import Bandwidths
from nopg.policies import GaussianPolicy, LinearPolicy, Policy, log_normal
from nopg.rollouts import collect, simulate
from nopg.training import ascend

__all__ = ["LQRMethod", "LQRMode", "SummaryRow", "lqr_summary", "measure_lqr_gradient"]

LQRMethod = Literal["nopg-d", "dpg", "nopg-s", "pwis"]
LQRMode = Literal["ours", "faithful"]

_EPISODES, _STEPS = 100, 30
# Common points and updates. Our bandwidths are wide on these data, and rows of thousands of entries slow.
_SIZES: Mapping[str, tuple[int, int]] = MappingProxyType({"faithful": (20, 60), "ours": (10, 30)})
_QUICK_SIZE = (2, 2)
# DPG: fits of the critic at a common point, where it must forget the last one, and per update of its path.
_CRITIC_STEPS, _CRITIC_STEPS_PER_UPDATE = 1_000, 100


@dataclass(frozen=True, slots=True)
class _Setting:
    """One of the supplement's two experiments.

    Attributes:
        gains: Of the behaviour, and of the policy at the start.
        std: Of the Gaussian policies; None for deterministic ones.
        bandwidths: Of states and of actions, "on average".
        num_candidates: Elements kept in each row of P.
    """

    gains: tuple[float, float]
    std: float | None
    bandwidths: tuple[tuple[float, float], tuple[float, float]]
    num_candidates: int

    def policy(self, gains: torch.Tensor) -> Policy:
        """Return the policy with these gains (2,)."""
        mean = LinearPolicy(gains)
        return mean if self.std is None else GaussianPolicy(mean, self.std)

    def start(self) -> torch.Tensor:
        """Return the gains (2,) of the behaviour."""
        return torch.tensor(self.gains, dtype=torch.float64)

    def data(self, seed: int) -> Transitions:
        """Return episodes under gains disturbed once each, or under the Gaussian behaviour."""
        lqr = LQR()
        if self.std is not None:
            whole = collect(lqr, self.policy(self.start()), episodes=_EPISODES, steps=_STEPS, seed=seed)
            return whole.starting_at(lqr.initial(1))
        # One ε per episode on all four gains, as printed.
        eps = torch.randn(_EPISODES, 1, 1, generator=generator(seed, "gains"), dtype=torch.float64)
        gains = torch.diag(self.start()) + eps
        runs = simulate(
            lqr,
            lambda x: torch.einsum("mij,mj->mi", gains, x),
            steps=_STEPS,
            initial_states=lqr.initial(_EPISODES),
        )
        return runs.transitions(lqr).starting_at(lqr.initial(1))

    def log_density(self, states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return the log density (n,) of the Gaussian behaviour."""
        mean = states * self.start()
        return log_normal(actions, mean, torch.full_like(mean, self.std or 0.0)).sum(dim=1)


_DETERMINISTIC = _Setting((0.7, -0.7), None, ((0.03, 0.05), (0.33, 0.27)), 5)
_GAUSSIAN = _Setting((0.35, -0.35), 0.1, ((0.008, 0.003), (0.02, 0.02)), 10)
_SETTINGS: Mapping[str, _Setting] = MappingProxyType(
    {"nopg-d": _DETERMINISTIC, "dpg": _DETERMINISTIC, "nopg-s": _GAUSSIAN, "pwis": _GAUSSIAN}
)
_LEARNING_RATES: Mapping[str, float] = MappingProxyType(
    {"nopg-d": 0.5, "dpg": 0.5, "nopg-s": 0.25, "pwis": 2.5e-4}
)


def measure_lqr_gradient(
    method: LQRMethod, seed: int, *, mode: LQRMode, quick: bool
) -> tuple[dict[str, Any], Transitions]:
    """Measure one estimator on one dataset.

    Args:
        method: The estimator.
        seed: Of the dataset; both methods of an experiment see the same one.
        mode: "faithful": the supplement's bandwidths, elements per row and form of Q, and no prior mass;
            "ours": the paper's model with bandwidths from the data and the default prior mass, a full
            quadratic Q, and self-normalised weights for PWIS.
        quick: Whether a few points and updates will do.

    Returns:
        Numbers for a record, and the dataset. Of the common points the `shares` of the way, `gains`,
        `cosines` and `relative_errors`; of the estimator's own path `own_path`, one point per update and the
        last, and `own_cosines`, one per update; `start_return` and `final_return`, exact over 30 steps, at
        its ends. None stands for no direction, or for one of length 0.
    """
    if method not in _SETTINGS or mode not in get_args(LQRMode):
        raise ArgumentError(
            f"method = {method!r}, mode = {mode!r}; choose of {list(_SETTINGS)} and {list(get_args(LQRMode))}"
        )
    setting = _SETTINGS[method]
    data = setting.data(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)  # a few wild rows are part of the set-up
        problem = _problem(setting, data, mode) if method.startswith("nopg") else None
    points, updates = _QUICK_SIZE if quick else _SIZES[mode]

    at_points = _Compared(_estimator(method, data, mode, problem, critic_steps=_CRITIC_STEPS))
    shares = [point / points for point in range(points)]
    gains = [torch.lerp(setting.start(), LQR().optimal_gain().diagonal(), share) for share in shares]
    for point in gains:
        at_points.try_at(setting.policy(point), seed)

    on_its_own = _Compared(_estimator(method, data, mode, problem, critic_steps=_CRITIC_STEPS_PER_UPDATE))
    policy = setting.policy(setting.start())
    try:
        ascend(on_its_own, policy, updates=updates, learning_rate=_LEARNING_RATES[method], seed=seed)
        on_its_own.gains.append(_gains(policy))
    except NopgError:  # no direction from here on: the path ends
        pass

    results = {
        "shares": shares,
        "gains": at_points.gains,
        "cosines": at_points.cosines,
        "relative_errors": at_points.relative_errors,
        "own_path": on_its_own.gains,
        "own_cosines": on_its_own.cosines,
        "start_return": _exact_return(setting, on_its_own.gains[0]),
        "final_return": _exact_return(setting, on_its_own.gains[-1]),
    }
    return results, data


class _Compared:
    """An estimator whose every direction is held against the exact one."""

    def __init__(self, estimator: GradientEstimator) -> None:
        self.estimator, self.exact = estimator, ExactLQR(LQR(), horizon=_STEPS)
        self.gains: list[list[float]] = []
        self.cosines: list[float | None] = []
        self.relative_errors: list[float | None] = []

    def estimate(self, policy: Policy, *, rng: torch.Generator) -> GradientEstimate:
        """Return the estimate, and keep how far it is from the truth; None if there is none."""
        self.gains.append(_gains(policy))
        self.cosines.append(None)
        self.relative_errors.append(None)
        estimate = self.estimator.estimate(policy, rng=rng)
        (direction,), (truth,) = estimate.direction, self.exact.estimate(policy, rng=rng).direction
        norms = float(direction.norm() * truth.norm())
        if norms > 0 and math.isfinite(norms):
            self.cosines[-1] = float(direction @ truth) / norms
        error = float((direction - truth).norm() / truth.norm())
        self.relative_errors[-1] = error if math.isfinite(error) else None
        return estimate

    def try_at(self, policy: Policy, seed: int) -> None:
        """Estimate at one policy, whether or not there is a direction."""
        try:
            self.estimate(policy, rng=generator(seed, "actions"))
        except NopgError:  # weights beyond all numbers, a critic that diverged
            return


def _problem(setting: _Setting, data: Transitions, mode: LQRMode) -> ControlProblem:
    if mode == "ours":
        # Not `judge`: it prefers the local-linear model, which takes over a minute per direction here.
        model = NadarayaWatson(data, select_bandwidths(data), prior_mass=DEFAULT_PRIOR_MASS)
    else:
        model = NadarayaWatson(
            data,
            Bandwidths.from_values(*setting.bandwidths, source="the supplement"),
            prior_mass=0.0,
            search=CandidateSearch(num_candidates=setting.num_candidates),
        )
    return ControlProblem.build(model, data.starts, discount=LQR().parameters.discount)


def _estimator(
    method: LQRMethod, data: Transitions, mode: LQRMode, problem: ControlProblem | None, *, critic_steps: int
) -> GradientEstimator:
    gamma = LQR().parameters.discount
    if problem is not None:
        return NOPG(problem, tolerance=1e-8)
    if method == "dpg":
        form = QuadraticForm(2, 2, cross=mode == "ours")
        return DPG(data, gamma, critic_steps=critic_steps, critic=form)
    episodes = LoggedEpisodes.from_transitions(data, _SETTINGS[method].log_density)
    return PWIS(episodes, gamma, weights="self-normalised" if mode == "ours" else "per-decision")


def _gains(policy: Policy) -> list[float]:
    mean = policy.mean if isinstance(policy, GaussianPolicy) else policy
    assert isinstance(mean, LinearPolicy)
    return [float(gain) for gain in mean.gain.detach()]


def _exact_return(setting: _Setting, gains: list[float]) -> float:
    policy = setting.policy(torch.tensor(gains, dtype=torch.float64))
    return ExactLQR(LQR(), horizon=_STEPS).estimate(policy, rng=generator(0)).expected_return


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """One method in one mode over all datasets.

    Attributes:
        method: Its name.
        mode: "ours" or "faithful".
        datasets: How many there are.
        cosine: Mean over common points and datasets; None if there was no direction at all.
        spread: Mean over common points of the standard deviation of the cosine across datasets.
        relative_error: Median over common points and datasets of ‖ĝ − g‖/‖g‖. A cosine does not see lengths:
            where all rewards are negative, importance weights push away from the behaviour, and so along the
            line, however small they are; with a constant added to the rewards the cosine changes its sign.
        without_direction: Share of common points and datasets without a direction.
        own_cosine: Mean along the estimator's own paths.
        updates: Median number of updates that its own path made.
        final_return: Median over the datasets of the exact return over 30 steps at its end.
        final_returns: Those of the datasets, in the order of the records.
    """

    method: str
    mode: str
    datasets: int
    cosine: float | None
    spread: float | None
    relative_error: float | None
    without_direction: float
    own_cosine: float | None
    updates: float
    final_return: float
    final_returns: tuple[float, ...]


def lqr_summary(records: Sequence[Mapping[str, Any]]) -> list[SummaryRow]:
    """Return a row for each mode and method of which there are records, in the order of the figure.

    Args:
        records: Each with `method`, `mode` and the `results` of `measure_lqr_gradient`.
    """
    rows = []
    for mode in get_args(LQRMode):
        for method in _SETTINGS:
            mine = [r["results"] for r in records if r["method"] == method and r["mode"] == mode]
            if mine:
                rows.append(_summarized(method, mode, mine))
    return rows


def _summarized(method: str, mode: str, results: Sequence[Mapping[str, Any]]) -> SummaryRow:
    by_point = [_known(point) for point in zip(*(r["cosines"] for r in results), strict=True)]
    known = [cosine for point in by_point for cosine in point]
    spreads = [statistics.stdev(point) for point in by_point if len(point) > 1]
    errors = [error for r in results for error in _known(r["relative_errors"])]
    finals = tuple(r["final_return"] for r in results)
    return SummaryRow(
        method=method,
        mode=mode,
        datasets=len(results),
        cosine=_mean(known),
        spread=_mean(spreads),
        relative_error=statistics.median(errors) if errors else None,
        without_direction=1 - len(known) / (len(results) * len(by_point)),
        own_cosine=_mean([cosine for r in results for cosine in _known(r["own_cosines"])]),
        updates=statistics.median(len(_known(r["own_cosines"])) for r in results),
        final_return=statistics.median(finals),
        final_returns=finals,
    )


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None

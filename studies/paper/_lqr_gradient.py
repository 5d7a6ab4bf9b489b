"""Gradients on the regulator, where the truth is known: the paper's first figure (`figure:gradient`).

Every estimator gives its direction on datasets of 100 episodes of 30 steps, and the cosine with the exact
gradient over 30 steps says how right it is: at points that are common to all, and along the path that the
estimator takes by itself. Deterministic policies: NOPG-D and DPG; Gaussian ones: NOPG-S and PWIS.

The common points are on the straight line from the gains of the behaviour to the optimal ones. It favours
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
from typing import Any, Literal, cast

import torch

from nopg import TrainingConfig
from nopg._seeding import generator
from nopg.bellman import NOPG, GradientEstimate, PaperProblem
from nopg.bellman._estimate import GradientEstimator
from nopg.data import Transitions
from nopg.envs import LQR, collect, simulate
from nopg.errors import ArgumentError, NopgError, SupportWarning
from nopg.kernels import Bandwidths, select_bandwidths
from nopg.models import PaperModel
from nopg.models._candidates import CandidateSearch
from nopg.models._prior_mass import DEFAULT_PRIOR_MASS
from nopg.policies import GaussianPolicy, LinearPolicy, Policy
from nopg.training._ascent import ascend
from studies.baselines import DPG, PWIS, ExactLQR, LoggedEpisodes, QuadraticForm
from studies.lqr_analysis import optimal_gain
from studies.markdown import table
from studies.paper._experiment import MODES, Choice, Experiment, Finding, Measurement, Mode, Trial, mode_of
from studies.paper_data import log_normal
from studies.records import Record

__all__ = ["LQRMethod", "LQRStudy", "SummaryRow", "lqr_summary", "measure_lqr_gradient"]

LQRMethod = Literal["nopg-d", "dpg", "nopg-s", "pwis"]

_EPISODES, _STEPS = 100, 30
# Common points, and updates of an estimator's own path.
_SIZE, _QUICK_SIZE = (20, 60), (2, 2)
# Where the regulator is to work: it starts at (1, 1). Without control the data go on to 10⁶ and beyond.
_RANGE = 3.0
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

    def policy(self, gains: torch.Tensor, *, num_action_samples: int | None = 15) -> Policy:
        """Return the policy with these gains (2,)."""
        mean = LinearPolicy(gains)
        if self.std is None:
            return mean
        return GaussianPolicy(mean, self.std, num_action_samples=num_action_samples)

    def start(self) -> torch.Tensor:
        """Return the gains (2,) of the behaviour."""
        return torch.tensor(self.gains, dtype=torch.float64)

    def data(self, seed: int) -> Transitions:
        """Return episodes under gains disturbed once each, or under the Gaussian behaviour."""
        lqr = LQR()
        if self.std is not None:
            whole = collect(lqr, self.policy(self.start()), episodes=_EPISODES, steps=_STEPS, seed=seed)
            return whole.starting_at(lqr.initial(1))
        # Four draws per episode: one for all four gains, as it could be read, would tie u₁ − u₂ to the state.
        eps = torch.randn(_EPISODES, 2, 2, generator=generator(seed, "gains"), dtype=torch.float64)
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
    method: LQRMethod, seed: int, *, mode: Mode, quick: bool
) -> tuple[dict[str, Any], Transitions]:
    """Measure one estimator on one dataset.

    Args:
        method: The estimator.
        seed: Of the dataset; both methods of an experiment see the same one.
        mode: "faithful": the supplement's bandwidths, elements per row and form of Q, and no prior mass;
            "ours": rows within ±3, bandwidths selected from these, prior mass, sigma points; a full
            quadratic Q; self-normalised weights for PWIS, and all rows. NOPG is the paper's in both.
        quick: Whether a few points and updates will do.

    Returns:
        Numbers for a record, and the dataset. Of the common points the `shares` of the way, `gains`,
        `cosines` and `relative_errors`; of the estimator's own path `own_path`, one point per update and the
        last, and `own_cosines`, one per update; `start_return` and `final_return`, exact over 30 steps, at
        its ends. None means no direction, or for one of length 0.
    """
    if method not in _SETTINGS or mode not in MODES:
        raise ArgumentError(
            f"method = {method!r}, mode = {mode!r}; choose of {list(_SETTINGS)} and {list(MODES)}"
        )
    setting = _SETTINGS[method]
    data = setting.data(seed)
    if mode == "ours" and method != "pwis":  # which needs whole episodes
        data = _within_range(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)  # a few wild rows are part of the set-up
        problem = _problem(setting, data, mode) if method.startswith("nopg") else None
    points, updates = _QUICK_SIZE if quick else _SIZE

    at_points = _Compared(_estimator(method, data, mode, problem, critic_steps=_CRITIC_STEPS))
    shares = [point / points for point in range(points)]
    gains = [torch.lerp(setting.start(), optimal_gain(LQR()).diagonal(), share) for share in shares]
    draws = 15 if mode == "faithful" else None
    for point in gains:
        at_points.try_at(setting.policy(point, num_action_samples=draws), seed)

    on_its_own = _Compared(_estimator(method, data, mode, problem, critic_steps=_CRITIC_STEPS_PER_UPDATE))
    policy = setting.policy(setting.start(), num_action_samples=draws)
    try:
        ascend(
            on_its_own,
            policy,
            TrainingConfig(updates=updates, learning_rate=_LEARNING_RATES[method], seed=seed),
        )
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


def _within_range(data: Transitions) -> Transitions:
    """Return the rows in the range where the regulator is to work, three times the start."""
    near = (data.states.abs().amax(dim=1) <= _RANGE) & (data.next_states.abs().amax(dim=1) <= _RANGE)
    return data.take(near).starting_at(LQR().initial(1))


def _problem(setting: _Setting, data: Transitions, mode: Mode) -> PaperProblem:
    if mode == "ours":
        model = PaperModel(data, select_bandwidths(data), prior_mass=DEFAULT_PRIOR_MASS)
    else:
        model = PaperModel(
            data,
            Bandwidths.from_values(*setting.bandwidths, source="the supplement"),
            prior_mass=0.0,
            search=CandidateSearch(num_candidates=setting.num_candidates),
        )
    return PaperProblem.build(model, data.starts, discount=LQR().discount)


def _estimator(
    method: LQRMethod, data: Transitions, mode: Mode, problem: PaperProblem | None, *, critic_steps: int
) -> GradientEstimator:
    gamma = LQR().discount
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


def lqr_summary(records: Sequence[Record]) -> list[SummaryRow]:
    """Return a row for each mode and method that has records, in the order of the figure."""
    rows = []
    for mode in MODES:
        for method in _SETTINGS:
            mine = [r.results for r in records if r.method == method and mode_of(r) == mode]
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


_HEADS = (
    "mode",
    "method",
    "datasets",
    "mean cosine",
    "spread over datasets",
    "median relative error",
    "no direction",
    "cosine on its own path",
    "exact return at its end, median",
    "worst",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LQRStudy(Experiment):
    """Directions of four estimators on datasets of the regulator.

    Attributes:
        trials: Datasets.
    """

    trials: int = 5

    def plan(self, choice: Choice) -> list[Trial]:
        """Return the trials; the size of the data is the supplement's."""
        if choice.sizes is not None and set(choice.sizes) != {_EPISODES * _STEPS}:
            raise ArgumentError(f"{self.name} has {_EPISODES * _STEPS} transitions; leave the size out")
        methods = self.chosen_methods(choice, list(_SETTINGS))
        return [
            Trial(self.name, mode, method, _EPISODES * _STEPS, seed, choice.quick)
            for seed in range(1 if choice.quick else choice.trials or self.trials)
            for mode in choice.modes
            for method in methods
        ]

    def measure(self, trial: Trial) -> Measurement:
        """Measure one estimator on one dataset."""
        method = cast(LQRMethod, trial.method)
        results, data = measure_lqr_gradient(method, trial.seed, mode=trial.mode, quick=trial.quick)
        rate = _LEARNING_RATES[method]
        return Measurement(results, data, {"episodes": _EPISODES, "steps": _STEPS, "learning_rate": rate})

    def tables(self, records: Sequence[Record]) -> list[str]:
        """Return a row for each mode and method."""
        rows = [
            (
                row.mode,
                row.method,
                f"{row.datasets}",
                _format(row.cosine),
                _format(row.spread),
                _format(row.relative_error, ".1g"),
                f"{row.without_direction:.0%}",
                _format(row.own_cosine),
                f"{row.final_return:.3g}",
                f"{min(row.final_returns):.3g}",
            )
            for row in lqr_summary(records)
        ]
        return table(_HEADS, rows) if rows else []

    def findings(self, records: Sequence[Record]) -> list[Finding]:
        """Return who has the better directions, mode by mode, and whose path arrives."""
        rows = {(row.mode, row.method): row for row in lqr_summary(records)}
        found = []
        for mode in MODES:
            for ours, theirs in (("nopg-d", "dpg"), ("nopg-s", "pwis")):
                claim = f"{ours} above {theirs} in mean cosine, and steadier, {mode}"
                pair = [rows.get((mode, ours)), rows.get((mode, theirs))]
                if pair[0] is None or pair[1] is None:
                    found.append(Finding(claim, "not run", "not run in full"))
                    continue
                one, other = pair[0], pair[1]
                better = (one.cosine or -1) > (other.cosine or -1)
                steadier = (one.spread or 0) < (other.spread or 0)
                found.append(
                    Finding(
                        claim,
                        f"{_format(one.cosine)} ± {_format(one.spread)} against {_format(other.cosine)} ± "
                        f"{_format(other.spread)}; exact return at the end of its own path "
                        f"{one.final_return:.3g} against {other.final_return:.3g}",
                        {2: "reproduced", 1: "in part", 0: "not reproduced"}[better + steadier],
                    )
                )
        return found


def _format(value: float | None, form: str = ".2f") -> str:
    return "none" if value is None else f"{value:{form}}"

"""Gradients on the regulator, where the truth is known: the paper's first figure (`figure:gradient`).

Every estimator gives its direction on datasets of 100 episodes of 30 steps, and the cosine with the exact
gradient over 30 steps says how right it is: on a line of gains that is common to all, and along the path that
the estimator takes by itself until it leaves what the log supports.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from nopg import TrainingConfig
from nopg._seeding import generator
from nopg.bellman import GradientEstimate
from nopg.bellman._estimate import GradientEstimator
from nopg.data import Transitions
from nopg.envs import LQR
from nopg.errors import ArgumentError, NopgError
from nopg.policies import GaussianPolicy, LinearPolicy, Policy
from nopg.training._ascent import ascend
from studies.baselines import ExactLQR
from studies.paper._experiment import Choice, Experiment, Finding, Measurement, Mode, Trial
from studies.paper._lqr_data import EPISODES, STEPS, Log, line
from studies.paper._lqr_estimators import METHODS, Prepared
from studies.paper._lqr_findings import HELD_OUT, lqr_findings, lqr_tables
from studies.paper._lqr_support import Support
from studies.records import Record

__all__ = ["Compared", "LQRStudy", "measure_lqr_gradient"]

_MODES = ("ours", "faithful")
# Common points, and updates of an estimator's own path.
_SIZE, _QUICK_SIZE = (20, 60), (2, 2)
# Gaussian policies: points this far apart on the line around the behaviour's gains.
_SPACING, _CLOSE = 0.02, 5


def measure_lqr_gradient(
    name: str, seed: int, *, mode: Mode, quick: bool
) -> tuple[dict[str, Any], Transitions]:
    """Measure one estimator on one dataset.

    Args:
        name: The method.
        seed: Of the dataset; all methods on a log see the same one.
        mode: Whose settings; see `Prepared`.
        quick: Whether a few points and updates will do.

    Returns:
        Numbers for a record, and the dataset. On the line the `shares` of the way to the optimum, `gains`,
        `cosines` and `support`, the share of visits with enough rows; with a Gaussian log the same `close` to
        the behaviour. Of the estimator's own path `own_path`, and `own_end`, why it ended; `start_return` and
        `final_return`, exact over 30 steps, at its ends. A cosine is None where there is no direction.
    """
    if name not in METHODS or mode not in _MODES or (mode == "faithful" and not METHODS[name].faithful):
        raise ArgumentError(
            f"method = {name!r}, mode = {mode!r}; choose of {list(METHODS)} and {list(_MODES)}"
        )
    trial = Prepared(METHODS[name], seed, mode)
    points, updates = _QUICK_SIZE if quick else _SIZE
    log, results = trial.log, _on_line(trial, [point / points for point in range(points)], seed)
    if log.std is not None:
        step = _SPACING / float((line(log.start(), [1.0])[0] - log.start()).norm())
        results["close"] = _on_line(trial, [step * k for k in range(-_CLOSE, _CLOSE + 1)], seed)
    if trial.method.ascends:
        results |= _ascent(trial, updates, seed)
    return results, trial.data


def _on_line(trial: Prepared, shares: list[float], seed: int) -> dict[str, Any]:
    gains = line(trial.log.start(), shares)
    compared = Compared(trial.estimator())
    for point in gains:
        compared.try_at(trial.log.policy(point, num_action_samples=trial.num_action_samples), seed)
    support = [trial.support.share(point) for point in gains]
    return {"shares": shares, "gains": compared.gains, "cosines": compared.cosines, "support": support}


def _ascent(trial: Prepared, updates: int, seed: int) -> dict[str, Any]:
    """Follow the estimator with Adam until the first action leaves the rows.

    LocalModel is not stopped: leaving the data is part of its objective.
    """
    support = None if trial.method.kind == "local" else trial.support
    path = Compared(trial.estimator(ascent=True), support)
    policy = trial.log.policy(trial.log.start(), num_action_samples=trial.num_action_samples)
    config = TrainingConfig(updates=updates, learning_rate=trial.method.learning_rate, seed=seed)
    try:
        ascend(path, policy, config)
        path.gains.append(gains_of(policy))
        end = "updates"
    except LeftSupportError:
        end = "support"
    except NopgError:
        end = "no direction"
    return {
        "own_path": path.gains,
        "own_end": end,
        "start_return": _exact_return(trial.log, path.gains[0]),
        "final_return": _exact_return(trial.log, path.gains[-1]),
    }


class LeftSupportError(NopgError):
    """An ascent came to gains that the log does not support."""


class Compared:
    """An estimator whose every direction is compared with the exact one.

    Args:
        estimator: The estimator.
        support: Of the log, where an ascent is to end; the gains where it left are not kept.
    """

    def __init__(self, estimator: GradientEstimator, support: Support | None = None) -> None:
        self.estimator, self.exact = estimator, ExactLQR(LQR(), horizon=STEPS)
        self.support, self._was_inside = support, False
        self.gains: list[list[float]] = []
        self.cosines: list[float | None] = []

    def estimate(self, policy: Policy, *, rng: torch.Generator) -> GradientEstimate:
        """Return the estimate, and keep its cosine with the truth; None if there is none."""
        gains = gains_of(policy)
        if self.support is not None:
            inside = self.support.reaches(torch.tensor(gains, dtype=torch.float64))
            if self._was_inside and not inside:
                raise LeftSupportError(f"the log does not support the gains {gains}")
            self._was_inside |= inside
        self.gains.append(gains)
        self.cosines.append(None)
        estimate = self.estimator.estimate(policy, rng=rng)
        (direction,), (truth,) = estimate.direction, self.exact.estimate(policy, rng=rng).direction
        norms = float(direction.norm() * truth.norm())
        if norms > 0 and math.isfinite(norms):
            self.cosines[-1] = float(direction @ truth) / norms
        return estimate

    def try_at(self, policy: Policy, seed: int) -> None:
        """Estimate at one policy, whether or not there is a direction."""
        try:
            self.estimate(policy, rng=generator(seed, "actions"))
        except NopgError:  # weights beyond all numbers, a critic that diverged
            return


def gains_of(policy: Policy) -> list[float]:
    """Return the gains of a linear controller, or of the mean of a Gaussian one."""
    mean = policy.mean if isinstance(policy, GaussianPolicy) else policy
    assert isinstance(mean, LinearPolicy)
    return [float(gain) for gain in mean.gain.detach()]


def _exact_return(log: Log, gains: list[float]) -> float:
    policy = log.policy(torch.tensor(gains, dtype=torch.float64))
    return ExactLQR(LQR(), horizon=STEPS).estimate(policy, rng=generator(0)).expected_return


@dataclass(frozen=True, slots=True, kw_only=True)
class LQRStudy(Experiment):
    """Directions of all estimators on datasets of the regulator.

    Attributes:
        trials: Datasets.
    """

    trials: int = 5

    def plan(self, choice: Choice) -> list[Trial]:
        """Return the trials; the size of the data is the supplement's."""
        if choice.sizes is not None and set(choice.sizes) != {EPISODES * STEPS}:
            raise ArgumentError(f"{self.name} has {EPISODES * STEPS} transitions; leave the size out")
        methods = self.chosen_methods(choice, list(METHODS))
        seeds = range(1 if choice.quick else choice.trials or self.trials)
        planned = [
            Trial(self.name, mode, method, EPISODES * STEPS, seed, choice.quick)
            for seed in seeds
            for mode in choice.modes
            for method in methods
            if mode == "ours" or (mode == "faithful" and METHODS[method].faithful)
        ]
        if choice.quick or "ours" not in choice.modes:
            return planned
        return planned + [
            Trial(self.name, "ours", method, EPISODES * STEPS, HELD_OUT + seed)
            for seed in seeds
            for method in methods
            if METHODS[method].claimed
        ]

    def measure(self, trial: Trial) -> Measurement:
        """Measure one estimator on one dataset."""
        results, data = measure_lqr_gradient(trial.method, trial.seed, mode=trial.mode, quick=trial.quick)
        method = METHODS[trial.method]
        config = {"log": method.log, "estimator": method.kind, "learning_rate": method.learning_rate}
        return Measurement(results, data, {"episodes": EPISODES, "steps": STEPS, **config})

    def tables(self, records: Sequence[Record]) -> list[str]:
        """Return a row for each log and method."""
        return lqr_tables(records)

    def findings(self, records: Sequence[Record]) -> list[Finding]:
        """Return what the records say of the paper's claim, and of ours."""
        return lqr_findings(records)

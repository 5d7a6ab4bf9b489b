"""A run of nopg: one call of `optimize`, and what its result says before the controller runs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import nopg
from studies.plants import Controller

__all__ = ["Outcome", "train_nopg"]

# An error below this is rounding.
_TINY = 1e-9
_EVALUATION = ("expected_return", "interval", "standard_error", "unknown_mass", "verdict", "reasons")


@dataclass(frozen=True, slots=True)
class Outcome:
    """A controller with what is known about it.

    Attributes:
        policy: The controller.
        summary: Plain values: `expected_return`, `interval`, `standard_error`, `unknown_mass`, `verdict` and
            `reasons` of the evaluation, and whatever the result's own summary adds, such as `horizon`,
            `nodes`, `start` and `behaviour_return`.
        warnings: Text of the warnings raised.
    """

    policy: Controller
    summary: Mapping[str, Any]
    warnings: tuple[str, ...]


def train_nopg(
    data: nopg.Transitions, discount: float, seed: int, options: Mapping[str, Any] | None = None
) -> Outcome:
    """Train a controller with nothing set but the discount and the seed, unless options are given.

    Args:
        data: The transitions.
        discount: γ.
        seed: Seed of everything random.
        options: Further fields of `nopg.TrainingConfig`, for trials; runs with options are not in the table.
    """
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        result = nopg.optimize(
            data, discount, config=nopg.TrainingConfig(seed=seed, progress=False, **dict(options or {}))
        )
        summary = _summary(result)
    texts = dict.fromkeys(f"{warning.category.__name__}: {warning.message}" for warning in raised)
    return Outcome(result.policy, summary, tuple(texts))


def held_out_errors(result: nopg.TrainingResult) -> dict[str, Any]:
    """Return, by predicted column, the held-out error with all inputs over that with the chosen inputs."""
    return {fit.name: fit.error_of_all_inputs / fit.error for fit in result.column_fits if fit.error > _TINY}


def _summary(result: nopg.TrainingResult) -> dict[str, Any]:
    """Return the facts of the evaluation and of the training."""
    facts = {name: getattr(result.evaluation, name) for name in _EVALUATION}
    problem = result.evaluator.problem
    trained = result.problem.multistep or problem
    return facts | {
        "horizon": trained.horizon,
        "nodes": len(trained.nodes),
        "start": result.start,
        "updates": len(result.history),
        "behaviour_return": result.evaluator.logged().expected_return,
        "r_squared": {fit.name: fit.r_squared for fit in result.column_fits},
        "held_out_errors": held_out_errors(result),
    }

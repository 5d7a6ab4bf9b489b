"""The calls of the library that this study tests, in one place."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import nopg
from nopg.evaluation import Assessment, OfflineEvaluator
from nopg.evaluation._comparison import LOGGED
from nopg.training._judge import judge
from nopg.training._proposals import regulators

__all__ = ["LOGGED", "Choice", "assess_all", "train"]

NETWORK = "network"


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """What `optimize` takes of several controllers; the logged behaviour is no candidate.

    Attributes:
        policies: The candidates by name.
        chosen: Name of the chosen one.
        gains: 95 % intervals of the gain of each over the logged behaviour, by name.
    """

    policies: Mapping[str, Any]
    chosen: str
    gains: Mapping[str, tuple[float, float]]


def assess_all(
    data: nopg.Transitions, discount: float, policies: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return what the library says of each controller, on one model, and the CPU seconds of it.

    Args:
        data: The log.
        discount: γ.
        policies: By name.
    """
    with _quiet():
        began = time.process_time()
        evaluator = OfflineEvaluator(data, discount)
        share = (time.process_time() - began) / max(len(policies), 1)
        found = {}
        for name, policy in policies.items():
            began = time.process_time()
            answer = _summary(evaluator.assess(policy))
            found[name] = answer | {"cpu_seconds": share + time.process_time() - began}
        return found


def train(data: nopg.Transitions, discount: float, seed: int) -> tuple[Choice, dict[str, Any]]:
    """Return what is trained with defaults, the choice made of it, and what the library says of the choice.

    The network is trained once: `policy="auto"` trains the same one before it chooses.
    """
    with _quiet():
        began = time.process_time()
        config = nopg.TrainingConfig(seed=seed, progress=False)
        result = nopg.optimize(data, discount, policy="deterministic", config=config)
        evaluator = result.evaluator
        laws = tuple(regulators(evaluator))
        judged = judge(evaluator, result.policy, laws, {})
        answer = _summary(judged.assessment) | {"start": result.start}
        answer["cpu_seconds"] = time.process_time() - began
        policies: dict[str, Any] = {**dict(laws), NETWORK: result.policy}
        gains = {
            name: evaluator.assess(law).gain_over(judged.logged).interval for name, law in policies.items()
        }
        return Choice(policies, judged.kept or NETWORK, gains), answer


def _summary(answer: Assessment) -> dict[str, Any]:
    return {
        "expected_return": answer.expected_return,
        "interval": list(answer.interval),
        "standard_error": answer.standard_error,
        "model_error": answer.errors.model,
        "unknown_mass": answer.unknown_mass,
        "verdict": answer.verdict,
        "reasons": list(answer.reasons),
    }


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield

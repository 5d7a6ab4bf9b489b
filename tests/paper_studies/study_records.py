"""Hand-made records of learning studies."""

from dataclasses import replace
from typing import Any

from studies.paper import EXPERIMENTS, LearningStudy
from studies.paper._experiment import Mode
from studies.records import Record


def study(name: str) -> LearningStudy:
    found = EXPERIMENTS[name]
    assert isinstance(found, LearningStudy)
    return found


def learning_record(
    experiment: str,
    method: str,
    size: int,
    seed: int,
    *returns: float,
    mode: Mode = "ours",
    demonstrations: str | None = None,
    transitions: tuple[int, ...] | None = None,
    **results: Any,
) -> Record:
    """Return a record whose snapshots returned these."""
    seen = transitions or (size,) * len(returns)
    evaluations = [
        {"updates": k, "transitions": seen[k], "seconds": float(k), "return": value}
        for k, value in enumerate(returns)
    ]
    file = {} if demonstrations is None else {"demonstrations": demonstrations}
    return replace(
        EXPERIMENTS[experiment].run(method, size, seed, mode, **file),
        commit="0123456",
        cpu_seconds=1.0,
        wall_seconds=2.0,
        results={"evaluations": evaluations, **results},
    )

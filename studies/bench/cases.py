"""What is measured: a star around one case, not the full product of all sizes."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

__all__ = ["QUICK_BANDWIDTHS", "WARM_UP", "Case", "quick", "star"]

# The first updates find no solution to start from, and touch their memory for the first time.
WARM_UP = 3

# What is selected on 1 000 rows; `quick` has no time to do so.
QUICK_BANDWIDTHS = {"states": [0.1, 0.1, 0.44], "actions": [2.0]}

_MOST_SELECTION_ROWS = 100_000


@dataclass(frozen=True)
class Case:
    """One measurement; the defaults are the centre of the star.

    Attributes:
        task: Where the transitions come from.
        transitions: n.
        candidates: K, the same for every row; None for the rule of the model.
        discount: γ.
        dtype: Of the update and of the floor.
        policy: Deterministic, or Gaussian with 15 samples.
        updates: How many updates there are, the warm-up included.
        dense: Whether one update of the dense implementation is timed beside it.
    """

    task: Literal["pendulum", "swimmer", "halfcheetah"] = "pendulum"
    transitions: int = 100_000
    candidates: int | None = 32
    discount: float = 0.99
    dtype: Literal["float32", "float64"] = "float32"
    policy: Literal["deterministic", "gaussian"] = "deterministic"
    updates: int = WARM_UP + 20
    dense: bool = False

    @property
    def name(self) -> str:
        """What distinguishes it, in a word that a shell does not split."""
        centre = Case()
        parts = [self.task, _short(self.transitions)]
        parts += [f"K{self.candidates}"] if self.candidates else []
        parts += [f"discount{self.discount:g}"] if self.discount != centre.discount else []
        parts += [self.dtype] if self.dtype != centre.dtype else []
        parts += [self.policy] if self.policy != centre.policy else []
        return "-".join([*parts, "dense"] if self.dense else parts)

    @property
    def selection(self) -> tuple[str, int]:
        """On which task and how many rows its bandwidths are selected; a fixed K cuts them on purpose."""
        return self.task, min(self.transitions, _MOST_SELECTION_ROWS)

    @property
    def can_run(self) -> bool:
        """Whether the environment that its transitions come from is installed."""
        needed = () if self.task == "pendulum" else ("gymnasium", "mujoco", "imageio")
        return all(importlib.util.find_spec(name) for name in needed)

    def values(self) -> dict[str, Any]:
        """Return the case as plain values."""
        return {"name": self.name, **asdict(self)}

    @classmethod
    def from_results(cls, results: Mapping[str, Any]) -> Case:
        """Return the case of the results of a record."""
        return cls(**{name: value for name, value in results.items() if name in cls.__dataclass_fields__})


def star() -> Iterator[Case]:
    """Yield the cases, the small ones first."""
    centre = Case()
    sizes = [
        replace(centre, transitions=n, candidates=K, updates=WARM_UP + updates)
        for n, updates in ((10_000, 50), (100_000, 20))
        for K in (32, 128)
    ]
    small, _, middle, _ = sizes

    yield from sizes
    yield replace(small, candidates=None)
    yield replace(small, policy="gaussian", updates=WARM_UP + 10)
    for n in (1_000, 3_000, 10_000):
        yield replace(small, transitions=n, dense=True)
    yield replace(middle, discount=0.97)
    yield replace(middle, discount=0.999)
    yield replace(middle, dtype="float64")
    for task in ("swimmer", "halfcheetah"):
        yield replace(small, task=task)
        yield replace(middle, task=task)
    yield replace(middle, task="halfcheetah", candidates=128)

    # A hundred updates in all, so that what a training takes can be read off.
    yield replace(centre, transitions=1_000_000, updates=100)
    yield replace(centre, transitions=1_000_000, candidates=128, updates=WARM_UP + 10)


def quick() -> Iterator[Case]:
    """Yield small cases of every kind, seconds in all: they show that the benchmark runs, not how fast."""
    small = Case(transitions=500, candidates=16, updates=WARM_UP + 2)
    yield replace(small, dense=True)
    yield replace(small, policy="gaussian")
    yield replace(small, candidates=None, dtype="float64")


def _short(count: int) -> str:
    """Return 1e5 for 100000, and 1234 for 1234."""
    power = int(math.log10(count))
    lead = count / 10**power
    return f"{lead:.0f}e{power}" if lead.is_integer() and power >= 3 else str(count)

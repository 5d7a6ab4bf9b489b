"""The record of a guard: its last handovers, and how often each controller acted."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Source = Literal["learned", "fallback", "last resort"]
"""Who gave an action."""


@dataclass(frozen=True, slots=True)
class Handover:
    """A step at which another controller began to act.

    Attributes:
        step: Number of the step, from 0 since the guard was made.
        time: The time stamp of the measurement; None without one.
        before: Who acted before; "start" at the first action and after a reset.
        after: Who acts now.
        reason: Why.
        unknown: Unknown share of the state.
    """

    step: int
    time: float | None
    before: Source | Literal["start"]
    after: Source
    reason: str
    unknown: float


@dataclass(frozen=True, slots=True)
class StepCounts:
    """Numbers of steps since a guard was made.

    Attributes:
        by_source: By who acted.
        by_reason: By why the policy did not act.
    """

    by_source: Mapping[Source, int]
    by_reason: Mapping[str, int]


class GuardTrace:
    """Counters of steps, and a ring buffer of handovers.

    Args:
        size: The largest number of handovers that are kept.
    """

    def __init__(self, size: int) -> None:
        self._handovers = deque[Handover](maxlen=size)
        self._sources, self._reasons = Counter[Source](), Counter[str]()
        self._steps = 0

    @property
    def log(self) -> tuple[Handover, ...]:
        """The last handovers, oldest first."""
        return tuple(self._handovers)

    @property
    def counts(self) -> StepCounts:
        """The counters now."""
        sources: dict[Source, int] = {"learned": 0, "fallback": 0, "last resort": 0}
        return StepCounts(
            MappingProxyType(sources | self._sources), MappingProxyType(dict(self._reasons.most_common()))
        )

    def add(
        self, before: Source | None, after: Source | None, *, reason: str, unknown: float, time: float | None
    ) -> None:
        """Count a step; `before` is None at a start, and `after` if nobody acts."""
        if after is not None:
            self._sources[after] += 1
            if after != before:
                found = Handover(self._steps, time, before or "start", after, reason, unknown)
                self._handovers.append(found)
        if after != "learned":
            self._reasons[reason] += 1
        self._steps += 1

"""What is told of the plants of a fleet."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from nopg.large_logs._pooling import Pool

# A plant stands out beyond this robust z-score of its log error; among few plants none does. Chosen on fleets
# of the study with seeds from 100 on.
_STANDS_OUT, _FEWEST = 2.5, 8
# Standard deviation of a normal sample over the median of its absolute deviations.
_NORMAL = 1.4826
# Most alike plants that are named.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class PlantReport:
    """One plant among others of its kind.

    Attributes:
        name: Of the plant.
        rows: Number of its rows.
        pool: Errors of its one-step predictions, and which other plants count for it.
        score: Robust z-score of the log error with which all other plants predict it.
        stands_out: Whether others predict it far worse than plants usually are.
    """

    name: str
    rows: int
    pool: Pool
    score: float
    stands_out: bool

    @property
    def fraction(self) -> float:
        """Share of other plants in the effective rows of its model."""
        return self.pool.rows / (self.rows + self.pool.rows)


@dataclass(frozen=True, slots=True)
class FleetReport:
    """All plants of a fleet.

    Attributes:
        plants: One by one.
    """

    plants: tuple[PlantReport, ...]

    @classmethod
    def of(cls, pools: Mapping[str, Pool], rows: Mapping[str, int]) -> FleetReport:
        """Return the report of plants from what is pooled with each, and their rows."""
        scores = _scores(np.array([pool.fleet_error for pool in pools.values()]))
        return cls(
            tuple(
                PlantReport(name, rows[name], pool, float(score), bool(score > _STANDS_OUT))
                for (name, pool), score in zip(pools.items(), scores, strict=True)
            )
        )

    @property
    def standing_out(self) -> tuple[str, ...]:
        """Names of the plants that stand out, the oddest first."""
        odd = sorted((one for one in self.plants if one.stands_out), key=lambda one: -one.score)
        return tuple(one.name for one in odd)

    def __str__(self) -> str:
        """A table with a row for each plant."""
        rows = [("plant", "rows", "own", "pooled", "fleet", "others", "most alike", "score")]
        for one in self.plants:
            errors = (one.pool.own_error, one.pool.pooled_error, one.pool.fleet_error)
            own, pooled, fleet = (f"{error:.3g}" if math.isfinite(error) else "unknown" for error in errors)
            alike = [f"{name} {weight:.0%}" for name, weight in list(one.pool.weights.items())[:_NAMED]]
            score = f"{one.score:+.1f}" + (" stands out" if one.stands_out else "")
            others = f"{one.fraction:.0%}"
            rows.append((one.name, str(one.rows), own, pooled, fleet, others, ", ".join(alike), score))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        odd = ", ".join(self.standing_out) or "no plant"
        return "\n".join([*lines, f"{odd} stands out; errors in standard deviations of a step"])


def _scores(errors: np.typing.NDArray[np.float64]) -> np.typing.NDArray[np.float64]:
    """Return robust z-scores of log errors; 0 among few plants."""
    if len(errors) < _FEWEST:
        return np.zeros(len(errors))
    logs = np.log(np.maximum(errors, 1e-300))
    apart = logs - np.median(logs)
    return np.asarray(apart / max(_NORMAL * float(np.median(np.abs(apart))), 1e-12))

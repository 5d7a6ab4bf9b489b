"""Whether something that is not in a row predicts what the model leaves unexplained in it.

The residuals e of one-step predictions on held-out rows are compared with what a model of (s, a) cannot know:
the residuals of the rows before, the nearest counting most, the action of the row before and the time
since the episode began. The last two are taken as they are beyond a linear function of (1, s, a). Where such
columns Z tell nothing, the score u = Zᵀe has the covariance S = Σ e² z zᵀ whatever the variance of each row,
and uᵀS⁻¹u is χ² distributed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special

from nopg._typing import FloatArray, IntArray
from nopg.data._derive import rows_before
from nopg.models._residuals import Residuals

# How many rows there must be for each number that is compared with residuals.
_ROWS_PER_NUMBER = 10
# Residuals are cut at this many standard deviations, so that a single row decides nothing.
_CUT = 3.0
# Residuals of the rows before count by powers of it: a slow disturbance shows in many, hardly in one.
_FADING, _LAST = 0.7, 12
# What counts: the probability of chance, and the share of a step's standard deviation that is predicted.
_CHANCE, _MATTERS = 5e-4, 0.03
# A column that is a linear function of others up to this share of its deviation tells nothing of its own.
_NOTHING_NEW = 1e-6

Source = Literal["errors before", "action before", "time"]

# What a source of some columns means, and what to do.
_MEANING: dict[Source, tuple[str, str]] = {
    "errors before": (
        "prediction errors last from row to row: a disturbance or a state that is not logged, or a slow "
        "sensor",
        "Log it, or add lags: `--lags auto`",
    ),
    "action before": (
        "the action of the row before matters: a delay, a slow actuator, or a disturbance that the operator "
        "reacts to",
        "Add lags: `--lags auto`, or log the action as it was applied",
    ),
    "time": (
        "the time since the episode began matters: ageing or warming up",
        "Log what changes, or the time",
    ),
}


@dataclass(frozen=True, slots=True)
class Memory:
    """How far the residual of a column is predicted by something that is not in its row.

    Attributes:
        column: Name.
        source: What predicts it.
        chance: Probability of such a relation where there is none.
        share: Standard deviation that is predicted, as a share of that of the column's steps.
    """

    column: str
    source: Source
    chance: float
    share: float

    @property
    def matters(self) -> bool:
        """Whether it is neither chance nor negligible."""
        return self.chance < _CHANCE and self.share > _MATTERS


def meanings(found: Sequence[Memory]) -> tuple[tuple[str, str], ...]:
    """Return what relations that matter mean and what to do about them, a pair for each of their sources."""
    pairs = list[tuple[str, str]]()
    for source, (what, advice) in _MEANING.items():
        if names := list(dict.fromkeys(one.column for one in found if one.source == source and one.matters)):
            verb = "depends" if len(names) == 1 else "depend"
            pairs.append((f"{', '.join(names)} {verb} on more than the row: {what}", advice))
    return tuple(pairs)


def memory_of(found: Residuals) -> tuple[Memory, ...]:
    """Return what predicts the residuals of each learned column."""
    later = np.flatnonzero(found.linked)
    if len(later) == 0:
        return ()
    log = found.log
    present = np.column_stack([np.ones(len(log)), log.features.numpy(), log.actions.numpy()])
    past = _Past(_standardised(present[later]), log.actions.numpy(), rows_before(found.linked), later)
    return tuple(
        one
        for name, residuals, spread in zip(log.schema.measured, found.states.T, found.spread, strict=True)
        if spread > 0
        for one in past.memories(name, residuals, float(spread))
    )


class _Past:
    """What came before rows, beyond a linear function of what is in them.

    Args:
        present: 1, state features and actions of the rows, shape (m, q).
        actions: Of all rows, shape (n, d_a).
        place: Number of rows before each in its run, shape (n,).
        later: Rows that follow another one, shape (m,).
    """

    def __init__(self, present: FloatArray, actions: FloatArray, place: IntArray, later: IntArray) -> None:
        self._present, self._later, self._place = present, later, place
        time = place[later] - place[later].mean()
        self._sources: dict[Source, FloatArray] = {
            "action before": self._beyond(actions[later - 1]),
            "time": self._beyond(present * time[:, None]),
        }

    def memories(self, name: str, residuals: FloatArray, spread: float) -> Iterator[Memory]:
        """Yield what is predicted by each source of one column's residuals (n,)."""
        deviation = float(residuals.std())
        if not deviation > 0.0:  # also where a group left out leaves no model
            return
        cut = np.clip(residuals / deviation, -_CUT, _CUT)
        now, sources = cut[self._later], [*self._sources.items()]
        for first in (1, 2):
            before = self._before(cut, first)[self._later]
            if now @ before > 0:  # noise of a sensor makes successive residuals opposite, not later ones
                sources.append(("errors before", before[:, None]))
        for source, columns in sources:
            if 0 < columns.shape[1] * _ROWS_PER_NUMBER <= len(now):
                chance, share = _score(now, columns)
                yield Memory(name, source, chance, share * deviation / spread)

    def _before(self, values: FloatArray, first: int) -> FloatArray:
        """Return fading sums of the values (n,) of rows before in the run, from the `first` on."""
        found = np.zeros_like(values)
        for steps in range(first, _LAST + 1):
            rows = np.flatnonzero(self._place >= steps)
            found[rows] += _FADING ** (steps - first) * values[rows - steps]
        return found

    def _beyond(self, columns: FloatArray) -> FloatArray:
        """Return columns (m, ·) less their linear functions of the present; without those that are such."""
        about = columns - self._present @ np.linalg.lstsq(self._present, columns, rcond=None)[0]
        size = np.sqrt(np.square(columns).mean(axis=0))
        own = np.sqrt(np.square(about).mean(axis=0))
        kept = own > _NOTHING_NEW * np.maximum(size, 1e-300)
        found: FloatArray = about[:, kept] / own[kept]
        return found


def _score(residuals: FloatArray, columns: FloatArray) -> tuple[float, float]:
    """Return the probability of chance, and the predicted share of the residuals' deviation."""
    n, k = columns.shape
    u = columns.T @ residuals
    covariance = (columns * np.square(residuals)[:, None]).T @ columns
    statistic = float(u @ np.linalg.lstsq(covariance, u, rcond=None)[0])
    fitted = columns @ np.linalg.lstsq(columns, residuals, rcond=None)[0]
    explained = float(np.square(fitted).sum() / np.square(residuals).sum())
    return float(special.chdtrc(k, statistic)), math.sqrt(max(explained - k / n, 0.0))


def _standardised(columns: FloatArray) -> FloatArray:
    """Return columns in units of their deviations about their means; a constant one as it is."""
    deviation = columns.std(axis=0)
    varies = deviation > 0
    about = columns - np.where(varies, columns.mean(axis=0), 0.0)
    found: FloatArray = about / np.where(varies, deviation, 1.0)
    return found

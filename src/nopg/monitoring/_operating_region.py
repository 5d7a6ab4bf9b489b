"""Where the plant is, compared with the log and with the predicted paths."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from nopg._typing import FloatArray
from nopg.inspect._wording import share_of
from nopg.monitoring._scores import Scorer
from nopg.monitoring._table import Table
from nopg.training import TrainingResult

# Rows in which the plant is looked for, and the fewest of them that count.
_RECENT, _FEWEST = 200, 50
# Share of recent rows beyond the predicted one at which to look, and to act.
_SOME, _MOST = 0.2, 0.5
# Rows of predicted paths that are scored.
_PREDICTED = 2_000
# Predicted range of a state: quantiles, and a margin as a share of their distance.
_QUANTILES, _MARGIN = (0.005, 0.995), 0.1


@dataclass(frozen=True, slots=True)
class OperatingRegion:
    """Where the plant has been in the last 200 rows.

    Attributes:
        outside: Share of rows at which the log does not show what the plant does.
        expected: The same share along the predicted paths; None in shadow, where other paths are taken.
        column: State column that is most often where it was not predicted, or None.
        beyond: Share of rows in which it is.
        median: Its median.
        predicted: Its predicted range.
    """

    outside: float
    expected: float | None = None
    column: str | None = None
    beyond: float = 0.0
    median: float = 0.0
    predicted: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def of(cls, run: Table, predicted: PredictedStates | None) -> OperatingRegion | None:
        """Return it for recent rows; None for too few. Without predicted states only the log counts."""
        if len(run) < _FEWEST:
            return None
        outside = float(run["outside"][-_RECENT:].mean())
        if predicted is None:
            return cls(outside)
        states, low, high = run["states"][-_RECENT:], predicted.low, predicted.high
        beyond = ((states < low) | (states > high)).mean(axis=0)
        k = int(beyond.argmax())
        name = predicted.names[k] if beyond[k] > 0 else None
        middle = float(np.median(states[:, k]))
        return cls(
            outside, predicted.outside, name, float(beyond[k]), middle, (float(low[k]), float(high[k]))
        )

    @property
    def mostly_outside(self) -> bool:
        """Whether most rows lie outside the log."""
        return self._unexpected > _MOST

    @property
    def _unexpected(self) -> float:
        return self.outside - (self.expected or 0.0)

    def reasons(self) -> list[str]:
        """Return what is unusual, in sentences."""
        found = []
        if self._unexpected > _SOME:
            predicted = "" if self.expected is None else f" (predicted: {share_of(self.expected)})"
            found.append(
                "the plant is where the log has no data, or gets other actions than those that followed such "
                f"states in the log, in {share_of(self.outside)} of the last rows{predicted}; there the "
                "model can neither predict nor test"
            )
        if self.column is not None and self.beyond > _SOME:
            low, high = self.predicted
            found.append(
                f"{self.column} is outside its predicted range of {low:.4g} to {high:.4g} in "
                f"{share_of(self.beyond)} of the last rows (median {self.median:.4g})"
            )
        return found


@dataclass(frozen=True, slots=True)
class PredictedStates:
    """Where the controller was predicted to go.

    Attributes:
        names: Of the state columns.
        low: Lowest values (d_s,); −∞ for an angle.
        high: Highest values (d_s,); ∞ for an angle.
        outside: Share of the predicted rows outside the log.
    """

    names: tuple[str, ...]
    low: FloatArray
    high: FloatArray
    outside: float

    @classmethod
    def of(cls, result: TrainingResult, scorer: Scorer) -> PredictedStates:
        """Return the range of the predicted paths of a controller."""
        paths, schema = result.evaluation.paths, result.policy.schema
        m = paths.returns.shape[1]
        there = paths.going[:, :m] > 0
        s, a = paths.states[:, :m][there].numpy(), paths.actions[:, :m][there].numpy()
        low, high = np.quantile(s, _QUANTILES, axis=0)
        margin = _MARGIN * (high - low) + 1e-9
        margin[[name in schema.angles for name in schema.states]] = math.inf
        some = torch.linspace(0, len(s) - 1, min(len(s), _PREDICTED)).long()
        rows = (torch.as_tensor(s)[some], torch.as_tensor(a)[some])
        outside = scorer.score((*rows, torch.zeros(len(some), dtype=torch.float64), rows[0])).outside
        return cls(schema.states, low - margin, high + margin, float(outside.mean()))

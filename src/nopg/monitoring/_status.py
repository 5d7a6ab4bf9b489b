"""The verdict on a run with its reasons, and the fault that explains the errors since a change best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from nopg._typing import FloatArray
from nopg.data import Schema
from nopg.monitoring._run import OperatingRegion, ReturnCheck
from nopg.monitoring._scores import Scorer

Verdict = Literal["ok", "check", "retrain", "revert"]
Kind = Literal["offset", "gain", "sensor", "noise"]

# Another cause is named too where it explains at least this share of what the best one does.
_AS_GOOD, _MOST_CAUSES = 0.9, 3
# Noise explains any error; what it explains counts for less.
_NOISE_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the plant.

    Attributes:
        kind: `gain` of an action, offset of a `sensor`, `offset` of a column, or `noise` of a column.
        column: Name of the action, of the state column, or "reward".
        size: Of a gain relative (−0.2: a fifth weaker), of an offset in the unit of the column (per step
            where the column itself is pushed), of noise as a multiple of that of the log.
        since: Estimated step of the change, counted from 1.
        found: Step of the alarm.
        unit: Declared unit of the column, or empty.
    """

    kind: Kind
    column: str
    size: float
    since: int
    found: int
    unit: str = ""

    @property
    def words(self) -> str:
        """What the change looks like, such as `voltage acts 20 % weaker than in the log`."""
        size, up = f"{abs(self.size):.3g}", self.size > 0
        amount = f"{size} {self.unit}".rstrip()
        if self.kind == "gain" and self.size < -1:
            return f"{self.column} acts the other way round"
        what = {
            "gain": f"acts {100 * abs(self.size):.0f} % {'stronger' if up else 'weaker'} than in the log",
            "sensor": f"is measured {amount} too {'high' if up else 'low'}",
            "noise": f"scatters {size} times as much around its prediction as in the log",
            "offset": f"comes out {amount} {'higher' if up else 'lower'} after each step than predicted",
        }
        return f"{self.column} {what[self.kind]}"


def likely_causes(
    z: FloatArray,
    shifts: FloatArray,
    scale: FloatArray,
    *,
    scorer: Scorer,
    schema: Schema,
    since: int,
    found: int,
) -> tuple[Change, ...]:
    """Return the faults that explain scores best, one parameter each; the best first.

    Args:
        z: Scores since the change, shape (m, c).
        shifts: Scores that faults of size 1 would cause, shape (m, families, c).
        scale: Of the scores, shape (m, c).
        scorer: Names of the tested columns, and how held-out scores are spread.
        schema: Of the data.
        since: Estimated step of the change.
        found: Step of the alarm.
    """
    names, c = scorer.names, z.shape[1]
    shifts = np.concatenate([np.eye(c) / scale[:, None], shifts[:, c:]], axis=1)  # offsets in raw units
    score, shift = z / scorer.usual, shifts / scorer.usual
    along = np.einsum("mc,mfc->f", score, shift)
    power = np.maximum(np.square(shift).sum(axis=(0, 2)), 1e-300)
    # By medians too: a few rows at which the model is poor do not count as noise.
    by_median = np.square(np.median(np.abs(z), axis=0) / scorer.typical)
    ratio = np.minimum(np.square(score).mean(axis=0), by_median)
    by_noise = 0.5 * _NOISE_SHARE * len(z) * (ratio - 1.0 - np.log(np.maximum(ratio, 1e-300))) * (ratio > 1.0)
    explained = np.concatenate([0.5 * along**2 / power, by_noise])
    sizes = np.concatenate([along / power, np.sqrt(ratio)])
    faults: list[tuple[Kind, str]] = [
        *(("offset", name) for name in names),
        *(("gain", name) for name in schema.actions),
        *(("sensor", name) for name in schema.states),
        *(("noise", name) for name in names),
    ]
    order = np.argsort(-explained, kind="stable")[:_MOST_CAUSES]
    return tuple(
        Change(kind, column, float(sizes[f]), since, found, schema.units.get(column, ""))
        for f in order.tolist()
        for kind, column in [faults[f]]
        if explained[f] >= _AS_GOOD * explained[order[0]]
    )


@dataclass(frozen=True, slots=True)
class Shadow:
    """The controller beside the one that acts.

    Attributes:
        difference: Mean difference of the last 200 actions, |shadow − acting|, by action.
        predicted: Return that the model predicts for the controller from the states of the run; None while
            the run is too short.
        acting: The same for the controller that acts, imitated from the run.
    """

    difference: Mapping[str, float]
    predicted: float | None = None
    acting: float | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """What is known of a run after some steps.

    Attributes:
        step: Number of steps so far.
        verdict: `ok`: nothing unusual. `check`: something to look at. `retrain`: the plant has changed, or is
            mostly outside the log, and returns what was predicted, or does not run under the controller yet.
            `revert`: the same, and it returns less than predicted: go back to the old controller.
        reasons: Why, in sentences.
        evidence: Against an unchanged plant: mean of the Shiryaev-Roberts statistics.
        threshold: The evidence at which there is an alarm, horizon/false_alarms.
        change: The change of the plant, after an alarm.
        others: Other causes that explain the errors nearly as well.
        operating_region: Where the plant is; None before 50 rows.
        return_check: Measured against predicted return; None while the run is too short or was not asked for.
        shadow: Comparison of both controllers, in shadow mode.
    """

    step: int
    verdict: Verdict
    reasons: tuple[str, ...]
    evidence: float
    threshold: float
    change: Change | None = None
    others: tuple[Change, ...] = ()
    operating_region: OperatingRegion | None = None
    return_check: ReturnCheck | None = None
    shadow: Shadow | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return asdict(self)

    def __str__(self) -> str:
        why = f": {'; '.join(self.reasons)}" if self.reasons else ""
        return f"{self.verdict} after {self.step} steps{why}"


def judge(
    causes: tuple[Change, ...], region: OperatingRegion | None, returns: ReturnCheck | None, *, shadow: bool
) -> tuple[Verdict, tuple[str, ...]]:
    """Return the verdict and its reasons."""
    reasons = []
    if causes:
        best, others = causes[0], "".join(f", or {one.words}" for one in causes[1:])
        reasons.append(
            f"the plant has changed since about step {best.since} (found at step {best.found}): "
            f"{best.words}{others}"
        )
    reasons += [] if region is None else region.reasons()
    below = returns is not None and returns.below
    if returns is not None and below:
        low, high = returns.interval
        reasons.append(
            f"measured return {returns.measured:.4g}, below the predicted interval [{low:.4g}, {high:.4g}] "
            "from the same states"
        )
    if not reasons:
        return "ok", ()
    serious = bool(causes) or (region is not None and region.mostly_outside)
    if serious and shadow:
        return "retrain", tuple(reasons)
    if serious and returns is not None:
        return ("revert" if below else "retrain"), tuple(reasons)
    if serious:
        reasons.append("whether it costs return is not known yet")
    return "check", tuple(reasons)

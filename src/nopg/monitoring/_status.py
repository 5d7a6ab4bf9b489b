"""The verdict on a run, with its reasons in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from nopg.monitoring._cause import Change
from nopg.monitoring._operating_region import OperatingRegion
from nopg.monitoring._returns import ReturnCheck

Advice = Literal["ok", "check", "retrain", "revert"]


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
    verdict: Advice
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
    causes: tuple[Change, ...],
    operating_region: OperatingRegion | None,
    returns: ReturnCheck | None,
    *,
    shadow: bool,
) -> tuple[Advice, tuple[str, ...]]:
    """Return the verdict and its reasons."""
    reasons = []
    if causes:
        best, others = causes[0], "".join(f", or {one.words}" for one in causes[1:])
        reasons.append(
            f"the plant has changed since about step {best.since} (found at step {best.found}): "
            f"{best.words}{others}"
        )
    reasons += [] if operating_region is None else operating_region.reasons()
    below = returns is not None and returns.below
    if returns is not None and below:
        low, high = returns.interval
        reasons.append(
            f"measured return {returns.measured:.4g}, below the predicted interval [{low:.4g}, {high:.4g}] "
            "from the same states"
        )
    if not reasons:
        return "ok", ()
    serious = bool(causes) or (operating_region is not None and operating_region.mostly_outside)
    if serious and shadow:
        return "retrain", tuple(reasons)
    if serious and returns is not None:
        return ("revert" if below else "retrain"), tuple(reasons)
    if serious:
        reasons.append("whether it costs return is not known yet")
    return "check", tuple(reasons)

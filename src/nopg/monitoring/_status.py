"""The verdict on a run, with its reasons in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from nopg.monitoring._cause import Change
from nopg.monitoring._returns import Earnings
from nopg.monitoring._whereabouts import Whereabouts

Advice = Literal["keep", "look", "retrain", "stop"]


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
        verdict: `keep`: nothing unusual. `look`: something to check. `retrain`: the plant has changed, or has
            left the log, and earns what was predicted, or does not run under the controller yet. `stop`: the
            same, and it earns less than predicted.
        reasons: Why, in sentences.
        evidence: Against an unchanged plant: mean of the Shiryaev-Roberts statistics.
        threshold: The evidence at which there is an alarm, horizon/false_alarms.
        change: The change of the plant, after an alarm.
        others: Other causes that explain the errors nearly as well.
        whereabouts: Where the plant is; None before 50 rows.
        earnings: Measured against predicted return; None while the run is too short or was not asked for.
        shadow: Comparison of both controllers, in shadow mode.
    """

    step: int
    verdict: Advice
    reasons: tuple[str, ...]
    evidence: float
    threshold: float
    change: Change | None = None
    others: tuple[Change, ...] = ()
    whereabouts: Whereabouts | None = None
    earnings: Earnings | None = None
    shadow: Shadow | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return asdict(self)

    def __str__(self) -> str:
        why = f": {'; '.join(self.reasons)}" if self.reasons else ""
        return f"{self.verdict} after {self.step} steps{why}"


def judge(
    causes: tuple[Change, ...], whereabouts: Whereabouts | None, earned: Earnings | None, *, shadow: bool
) -> tuple[Advice, tuple[str, ...]]:
    """Return the verdict and its reasons."""
    reasons = []
    if causes:
        best, others = causes[0], "".join(f", or {one.words}" for one in causes[1:])
        reasons.append(
            f"the plant has changed since about step {best.since} (found at step {best.found}): "
            f"{best.words}{others}"
        )
    reasons += [] if whereabouts is None else whereabouts.reasons()
    below = earned is not None and earned.below
    if earned is not None and below:
        low, high = earned.interval
        reasons.append(
            f"it earns {earned.measured:.4g}, less than the predicted {earned.predicted:.4g} "
            f"[{low:.4g}, {high:.4g}] from the same states"
        )
    if not reasons:
        return "keep", ()
    serious = bool(causes) or (whereabouts is not None and whereabouts.left_log)
    if serious and shadow:
        return "retrain", tuple(reasons)
    if serious and earned is not None:
        return ("stop" if below else "retrain"), tuple(reasons)
    if serious:
        reasons.append("whether it costs return is not known yet")
    return "look", tuple(reasons)

"""The values that an assurance page shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nopg.deploy import GuardedController, GuardRules
from nopg.deploy._guard import MOST_UNKNOWN
from nopg.evaluation import Assessment, Gain
from nopg.inspect import Description
from nopg.inspect._wording import count_of, duration
from nopg.report._hazards import HazardEvidence
from nopg.report._wording import interval, number, sentence
from nopg.training import TrainingResult

_REVIEW = (
    "Have hazards, regions and limits reviewed by those who are responsible for the plant.",
    "Test the controller on the plant under supervision, and keep the records. It may begin close to the "
    "logged controller (TrainingResult.within).",
    "Watch the running plant for changes (nopg monitor), and say who acts on an alarm.",
)


@dataclass(frozen=True, eq=False, repr=False)
class AssuranceContent:
    """What one run shows about hazards. See `AssuranceCase`."""

    title: str
    result: TrainingResult
    description: Description
    logged: Assessment
    gain: Gain
    hazards: tuple[HazardEvidence, ...]
    guard: GuardedController | None
    fallback: str | None

    @property
    def sentence(self) -> str:
        """The verdict on the predicted return in one sentence."""
        return sentence(self.result.evaluation, self.logged, self.gain)

    @property
    def guard_is_default(self) -> bool:
        """Whether nobody has chosen a setting of the guard."""
        guard = self.guard
        if guard is None or guard.max_change is not None:
            return False
        return guard.rules == GuardRules() and guard.most_unknown == MOST_UNKNOWN

    @property
    def guard_settings(self) -> dict[str, tuple[str, str]]:
        """Every setting of the guard: its value, and what it does."""
        guard = self.guard
        if guard is None:
            return {}
        rules, columns = guard.rules, guard.controller.columns
        limits = zip(columns.actions, guard.low.tolist(), guard.high.tolist(), strict=True)
        frozen = rules.frozen_limits(columns).tolist()
        return {
            **{
                f"limits of {name}": (
                    interval((low, high)),
                    "every action is clipped to them, whoever gave it",
                )
                for name, low, high in limits
            },
            "max_change": (_listed(guard.max_change), "largest change of an action per step"),
            "most_unknown": (number(guard.most_unknown), "the fallback acts above this unknown share"),
            "return_unknown": (number(guard.return_unknown), "the policy acts again at this share or below"),
            "dwell": (count_of(rules.dwell, "step"), "time without the policy after a handover, at least"),
            "transfer": (count_of(rules.transfer, "step"), "in which the action moves over after a handover"),
            "deadline": (_seconds(rules.deadline), "largest age of a measurement"),
            "frozen": (
                ", ".join(
                    f"{name} {n:g}"
                    for name, n in zip(columns.measured, frozen, strict=True)
                    if np.isfinite(n)
                )
                or "not checked",
                "steps without any change after which a sensor counts as failed",
            ),
            "last_resort": (
                "the last action is held" if rules.last_resort is None else _listed(rules.last_resort),
                "what is applied where the fallback fails",
            ),
            "fallback": (self.fallback or "to be completed", "acts where the policy may not"),
        }

    @property
    def open_items(self) -> tuple[str, ...]:
        """What the user has to complete."""
        return (*self._of_hazards(), *self._of_guard(), *_REVIEW)

    def _of_hazards(self) -> Iterator[str]:
        for one in self.hazards:
            name = one.hazard.name
            if one.finding == "predicted to exceed":
                yield f"{name}: a limit is predicted to be exceeded. Do not run the controller as it is."
            elif one.finding == "not shown":
                yield f"{name}: not shown by these data. Show it in another way, or log what is missing."
            if one.hazard.consequence is None:
                yield f"{name}: state the consequence."
            if one.hazard.safeguard is None:
                yield f"{name}: state what protects the plant without the controller."

    def _of_guard(self) -> Iterator[str]:
        if self.guard is None or self.guard_is_default:
            yield "Choose the settings of the guard for this plant; no setting was given."
        elif self.guard.rules.deadline is None:
            yield "Decide on a deadline: delays of measurements are not checked."
        if self.fallback is None:
            yield "State which controller acts where the policy may not."


def _listed(values: object) -> str:
    if values is None:
        return "no limit"
    numbers = np.atleast_1d(np.asarray(values, dtype=np.float64)).tolist()
    return ", ".join(number(one) for one in numbers)


def _seconds(value: float | None) -> str:
    return "not checked" if value is None else duration(value)

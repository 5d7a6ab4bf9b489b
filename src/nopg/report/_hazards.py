"""Hazards that a user names, and what one run shows about each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Literal

import numpy as np
import torch

from nopg.deploy import GuardedController
from nopg.errors import ArgumentError
from nopg.evaluation import Assessment, OfflineEvaluator, Risk
from nopg.evaluation._risk import region_of
from nopg.inspect._wording import chance
from nopg.training import TrainingResult

HazardFinding = Literal["predicted to keep", "predicted to exceed", "not shown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hazard:
    """A region of the states that is dangerous, and how much of it is tolerated.

    Attributes:
        name: How the page calls it.
        region: Expression of named states; see `OfflineEvaluator.risk`.
        max_probability: Largest tolerated probability of entering the region within `steps`.
        max_time_share: Largest tolerated share of discounted time in the region; see `Constraint`.
        steps: Steps within which entering counts; by default the length of the predicted paths.
        consequence: What happens there.
        safeguard: What protects the plant there without the controller, such as an interlock.

    Example:
        >>> Hazard(name="overflow", region="level > 1.8", max_probability=0.01).steps is None
        True
    """

    name: str
    region: str
    max_probability: float | None = None
    max_time_share: float | None = None
    steps: int | None = None
    consequence: str | None = None
    safeguard: str | None = None

    def __post_init__(self) -> None:
        for key in ("name", "region"):
            if not isinstance(value := getattr(self, key), str) or not value.strip():
                raise ArgumentError(f"the {key} of a hazard is {value!r}; give a text")
        limits = {"max_probability": self.max_probability, "max_time_share": self.max_time_share}
        if all(value is None for value in limits.values()):
            raise ArgumentError(f"the hazard {self.name!r} has no limit; give {' or '.join(limits)}")
        for key, value in limits.items():
            if value is not None and not (_is_number(value) and 0.0 <= value <= 1.0):
                raise ArgumentError(
                    f"{key} of the hazard {self.name!r} is {value!r}; give a number in [0, 1]"
                )
        if self.steps is not None and not (_is_number(self.steps, int) and self.steps >= 1):
            raise ArgumentError(f"steps of the hazard {self.name!r} is {self.steps!r}; give at least 1")
        for key in ("consequence", "safeguard"):
            if not isinstance(value := getattr(self, key), str | None):
                raise ArgumentError(f"{key} of the hazard {self.name!r} is {value!r}; give a text")


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of a hazard, and the predicted quantity that it is for.

    Attributes:
        quantity: What is limited.
        most: The most that is tolerated.
        low: Lower end of the prediction; leaving the data counts as staying away from the region.
        high: Upper end; leaving the data counts as being in the region.
    """

    quantity: str
    most: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.quantity} between {chance(self.low)} and {chance(self.high)}, at most {self.tolerated}"

    @property
    def tolerated(self) -> str:
        """The most that is tolerated, in per cent."""
        return f"{100 * self.most:.3g} %"


@dataclass(frozen=True, slots=True)
class HazardEvidence:
    """What one run shows about a hazard.

    Attributes:
        hazard: The hazard.
        risk: Of entering its region.
        time_share: Predicted share of discounted time in the region.
        time_interval: 95 % of that; its ends count leaving the data as staying away and as being inside.
        limits: The limits, with the prediction for each.
        rows: Number of logged states.
        episodes_inside: Number of episodes with a state in the region; None if the log has no episodes.
        unknown: Median unknown share at the logged states inside, under the controller; None without any.
        policy_acts: Share of the logged states inside at which the guard lets the policy act; None without a
            guard or logged states inside.
        vetoes: Why the limits do not count as kept, whatever is predicted.
        finding: `predicted to keep` if all upper ends are within their limits and nothing vetoes that,
            `predicted to exceed` if a lower end is above its limit, else `not shown`.
    """

    hazard: Hazard
    risk: Risk
    time_share: float
    time_interval: tuple[float, float]
    limits: tuple[Limit, ...]
    rows: int
    episodes_inside: int | None
    unknown: float | None
    policy_acts: float | None
    vetoes: tuple[str, ...]
    finding: HazardFinding


def hazard_evidence(
    result: TrainingResult, hazards: Sequence[Hazard], guard: GuardedController | None, steps: int | None
) -> tuple[HazardEvidence, ...]:
    """Return what a run shows about hazards; an unknown column in a region is named before any work.

    Args:
        result: The run, with its data.
        hazards: Of distinct names.
        guard: The guard of the controller.
        steps: Steps of hazards that have none; by default the length of the predicted paths.
    """
    if not hazards:
        raise ArgumentError("there are no hazards; name at least one with its region and its limit")
    if len({one.name for one in hazards}) < len(hazards):
        raise ArgumentError(f"two hazards have the same name: {[one.name for one in hazards]}")
    schema = result.policy.schema
    if guard is not None and guard.controller.columns.to_dict() != schema.to_dict():
        raise ArgumentError(
            f"the guard is that of {guard.controller}, which is not the controller of this run"
        )
    for one in hazards:
        try:
            region_of(one.region, schema)
        except ArgumentError as error:
            raise ArgumentError(f"the hazard {one.name!r}: {error}") from None
    return tuple(_evidence(result, one, guard, steps) for one in hazards)


def _evidence(
    result: TrainingResult, hazard: Hazard, guard: GuardedController | None, steps: int | None
) -> HazardEvidence:
    evaluator, evaluation = result.evaluator, result.evaluation
    within = hazard.steps or steps or len(evaluation.paths.states)
    risk = evaluator.risk(result.policy, hazard.region, within)
    share, interval = _time_share(evaluator, evaluation, hazard.region)
    limits = []
    if hazard.max_probability is not None:
        limits.append(Limit("probability of entering", hazard.max_probability, risk.low, risk.high))
    if hazard.max_time_share is not None:
        limits.append(Limit("share of discounted time", hazard.max_time_share, *interval))
    inside, episodes = _logged_inside(result, hazard.region)
    vetoes = _vetoes(result, risk)
    return HazardEvidence(
        hazard=hazard,
        risk=risk,
        time_share=share,
        time_interval=interval,
        limits=tuple(limits),
        rows=len(result.data) + int(result.data.terminated.sum()),
        episodes_inside=episodes,
        unknown=float(np.median(result.unknown_at(inside))) if len(inside) else None,
        policy_acts=_policy_acts(guard, inside) if guard is not None and len(inside) else None,
        vetoes=vetoes,
        finding=_finding(limits, vetoes),
    )


def _time_share(
    evaluator: OfflineEvaluator, evaluation: Assessment, region: str
) -> tuple[float, tuple[float, float]]:
    """Return the share of discounted time in a region; what lies outside the data widens its interval."""
    share, (low, high) = evaluator.share_inside(evaluation, region)
    unknown = evaluation.unknown_mass
    return share, (max(low - unknown, 0.0), min(high + unknown, 1.0))


def _logged_inside(result: TrainingResult, region: str) -> tuple[torch.Tensor, int | None]:
    """Return the logged states in a region (k, d_s), and in how many episodes they are."""
    data, inside = result.data, region_of(region, result.data.schema)
    here, ends = inside(data.states), inside(data.next_states) & data.terminated
    states = torch.cat([data.states[here], data.next_states[ends]])
    return states, None if data.episodes is None else len(data.episodes[here | ends].unique())


def _policy_acts(guard: GuardedController, states: torch.Tensor) -> float:
    return float((guard.controller.unknown(states.numpy()) <= guard.most_unknown).mean())


def _vetoes(result: TrainingResult, risk: Risk) -> tuple[str, ...]:
    evaluation = result.evaluation
    found = [*risk.reasons, *evaluation.reasons]
    if risk.verdict == "not identifiable" and not risk.reasons:
        found.append("the two ends of the probability of entering are more than 50 % apart")
    if not result.certificate.converged:
        found.append("a solve of the equation did not reach its tolerance")
    return tuple(dict.fromkeys(found))


def _finding(limits: Sequence[Limit], vetoes: Sequence[str]) -> HazardFinding:
    if any(one.low > one.most for one in limits):
        return "predicted to exceed"
    return "predicted to keep" if not vetoes and all(one.high <= one.most for one in limits) else "not shown"


def _is_number(value: object, kind: type | UnionType = int | float) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)

"""The values that a report shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nopg.data import Transitions
from nopg.evaluation import Assessment, Gain, Risk
from nopg.evaluation._behavior import LoggedReturns
from nopg.inspect import Description
from nopg.report._influential import InfluentialPart
from nopg.report._pictures import Picture
from nopg.report._sensitivity import Variation
from nopg.report._wording import sentence
from nopg.training import DeviationTable, GainTable, TrainingResult


@dataclass(frozen=True, eq=False, repr=False)
class ReportContent:
    """What is predicted of a trained policy before it runs. See `PolicyReport`."""

    title: str
    result: TrainingResult
    data: Transitions
    description: Description
    policy: Assessment
    logged: Assessment
    gain: Gain
    seen: LoggedReturns | None
    risks: Mapping[str, Risk]
    most: float | None
    variations: tuple[Variation, ...]
    influential: tuple[InfluentialPart, ...]
    maps: Mapping[str, Picture]
    trajectories: Mapping[str, Picture]
    gains: GainTable | None = None
    deviations: DeviationTable | None = None

    @property
    def sentence(self) -> str:
        """The verdict in one sentence, with its three numbers."""
        return sentence(self.policy, self.logged, self.gain)

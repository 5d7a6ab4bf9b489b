"""Settings of a model of the plant, one frozen config each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from nopg._typing import RewardFunction
from nopg.models._log_summary import LogSummary


class ModelConfig(ABC):
    """What every config of a model has.

    Attributes:
        name: Of the model.
        has_rollouts: Whether its paths can evaluate a controller.
        unknown_value: v, the value of leaving the data.
    """

    __slots__ = ()

    name: ClassVar[str]
    has_rollouts: ClassVar[bool]
    unknown_value: float | None

    @abstractmethod
    def identity(self) -> dict[str, object]:
        """Return the settings that the numbers of a training depend on."""


@dataclass(frozen=True, slots=True)
class LocalModelConfig(ModelConfig):
    """Settings of the local model.

    Attributes:
        reward: The reward as a function of states (m, d_s), actions (m, d_a) and next states (m, d_s) in
            torch, where it is known; fitted by default.
        unknown_value: v, the value of leaving the data; the worst that was logged, for ever, by default.
        summary: Of a large log, of which the data are a sample.
    """

    reward: RewardFunction | None = None
    unknown_value: float | None = None
    summary: LogSummary | None = None

    name: ClassVar[str] = "local"
    has_rollouts: ClassVar[bool] = True

    def identity(self) -> dict[str, object]:
        """Return the settings that the numbers of a training depend on."""
        return {
            "model": self.name,
            "reward": None if self.reward is None else "a function",
            "unknown_value": self.unknown_value,
            **({} if self.summary is None else {"rows of the log": self.summary.statistics.num_rows}),
        }

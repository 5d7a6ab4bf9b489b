"""Settings of the models, one frozen config each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from nopg._checks import check_device
from nopg._provenance import fingerprint
from nopg.errors import ArgumentError
from nopg.kernels import Bandwidths
from nopg.linalg import Solver
from nopg.linalg._choice import solver_by_name
from nopg.models._integration import IntegrationRule
from nopg.models._log_summary import LogSummary
from nopg.models._model import RewardFunction
from nopg.models._prior_mass import check_prior_mass

# Below this many rows float64 costs little.
_FLOAT32_ABOVE = 20_000


@dataclass(frozen=True, slots=True)
class LocalModelConfig:
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


@dataclass(frozen=True, slots=True)
class PaperModelConfig:
    """Settings of the paper's model.

    Attributes:
        bandwidths: Of the kernels; selected from the data by default.
        prior_mass: β. A query that fewer than β samples support is mostly unknown; 10⁻⁶ by default, 0 in the
            paper.
        integration: How the integral over next states is computed; N_ϕ = 1 by default.
        unknown_value: v, the value of leaving the data; the worst reward for ever by default.
        solver: Of the linear systems: 'auto', 'gmres', 'bicgstab', 'lu', 'fixed-point', or a solver.
        precision: Of the training: 'auto' takes float32 above 20 000 rows. The result is certified in float64
            in any case.
        device: Where the updates compute, such as 'cuda'; the CPU by default.
        memory_budget: Bytes that the process may take; 60 % of what is free by default.
    """

    bandwidths: Bandwidths | None = None
    prior_mass: float | None = None
    integration: IntegrationRule | None = None
    unknown_value: float | None = None
    solver: Solver | str = "auto"
    precision: Literal["auto", "float32", "float64"] = "auto"
    device: torch.device | str | None = None
    memory_budget: int | None = None

    name: ClassVar[str] = "paper"
    has_rollouts: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.prior_mass is not None:
            check_prior_mass(self.prior_mass)
        if self.precision not in {"auto", "float32", "float64"}:
            raise ArgumentError(
                f"there is no precision {self.precision!r}; choose 'auto', 'float32' or 'float64'"
            )
        check_device(self.device)
        if isinstance(self.solver, str):
            solver_by_name(self.solver)

    def new_solver(self) -> Solver:
        """Return the solver, without a state from earlier systems."""
        solver = solver_by_name(self.solver) if isinstance(self.solver, str) else self.solver
        solver.reset()
        return solver

    def dtype(self, rows: int) -> torch.dtype:
        """Return the precision of a training on this many rows."""
        single = self.precision == "float32" or (self.precision == "auto" and rows > _FLOAT32_ABOVE)
        return torch.float32 if single else torch.float64

    def identity(self) -> dict[str, object]:
        """Return the settings that the numbers of a training depend on: not where it computes."""
        names, h = ("prior_mass", "integration", "unknown_value", "solver", "precision"), self.bandwidths
        widths = None if h is None else fingerprint((h.states, h.actions, h.next_states))
        return {"bandwidths": widths, "model": self.name, **{name: getattr(self, name) for name in names}}


ModelConfig = LocalModelConfig | PaperModelConfig


def model_config(model: str | ModelConfig) -> ModelConfig:
    """Return the config that is meant: a name stands for the default settings of that model."""
    if isinstance(model, ModelConfig):
        return model
    found = {config.name: config for config in (LocalModelConfig, PaperModelConfig)}.get(model)
    if found is None:
        raise ArgumentError(
            f"there is no model {model!r}; choose 'local' or 'paper', or give LocalModel.Config(…) or "
            "PaperModel.Config(…)"
        )
    return found()

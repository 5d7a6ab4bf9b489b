"""What every Bellman equation offers, whichever model of the plant it rests on."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import torch

from nopg._checks import check_discount, squarable_unit
from nopg._support import Support
from nopg._typing import FloatArray
from nopg.bundles._fields import Fields
from nopg.data import Schema, Transitions
from nopg.errors import ArgumentError
from nopg.models import LocalModel
from nopg.models._local_model import ModelConfig
from nopg.policies import Policy

if TYPE_CHECKING:
    from nopg.bellman._multistep import MultistepProblem


@dataclass(frozen=True, slots=True)
class Certificate:
    """What is proven about a solution; numerical error only, not that of the model.

    Attributes:
        return_error: Bound on the error of Ĵ, that of the cut included.
        q_error: Bound on the error of every value, given the candidates.
        mu_error: Bound on the summed error of the visits.
        duality_gap: |Ĵ by values − Ĵ by visits|, which is 0 in exact arithmetic.
        mass_defect: By how much visits do not balance.
        converged: Whether both solves reached their tolerance.
        cut_error: Bound on what the samples that are no candidates would change in Ĵ.
    """

    return_error: float
    q_error: float
    mu_error: float
    duality_gap: float
    mass_defect: float
    converged: bool
    cut_error: float = 0.0


def unknown_under(support: Support, policy: Policy, schema: Schema, states: torch.Tensor) -> FloatArray:
    """Return the unknown share (m,) at raw states (m, d_s) and the actions of a policy within bounds."""
    with torch.no_grad():
        actions = schema.clip_actions(policy.mode(schema.encode(states)))
    return support.unknown(torch.cat([states, actions.to(states)], dim=1))


@dataclass(frozen=True, slots=True)
class GradientEstimate:
    """A direction of ascent and what the estimator thinks of the policy.

    Attributes:
        direction: ∂Ĵ/∂θ, one tensor per trainable parameter of the policy, in their order.
        expected_return: Ĵ.
        diagnostics: Named numbers for reports, such as the unknown mass and the steps of the solver.
    """

    direction: tuple[torch.Tensor, ...]
    expected_return: float
    diagnostics: Mapping[str, float]

    @property
    def norm(self) -> float:
        """Euclidean norm of the direction."""
        unit = squarable_unit(
            max((float(part.abs().max()) for part in self.direction if part.numel()), default=0.0)
        )
        return unit * math.sqrt(sum(float((part / unit).square().sum()) for part in self.direction))


class GradientEstimator(Protocol):
    """Anything that can say how to change a policy."""

    def estimate(self, policy: Policy, *, rng: torch.Generator) -> GradientEstimate:
        """Return the gradient at this policy; all randomness comes from the generator."""
        ...


class Solution(ABC):
    """The solution of a Bellman equation under one policy.

    Attributes:
        problem: What it solves.
        policy: The policy.
    """

    problem: ControlProblem
    policy: Policy

    @property
    @abstractmethod
    def expected_return(self) -> float:
        """Ĵ, the discounted return from the initial states."""

    @property
    @abstractmethod
    def unknown_mass(self) -> float:
        """The discounted probability of leaving the data."""

    @property
    @abstractmethod
    def certificate(self) -> Certificate:
        """What is proven about the numerics."""

    @abstractmethod
    def visited(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return raw states (v, d_s) that the policy visits and their weights (v,), which sum to 1."""

    @abstractmethod
    def value(self, features: torch.Tensor) -> torch.Tensor:
        """Return V̂ under the policy at state features (m, d_f), shape (m,)."""

    @abstractmethod
    def unknown_at(self, features: torch.Tensor) -> torch.Tensor:
        """Return the share at state features (m, d_f) that the data do not account for, shape (m,)."""


class ControlProblem(ABC):
    """All of a Bellman equation that does not depend on the policy.

    Attributes:
        discount: γ in [0, 1), of one step.
        unknown_value: v, the value of leaving the data.
        default_updates: Most updates of a training that does not set them.
    """

    discount: float
    unknown_value: float
    default_updates: ClassVar[int]

    _by_name: ClassVar[dict[str, tuple[type[ModelConfig], type[ControlProblem]]]] = {}

    def __init_subclass__(cls, *, model: type[ModelConfig] | None = None) -> None:
        """Register the equation of a model."""
        if model is not None:
            ControlProblem._by_name[model.name] = model, cls

    @staticmethod
    def config(model: str | ModelConfig) -> ModelConfig:
        """Return the config of a model; a name stands for its default settings."""
        if isinstance(model, ModelConfig):
            return model
        if model not in ControlProblem._by_name:
            raise ArgumentError(
                f"there is no model {model!r}; choose 'local' or 'paper', or give LocalModel.Config(…) or "
                "PaperModel.Config(…)"
            )
        return ControlProblem._by_name[model][0]()

    @staticmethod
    def from_data(
        data: Transitions,
        discount: float,
        *,
        model: str | ModelConfig = "local",
        costs: torch.Tensor | None = None,
    ) -> ControlProblem:
        """Fit a model, and further columns of costs (n, k), to transitions; return its Bellman equation."""
        gamma, config = check_discount(discount), ControlProblem.config(model)
        _, kind = ControlProblem._by_name[config.name]
        return kind._fitted(config, data, gamma, costs=costs)  # noqa: SLF001

    @staticmethod
    def read_config(settings: Fields) -> ModelConfig:
        """Return the config of a problem that `settings` described; nothing of it is trusted."""
        name = settings.text("name")
        if name not in ControlProblem._by_name:
            raise ArgumentError(f"there is no model {name!r}")
        return ControlProblem._by_name[name][0].from_settings(settings)

    @classmethod
    @abstractmethod
    def _fitted(
        cls, config: Any, data: Transitions, discount: float, *, costs: torch.Tensor | None
    ) -> ControlProblem:
        """Return the problem of a config of this model; see `from_data`."""

    @property
    @abstractmethod
    def multistep(self) -> MultistepProblem:
        """The multi-step equation on the local model of the same data, whose rollouts judge controllers."""

    @property
    @abstractmethod
    def data(self) -> Transitions:
        """The transitions."""

    @property
    def local_model(self) -> LocalModel:
        """The local model of the data; its `support` tells where these are."""
        return self.multistep.model

    @property
    @abstractmethod
    def description(self) -> str:
        """The model and its equation in one sentence."""

    @property
    @abstractmethod
    def note(self) -> str:
        """What to show of the fitted model before training, in one line."""

    @abstractmethod
    def estimator(self) -> GradientEstimator:
        """Return what estimates the policy gradient."""

    @abstractmethod
    def solve(self, policy: Policy, *, seed: int = 0) -> Solution:
        """Return the certified solution under a policy."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return plain values from which the same problem is built on the same data."""

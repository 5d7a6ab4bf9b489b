"""What every Bellman equation offers, whichever model of the plant it rests on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from nopg.bellman._estimate import GradientEstimator
from nopg.data import Transitions
from nopg.kernels import GaussianKernel
from nopg.linalg import Solver
from nopg.policies import Policy

__all__ = ["Certificate", "ControlProblem", "Solution", "StateEstimates"]


@dataclass(frozen=True, slots=True)
class Certificate:
    """What is proven about a solution; numerical error only, not that of the model.

    Attributes:
        return_error: Bound on the error of Ĵ.
        q_error: Bound on the error of every value.
        mu_error: Bound on the summed error of the visits.
        duality_gap: |Ĵ by values − Ĵ by visits|, which is 0 in exact arithmetic.
        mass_defect: By how much visits do not balance.
        converged: Whether both solves reached their tolerance.
    """

    return_error: float
    q_error: float
    mu_error: float
    duality_gap: float
    mass_defect: float
    converged: bool


class StateEstimates(ABC):
    """What a solution says at some states, each computed when it is asked for; all of shape (m,)."""

    @property
    @abstractmethod
    def value(self) -> torch.Tensor:
        """V̂ under the policy."""

    @property
    @abstractmethod
    def visitation(self) -> torch.Tensor:
        """μ̃, discounted visits around."""

    @property
    @abstractmethod
    def unknown(self) -> torch.Tensor:
        """The share that the data do not account for."""

    @property
    @abstractmethod
    def support(self) -> torch.Tensor:
        """Effective number of samples around."""


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
    def at(self, features: torch.Tensor, *, seed: int = 0) -> StateEstimates:
        """Return all that is known at state features (m, d_f)."""

    @abstractmethod
    def action_value(self, features: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return Q̂ at state features (m, d_f) for actions (m, d_a), shape (m,)."""

    @abstractmethod
    def visited(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return raw states (v, d_s) that the policy visits and their weights (v,), which sum to 1."""

    @abstractmethod
    def arrays(self) -> dict[str, torch.Tensor]:
        """Return what `ControlProblem.restore` needs to have this solution again without a solve."""

    def value(self, features: torch.Tensor, *, seed: int = 0) -> torch.Tensor:
        """Return V̂ under the policy at state features (m, d_f), shape (m,)."""
        return self.at(features, seed=seed).value

    def visitation(self, features: torch.Tensor, *, seed: int = 0) -> torch.Tensor:
        """Return μ̃ at state features (m, d_f), shape (m,); read it beside `unknown_at`."""
        return self.at(features, seed=seed).visitation

    def unknown_at(self, features: torch.Tensor, *, seed: int = 0) -> torch.Tensor:
        """Return the share at state features (m, d_f) that the data do not account for, shape (m,)."""
        return self.at(features, seed=seed).unknown

    def support(self, features: torch.Tensor) -> torch.Tensor:
        """Return the effective number of samples at state features (m, d_f), shape (m,)."""
        return self.at(features).support


class ControlProblem(ABC):
    """All of a Bellman equation that does not depend on the policy.

    Attributes:
        discount: γ in [0, 1), of one step.
        unknown_value: v, the value of leaving the data.
        has_rollouts: Whether its model predicts paths, so that rollouts can judge a policy.
    """

    discount: float
    unknown_value: float
    has_rollouts: bool = False

    @property
    @abstractmethod
    def data(self) -> Transitions:
        """The transitions, in the order of the log; on several ranks those of this one."""

    @property
    def stored_data(self) -> Transitions:
        """The transitions in the order in which the problem is built from them again."""
        return self.data

    @property
    @abstractmethod
    def initial_states(self) -> torch.Tensor:
        """Raw states that the task starts in, shape (n₀, d_s)."""

    @property
    @abstractmethod
    def metric(self) -> GaussianKernel:
        """The unit of distance between state features."""

    @property
    @abstractmethod
    def description(self) -> str:
        """The model and its equation in one sentence."""

    @abstractmethod
    def estimator(self, solver: Solver | None = None) -> GradientEstimator:
        """Return what estimates the policy gradient."""

    @abstractmethod
    def solve(self, policy: Policy, *, seed: int = 0, solver: Solver | None = None) -> Solution:
        """Return the certified solution under a policy."""

    @abstractmethod
    def restore(self, policy: Policy, arrays: Mapping[str, torch.Tensor], *, seed: int) -> Solution:
        """Return the solution that `Solution.arrays` described, certified anew."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return plain values from which the same problem is built on the same data."""

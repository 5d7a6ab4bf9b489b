"""All of a multi-step Bellman equation that does not depend on the policy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import torch

from nopg._seeding import generator
from nopg._typing import FloatArray
from nopg.bellman._charge import Charge
from nopg.bellman._nodes import Nodes
from nopg.bellman._problem import ControlProblem
from nopg.data import Transitions
from nopg.errors import ArgumentError
from nopg.kernels import GaussianKernel
from nopg.models import LocalModel
from nopg.models._rollout import Act
from nopg.policies import Deterministic, Policy

__all__ = ["MultistepTerms", "acting"]

# Below this share of noise in the variance of one step, rollouts are drawn without it.
_NEGLIGIBLE_NOISE = 1e-2
# Kernel width of a column that does not count, in standard deviations.
_ANY_ACTION = 1e6


def acting(policy: Policy, noise: torch.Tensor | None) -> Act:
    """Return how a policy acts along paths: by noise (T, m, d_a), or by its mode."""
    if noise is None:
        return lambda features, t: policy.mode(features)
    return lambda features, t: policy.actions(features, noise[t][None])[0]


@dataclass(frozen=True)
class MultistepTerms(ControlProblem):
    """All of a multi-step equation that does not depend on the policy.

    Attributes:
        model: Of the plant.
        nodes: Where values are kept.
        starts: Raw initial states, equally likely, shape (n₀, d_s).
        discount: γ of one step.
        horizon: H.
        unknown_value: v, the value of leaving the data.
        num_parts: Parts of the model that are solved: 1 is all rows, more are halves too.
        num_paths: Paths per node, with the noise of the plant; a single one is without it.
        seed: Of the noise.
        charges: Prices of costs that are taken off the rewards.
    """

    model: LocalModel
    nodes: Nodes
    starts: torch.Tensor
    discount: float
    horizon: int
    unknown_value: float
    num_parts: int = 1
    num_paths: int = 1
    seed: int = 0
    charges: tuple[Charge, ...] = ()

    @property
    def data(self) -> Transitions:
        """The transitions."""
        return self.model.data

    @property
    def initial_states(self) -> torch.Tensor:
        """Raw states that the task starts in, shape (n₀, d_s)."""
        return self.starts

    @property
    def metric(self) -> GaussianKernel:
        """Standard deviations of the state columns; of an angle one radian.

        Earlier actions do not count: each lay between the limits of the actions when it was applied.
        """
        columns = torch.tensor(self.data.schema.feature_columns)
        space, pending = self.model.state_space, torch.as_tensor(self.model.steps.known.pending)
        units = torch.where(space.periods > 0, 1.0, space.units)
        return GaussianKernel(torch.where(pending, _ANY_ACTION * units, units)[columns])

    @property
    def description(self) -> str:
        """The model and its equation in one sentence."""
        charts = self.model.num_charts
        model = f"{charts} local polynomials" if charts else "a polynomial for all data"
        nodes = f"H = {self.horizon} over {len(self.nodes)} value nodes"
        return f"{model}; a multi-step Bellman equation with {nodes}"

    @property
    def note(self) -> str:
        """How well held-out rows are predicted."""
        fits = ", ".join(f"{fit.name} {fit.r_squared:.3f}" for fit in self.model.learned_fits)
        return f"held-out R² {fits}"

    @property
    def best_value(self) -> float:
        """The best logged reward for ever; 0 if the end of the task is better."""
        best = self.model.reward_high / (1.0 - self.discount)
        return max(best, 0.0) if self.model.may_end else best

    def settings(self) -> dict[str, Any]:
        """Return plain values from which the same problem is built on the same data."""
        if self.model.reward_function not in (None, self.model.data.reward_function):
            raise ArgumentError(
                "a result whose reward is a function cannot be saved with its data, since functions are not "
                "saved; save with data=False"
            )
        if self.model.is_sample:
            raise ArgumentError(
                "a result from the summary of a log is not saved with its data; save with data=False, "
                "and keep the log"
            )
        return {
            "name": LocalModel.Config.name,
            "horizon": self.horizon,
            "unknown_value": self.unknown_value,
            "num_paths": self.num_paths,
            "seed": self.seed,
        }

    @property
    def noisy(self) -> bool:
        """Whether rollouts are drawn with the noise of the plant."""
        return self.model.noise_share > _NEGLIGIBLE_NOISE

    def replace(self, **changes: object) -> Self:
        """Return the problem with some attributes changed."""
        return replace(self, **changes)  # type: ignore[arg-type]

    def controller(self, policy: Policy) -> Act:
        """Return how a policy acts along the paths: a stochastic one with the noise of each path."""
        return acting(policy, self.action_noise(policy))

    def action_noise(self, policy: Policy) -> torch.Tensor | None:
        """Return standard normal noise (H, P·L·N, d_a) of a stochastic policy, the same for every part."""
        if isinstance(policy, Deterministic):
            return None
        return self._normal("noise of the actions", policy.num_actions)

    @cached_property
    def _noise(self) -> FloatArray | None:
        """Noise of plant and sensors (H, P·L·N, 2 d_s), the same for every part; None with a single path."""
        if self.num_paths == 1:
            return None
        noise: FloatArray = self._normal("noise of the plant", 2 * self.model.num_states).numpy()
        return noise

    def _normal(self, purpose: str, columns: int) -> torch.Tensor:
        """Return antithetic standard normal numbers for all paths, shape (H, P·L·N, columns)."""
        N, H, L = len(self.nodes) + len(self.starts), self.horizon, self.num_paths
        rng = generator(self.seed, purpose)
        half = torch.randn(H, -(-L // 2), N, columns, generator=rng, dtype=torch.float64)
        both = torch.cat([half, -half], dim=1)[:, :L].reshape(H, L * N, columns)
        return both.repeat(1, self.num_parts, 1)

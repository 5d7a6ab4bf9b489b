"""The multi-step Bellman equation: H steps along the model, one interpolation, one linear system.

    V(z) = Σ_{t<H} γᵗ α_t r_t + γᴴ α_H Σₖ wₖ(s_H) V(zₖ) + (what leaves the data)·v

The matrix is non-negative with row sums at most γᴴ, so Λ = I − γᴴW is an M-matrix and residuals bound errors.
H = 1 is the paper's structure; H = ∞ is policy search along rollouts of a model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch

from nopg._checks import check_discount
from nopg._seeding import generator
from nopg._typing import FloatArray, RewardFunction
from nopg.bellman._multistep_solution import MultistepSolution
from nopg.bellman._nodes import Nodes
from nopg.bellman._problem import ControlProblem, GradientEstimator
from nopg.bellman._sampled import SampledGradient
from nopg.data import Transitions
from nopg.data._start_set import StartSet
from nopg.errors import ArgumentError
from nopg.models import LocalModel
from nopg.models._local_model import LocalModelConfig
from nopg.models._rollout import Act, Rollout, along, rollout
from nopg.policies import Deterministic, Policy

_NUM_NODES = 300
# The first H: node spacings that a path moves in it, effective horizons at least; and the longest.
_MOVED, _FIRST, LONGEST_HORIZON = 3.0, 0.5, 128
# Below this share of noise in the variance of one step the equation is solved without it, as a small noise
# hardly changes what is best; above it with this many paths per node.
_SMALL_NOISE, _NUM_PATHS = 5e-2, 4
# Below this share of noise in the variance of one step, rollouts are drawn without it.
_NEGLIGIBLE_NOISE = 1e-2
_MOST_STARTS = 50
# Kernel width of a column that does not count, in standard deviations.
_ANY_ACTION = 1e6


@dataclass(frozen=True, slots=True, eq=False)
class Charge:
    """A cost that is taken off the rewards at a price."""

    price: float  # per unit of cost and step
    # A differentiable function of (s, a, s′); or the number of a column that the model fits
    cost: RewardFunction | int

    def applied(self, path: Rollout) -> Rollout:
        """Return paths with the cost taken off their rewards."""
        if isinstance(self.cost, int):
            cost = path.costs[self.cost]
            by_x = np.zeros(0) if path.cost_slopes is None else path.cost_slopes[self.cost]
        else:
            cost, by_x = along(path, self.cost)
        before = 0.0 if path.slopes is None else path.slopes[1]
        return path.rewarded(path.rewards - self.price * cost, before - self.price * by_x)


@dataclass(frozen=True)
class MultistepProblem(ControlProblem, model=LocalModelConfig):
    """A multi-step equation on the local model, all of it that does not depend on the policy.

    Attributes:
        model: Of the plant.
        nodes: Where values are kept.
        start_set: Where the task starts.
        discount: γ of one step.
        horizon: H.
        unknown_value: v, the value of leaving the data.
        num_parts: Parts of the model that are solved: 1 is all rows, more are halves too.
        num_paths: Paths per node, with the noise of the plant; a single one is without it.
        charges: Prices of costs that are taken off the rewards.
    """

    model: LocalModel
    nodes: Nodes
    start_set: StartSet
    discount: float
    horizon: int
    unknown_value: float
    num_parts: int = 1
    num_paths: int = 1
    charges: tuple[Charge, ...] = ()

    default_updates: ClassVar[int] = 100  # a training begins near an optimum

    @classmethod
    def build(
        cls,
        model: LocalModel,
        starts: StartSet | torch.Tensor,
        discount: float,
        *,
        horizon: int | None = None,
        unknown_value: float | None = None,
        num_nodes: int = _NUM_NODES,
    ) -> MultistepProblem:
        """Return the problem of a set of starts, or of declared raw initial states (n₀, d_s).

        By default H is where a typical path has moved three node spacings, or half an effective horizon.
        """
        gamma, nodes = check_discount(discount), Nodes.covering(model, num_nodes)
        if not isinstance(starts, StartSet):
            starts = StartSet.declared(starts, model.data.schema)
        if horizon is None:
            moved = model.steps_to_move(_MOVED * nodes.spacing)
            horizon = int(min(max(moved, math.ceil(round(_FIRST / (1.0 - gamma), 9))), LONGEST_HORIZON))
        return cls(
            model=model,
            nodes=nodes,
            start_set=starts,
            discount=gamma,
            horizon=horizon,
            unknown_value=model.worst_value(gamma) if unknown_value is None else unknown_value,
            num_paths=_NUM_PATHS if model.noise_share > _SMALL_NOISE else 1,
        )

    @classmethod
    def _fitted(
        cls, config: LocalModelConfig, data: Transitions, discount: float, *, costs: torch.Tensor | None
    ) -> MultistepProblem:
        known = config.summary
        model = LocalModel(
            data,
            reward=config.reward,
            costs=costs,
            groups=None if known is None else known.groups,
            whole=None if known is None else known.statistics,
            own_rows=None if known is None else known.own_rows,
        )
        return cls.build(model, StartSet.of(data), discount, unknown_value=config.unknown_value)

    @property
    def data(self) -> Transitions:
        """The transitions."""
        return self.model.data

    @cached_property
    def few_starts(self) -> StartSet:
        """The starts of the equation: all of them, or 50 that are drawn."""
        return self.start_set.few(_MOST_STARTS, purpose="starts of the equation")

    @property
    def starts(self) -> torch.Tensor:
        """Raw initial states of the equation, shape (n₀, d_s); their weights are those of `few_starts`."""
        return self.few_starts.states

    @property
    def state_widths(self) -> torch.Tensor:
        """Standard deviations of the state columns; of an angle one radian.

        Earlier actions do not count: each lay between the limits of the actions when it was applied.
        """
        columns = torch.tensor(self.data.schema.feature_columns)
        space, pending = self.model.state_space, torch.as_tensor(self.model.steps.known.pending)
        units = torch.where(space.periods > 0, 1.0, space.units)
        return torch.where(pending, _ANY_ACTION * units, units)[columns]

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
        return {"name": LocalModel.Config.name, "unknown_value": self.unknown_value}

    @property
    def noisy(self) -> bool:
        """Whether rollouts are drawn with the noise of the plant."""
        return self.model.noise_share > _NEGLIGIBLE_NOISE

    def replace(self, **changes: object) -> MultistepProblem:
        """Return the problem with some attributes changed."""
        return replace(self, **changes)  # type: ignore[arg-type]

    @property
    def multistep(self) -> MultistepProblem:
        """The problem itself."""
        return self

    def estimator(self) -> GradientEstimator:
        """Return a stochastic gradient along paths from the starts."""
        return SampledGradient(self, self.starts)

    def solve(self, policy: Policy, *, seed: int = 0) -> MultistepSolution:
        """Return the solution under a policy; the seed is not used."""
        del seed
        return MultistepSolution(self, policy, self.paths(policy))

    def paths(self, policy: Policy, *, slopes: bool = False) -> Rollout:
        """Return H steps from nodes and starts through all parts; noise is drawn once and for all."""
        places = torch.cat([self.nodes.states, self.starts])
        part = None
        if self.num_parts > 1:
            part = np.arange(self.num_parts).repeat(self.num_paths * len(places))
        path = rollout(
            self.model,
            self.acting(policy, self.action_noise(policy)),
            places.repeat(self.num_parts * self.num_paths, 1),
            self.horizon,
            part=part,
            noise=self._noise,
            slopes=slopes,
        )
        return self.charged(path)

    def charged(self, path: Rollout) -> Rollout:
        """Return paths with all charges taken off their rewards."""
        for charge in self.charges:
            path = charge.applied(path)
        return path

    @staticmethod
    def acting(policy: Policy, noise: torch.Tensor | None) -> Act:
        """Return how a policy acts along paths: by noise (T, m, d_a), or by its mode."""
        if noise is None:
            return lambda features, t: policy.mode(features)
        return lambda features, t: policy.actions(features, noise[t][None])[0]

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
        rng = generator(0, purpose)
        half = torch.randn(H, -(-L // 2), N, columns, generator=rng, dtype=torch.float64)
        both = torch.cat([half, -half], dim=1)[:, :L].reshape(H, L * N, columns)
        return both.repeat(1, self.num_parts, 1)

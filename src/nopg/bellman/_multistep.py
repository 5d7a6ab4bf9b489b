"""The multi-step Bellman equation: H steps along the model, one interpolation, one linear system.

    V(z) = Σ_{t<H} γᵗ α_t r_t + γᴴ α_H Σₖ wₖ(s_H) V(zₖ) + (what leaves the data)·v

The matrix is non-negative with row sums at most γᴴ, so Λ = I − γᴴW is an M-matrix and residuals bound errors.
H = 1 is the paper's structure; H = ∞ is policy search along rollouts of a model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch

from nopg._checks import check_discount
from nopg._ranks import current_ranks
from nopg._seeding import generator
from nopg._typing import FloatArray
from nopg.bellman._arrays import float_array
from nopg.bellman._charge import Charge
from nopg.bellman._estimate import GradientEstimator
from nopg.bellman._multistep_solution import LowerEndGradient, MultistepSolution
from nopg.bellman._nodes import Nodes
from nopg.bellman._problem import ControlProblem
from nopg.bundles._fields import Fields
from nopg.data import Transitions
from nopg.errors import ArgumentError
from nopg.kernels import GaussianKernel
from nopg.models import LocalModel
from nopg.models._config import LocalModelConfig
from nopg.models._rollout import Act, rollout
from nopg.policies import Deterministic, Policy

__all__ = ["LONGEST_HORIZON", "MultistepProblem"]

_NUM_NODES, _MOST_STARTS = 300, 50
# The first H: node spacings that a path moves in it, effective horizons at least; and the longest.
_MOVED, _FIRST, LONGEST_HORIZON = 3.0, 0.5, 128
# Of the noise, as a share of the variance of one step: below the first, rollouts are drawn without it, below
# the second the equation is solved without it, as a small noise hardly changes what is best.
_NEGLIGIBLE_NOISE, _SMALL_NOISE, _NUM_PATHS = 1e-2, 5e-2, 4
# The most nodes and paths that a saved problem may ask for.
_MOST_NODES, _MOST_PATHS = 2_000, 16


@dataclass(frozen=True)
class MultistepProblem(ControlProblem, model="local"):
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
        deviations: k of the objective J − k·se over the halves.
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
    deviations: float = 0.0
    seed: int = 0
    charges: tuple[Charge, ...] = ()

    default_updates: ClassVar[int] = 60  # a training begins near an optimum

    @classmethod
    def build(
        cls,
        model: LocalModel,
        starts: torch.Tensor,
        discount: float,
        *,
        horizon: int | None = None,
        unknown_value: float | None = None,
        num_nodes: int = _NUM_NODES,
        seed: int = 0,
    ) -> MultistepProblem:
        """Return the problem of raw initial states (n₀, d_s), drawn evenly where there are many.

        By default H is where a typical path has moved three node spacings, or half an effective horizon.
        """
        gamma = check_discount(discount)
        nodes = Nodes.covering(model, num_nodes)
        if horizon is None:
            moved = model.steps_to_move(_MOVED * nodes.spacing)
            horizon = int(min(max(moved, math.ceil(_FIRST / (1.0 - gamma))), LONGEST_HORIZON))
        return cls(
            model=model,
            nodes=nodes,
            starts=starts[:: -(-len(starts) // _MOST_STARTS)],
            discount=gamma,
            horizon=horizon,
            unknown_value=model.worst_value(gamma) if unknown_value is None else unknown_value,
            num_paths=_NUM_PATHS if model.noise_share > _SMALL_NOISE else 1,
            seed=seed,
        )

    @classmethod
    def _fitted(
        cls,
        config: LocalModelConfig,
        data: Transitions,
        starts: torch.Tensor,
        discount: float,
        *,
        costs: torch.Tensor | None,
        most_candidates: int | None,
    ) -> MultistepProblem:
        del most_candidates  # of the paper's model
        if current_ranks().several:
            raise ArgumentError("the local model runs in one process; under torchrun use model='paper'")
        model = LocalModel(data, reward=config.reward, costs=costs)
        return cls.build(model, starts, discount, unknown_value=config.unknown_value)

    @classmethod
    def _restored(
        cls,
        settings: Fields,
        data: Transitions,
        starts: torch.Tensor,
        discount: float,
        arrays: Mapping[str, torch.Tensor],
    ) -> MultistepProblem:
        nodes = float_array(arrays, "nodes", 2)
        if not 0 < len(nodes) <= _MOST_NODES or nodes.shape[1] != len(data.schema.states):
            raise ArgumentError(f"nodes have shape {tuple(nodes.shape)}; they are states of the plant")
        horizon, paths = settings.integer("horizon", least=1), settings.integer("num_paths", least=1)
        if horizon > LONGEST_HORIZON or paths > _MOST_PATHS:
            raise ArgumentError(f"{horizon} steps of {paths} paths are more than any training takes")
        problem = cls.build(
            LocalModel(data if data.initial_states is not None else data.starting_at(starts)),
            starts,
            discount,
            horizon=horizon,
            unknown_value=settings.number("unknown_value"),
            seed=settings.integer("seed"),
        )
        return problem.replace(num_paths=paths)

    @property
    def multistep(self) -> MultistepProblem:
        """The problem: its model predicts paths."""
        return self

    @property
    def note(self) -> str:
        """How well held-out rows are predicted."""
        fits = ", ".join(f"{fit.name} {fit.r_squared:.3f}" for fit in self.model.column_fits)
        return f"held-out R² {fits}"

    @property
    def best_value(self) -> float:
        """The best logged reward for ever; 0 if the end of the task is better."""
        best = self.model.reward_high / (1.0 - self.discount)
        return max(best, 0.0) if self.model.may_end else best

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
        """Standard deviations of the state columns; of an angle one radian."""
        columns = torch.tensor(self.data.schema.feature_columns)
        space = self.model.state_space
        return GaussianKernel(torch.where(space.periods > 0, 1.0, space.units)[columns])

    @property
    def description(self) -> str:
        """The model and its equation in one sentence."""
        return (
            f"{self.model.num_charts or 'no'} local polynomials; a multi-step Bellman equation with "
            f"H = {self.horizon} over {len(self.nodes)} value nodes"
        )

    def settings(self) -> dict[str, Any]:
        """Return plain values from which the same problem is built on the same data."""
        if self.model.reward_function is not None:
            raise ArgumentError(
                "a result whose reward is a function cannot be saved with its data, since functions are not "
                "saved; save with data=False"
            )
        return {
            "name": "local",
            "horizon": self.horizon,
            "unknown_value": self.unknown_value,
            "num_paths": self.num_paths,
            "seed": self.seed,
        }

    def estimator(self) -> GradientEstimator:
        """Return the exact gradient of the lower end of the return."""
        return LowerEndGradient(self)

    def restore(self, policy: Policy, arrays: Mapping[str, torch.Tensor], *, seed: int) -> MultistepSolution:
        """Return the solution with saved nodes."""
        nodes = arrays["nodes"]
        if nodes.ndim != 2 or nodes.shape[1] != self.model.num_states or len(nodes) == 0:
            raise ArgumentError(f"nodes have shape {tuple(nodes.shape)}; they are states of the plant")
        return self.replace(nodes=Nodes(nodes, self.model.state_space)).solve(policy, seed=seed)

    @property
    def noisy(self) -> bool:
        """Whether rollouts are drawn with the noise of the plant."""
        return self.model.noise_share > _NEGLIGIBLE_NOISE

    def replace(self, **changes: object) -> MultistepProblem:
        """Return the problem with some attributes changed."""
        return replace(self, **changes)  # type: ignore[arg-type]

    def solve(self, policy: Policy, *, seed: int = 0, slopes: bool = False) -> MultistepSolution:
        """Return the solution under a policy.

        Args:
            policy: Its noise, if it has any, is drawn once and for all.
            seed: Not used: noise comes from the seed of the problem.
            slopes: Whether to record what `MultistepSolution.gradient` needs.
        """
        del seed
        if policy.num_actions != self.model.num_actions:
            raise ArgumentError(
                f"the policy has {policy.num_actions} actions, the data have {self.model.num_actions}"
            )
        places = torch.cat([self.nodes.states, self.starts])
        states = places.repeat(self.num_parts * self.num_paths, 1)
        part = None
        if self.num_parts > 1:
            part = np.arange(self.num_parts).repeat(self.num_paths * len(places))
        path = rollout(
            self.model,
            self.controller(policy),
            states,
            self.horizon,
            part=part,
            noise=self._noise,
            slopes=slopes,
        )
        for charge in self.charges:
            path = charge.applied(path, slopes=slopes)
        return MultistepSolution(self, policy, path)

    def controller(self, policy: Policy) -> Act:
        """Return how a policy acts along the paths: a stochastic one with the noise of each path."""
        noise = self.action_noise(policy)
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
        """Noise of the plant (H, P·L·N, d_s), the same for every part; None with a single path."""
        if self.num_paths == 1:
            return None
        noise: FloatArray = self._normal("noise of the plant", self.model.num_states).numpy()
        return noise

    def _normal(self, purpose: str, columns: int) -> torch.Tensor:
        """Return antithetic standard normal numbers for all paths, shape (H, P·L·N, columns)."""
        N, H, L = len(self.nodes) + len(self.starts), self.horizon, self.num_paths
        rng = generator(self.seed, purpose)
        half = torch.randn(H, -(-L // 2), N, columns, generator=rng, dtype=torch.float64)
        both = torch.cat([half, -half], dim=1)[:, :L].reshape(H, L * N, columns)
        return both.repeat(1, self.num_parts, 1)

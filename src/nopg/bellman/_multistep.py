"""The multi-step Bellman equation: H steps along the model, one interpolation, one linear system.

    V(z) = Σ_{t<H} γᵗ α_t r_t + γᴴ α_H Σₖ wₖ(s_H) V(zₖ) + (what leaves the data)·v

The matrix is non-negative with row sums at most γᴴ, so Λ = I − γᴴW is an M-matrix and residuals bound errors.
H = 1 is the paper's structure; H = ∞ is policy search along rollouts of a model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch

from nopg._checks import check_discount
from nopg.bellman._arrays import float_array
from nopg.bellman._estimate import Clock, GradientEstimate, GradientEstimator
from nopg.bellman._multistep_solution import MultistepSolution
from nopg.bellman._multistep_terms import MultistepTerms
from nopg.bellman._nodes import Nodes
from nopg.bundles._fields import Fields
from nopg.data import Transitions
from nopg.data._magnitudes import check_magnitudes
from nopg.errors import ArgumentError
from nopg.models import LocalModel
from nopg.models._config import LocalModelConfig
from nopg.models._rollout import rollout
from nopg.policies import Policy

__all__ = ["LONGEST_HORIZON", "MultistepProblem"]

_NUM_NODES, _MOST_STARTS = 300, 50
# The first H: node spacings that a path moves in it, effective horizons at least; and the longest.
_MOVED, _FIRST, LONGEST_HORIZON = 3.0, 0.5, 128
# Below this share of noise in the variance of one step the equation is solved without it, as a small noise
# hardly changes what is best; above it with this many paths per node.
_SMALL_NOISE, _NUM_PATHS = 5e-2, 4
# The most nodes and paths that a saved problem may ask for.
_MOST_NODES, _MOST_PATHS = 2_000, 16


class MultistepProblem(MultistepTerms, model=LocalModelConfig.name):
    """A multi-step equation on the local model: build it from a model, or `ControlProblem.from_data`."""

    default_updates: ClassVar[int] = 100  # a training begins near an optimum

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
            horizon = int(min(max(moved, math.ceil(round(_FIRST / (1.0 - gamma), 9))), LONGEST_HORIZON))
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
        known = config.summary
        model = LocalModel(
            data,
            reward=config.reward,
            costs=costs,
            groups=None if known is None else known.groups,
            whole=None if known is None else known.statistics,
            own_rows=None if known is None else known.own_rows,
        )
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
        check_magnitudes(data.schema, zip(data.schema.states, nodes.T, strict=True))
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

    def estimator(self) -> GradientEstimator:
        """Return the exact gradient of the equation."""
        return ExactGradient(self)

    def restore(self, policy: Policy, arrays: Mapping[str, torch.Tensor], *, seed: int) -> MultistepSolution:
        """Return the solution with saved nodes."""
        nodes = arrays["nodes"]
        if nodes.ndim != 2 or nodes.shape[1] != self.model.num_states or len(nodes) == 0:
            raise ArgumentError(f"nodes have shape {tuple(nodes.shape)}; they are states of the plant")
        return self.replace(nodes=Nodes(nodes, self.model.coordinates)).solve(policy, seed=seed)

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


class ExactGradient:
    """The gradient of a multi-step equation; it depends on nothing but the policy."""

    def __init__(self, problem: MultistepProblem) -> None:
        self.problem = problem

    def estimate(self, policy: Policy, *, rng: torch.Generator) -> GradientEstimate:
        """Return the gradient at this policy; noise is that of the problem."""
        del rng
        clock = Clock()
        solution = self.problem.solve(policy, slopes=True)
        clock.lap("solve")
        direction = solution.gradient()
        clock.lap("gradient")
        return GradientEstimate(
            direction=direction,
            expected_return=solution.objective,
            diagnostics={"unknown_mass": solution.unknown_mass, "products": 0},
            seconds=clock.seconds,
        )

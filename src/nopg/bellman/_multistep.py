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
from nopg._seeding import generator
from nopg._typing import FloatArray
from nopg.bellman._estimate import Clock, GradientEstimate, GradientEstimator
from nopg.bellman._nodes import Nodes
from nopg.bellman._problem import Certificate, ControlProblem, Solution, StateEstimates
from nopg.data import Transitions
from nopg.errors import ArgumentError
from nopg.kernels import GaussianKernel
from nopg.linalg import Solver
from nopg.models import LocalModel, RewardFunction, StateSupport
from nopg.models._rollout import Act, Rollout, along, rollout
from nopg.policies import Deterministic, Policy
from nopg.policies._policy import trainable

__all__ = ["INFLATION", "LONGEST_HORIZON", "Charge", "MultistepProblem", "MultistepSolution", "lower_end"]

_NUM_NODES, _MOST_STARTS = 300, 50
# The first H: node spacings that a path moves in it, effective horizons at least; and the longest.
_MOVED, _FIRST, LONGEST_HORIZON = 3.0, 0.5, 128
# Of the noise, as a share of the variance of one step: below the first, rollouts are drawn without it, below
# the second the equation is solved without it, as a small noise hardly changes what is best.
_NEGLIGIBLE_NOISE, _SMALL_NOISE, _NUM_PATHS = 1e-2, 5e-2, 4
# Errors from halves of the groups, as a factor of their root mean square; calibrated on development plants.
INFLATION = 1.3
# Smallest standard error, as a share of how far returns may differ by the logged rewards.
_FINEST = 1e-4
# Visits are followed for so many effective horizons, at most so many steps; paths where the plant is noisy.
_VISITED, _LONGEST_VISITS, _FEWEST_VISITS = 5.0, 600, 40
_STATES_AT_ONCE = 1_024


def lower_end(returns: torch.Tensor, finest: float, deviations: float) -> tuple[float, torch.Tensor]:
    """Return J₀ − k·se of returns (P,) of all rows and of halves, and its derivative (P,) by them."""
    weights = torch.zeros_like(returns)
    weights[0] = 1.0
    if len(returns) == 1 or deviations == 0.0:
        return float(returns[0]), weights
    apart = returns[1:] - returns[0]
    error = (apart.square().mean() + finest**2).sqrt()
    share = deviations * INFLATION * apart / (len(apart) * error)
    weights[1:] -= share
    weights[0] += share.sum()
    return float(returns[0] - deviations * INFLATION * error), weights


@dataclass(frozen=True, slots=True, eq=False)
class Charge:
    """A cost that is taken off the rewards at a price.

    Attributes:
        price: Per unit of cost and step.
        cost: A differentiable function of (s, a, s′); or the number of a column that the model fits.
    """

    price: float
    cost: RewardFunction | int

    def applied(self, path: Rollout, *, slopes: bool) -> Rollout:
        """Return paths with the cost taken off their rewards."""
        if isinstance(self.cost, int):
            cost = path.costs[self.cost]
            by_x = np.zeros(0) if path.cost_slopes is None else path.cost_slopes[self.cost]
        else:
            cost, by_x = along(path, self.cost, slopes=slopes)
        rewards = path.rewards - self.price * cost
        if not slopes or path.slopes is None:
            return replace(path, rewards=rewards)
        moves, rewarding, unknowing = path.slopes
        return replace(path, rewards=rewards, slopes=(moves, rewarding - self.price * by_x, unknowing))


@dataclass(frozen=True)
class MultistepProblem(ControlProblem):
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
    has_rollouts: ClassVar[bool] = True  # type: ignore[misc]

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

    def estimator(self, solver: Solver | None = None) -> GradientEstimator:
        """Return the exact gradient of the lower end of the return."""
        del solver  # nodes are few: factors are dense
        return _LowerEnd(self)

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

    def solve(
        self, policy: Policy, *, seed: int = 0, solver: Solver | None = None, slopes: bool = False
    ) -> MultistepSolution:
        """Return the solution under a policy.

        Args:
            policy: Whose noise, if it has any, is drawn once and for all.
            seed: Not asked: noise comes from the problem's own.
            solver: Not asked: nodes are few, and factors dense.
            slopes: Whether to record what `MultistepSolution.gradient` needs.
        """
        del seed, solver
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


class MultistepSolution(Solution):
    """Values of the nodes under one controller, and what follows from them.

    Attributes:
        values: V of every part and node, shape (P, m).
        unknown_values: Discounted probability of leaving the data from every node, shape (P, m).
        returns: Discounted return from the starts by part, shape (P,).
        objective: The return of all rows, or the lower end over the halves.
        unknown_mass: Discounted probability of leaving the data, of all rows.
    """

    problem: MultistepProblem

    def __init__(self, problem: MultistepProblem, policy: Policy, path: Rollout) -> None:
        self.problem, self.policy, self.path = problem, policy, path
        P, L, m, n_0 = problem.num_parts, problem.num_paths, len(problem.nodes), len(problem.starts)
        shape = (P, L, m + n_0)
        gamma, v = problem.discount, problem.unknown_value
        self._gamma = gamma ** len(path)
        self.interpolation = problem.nodes.interpolate(torch.as_tensor(path.states[-1]))
        G, alive, lost = path.value(gamma, v)
        self._alive = alive
        weights = (self.interpolation.weights * torch.as_tensor(alive[-1])[:, None] / L).view(*shape, -1)
        near = self.interpolation.near.view(*shape, -1)
        W = torch.zeros(P, m + n_0, m, dtype=torch.float64)
        for number in range(L):
            W.scatter_add_(2, near[:, number], weights[:, number])
        self.weights, self.start_weights = W[:, :m], W[:, m:]
        earned, unknown = (torch.as_tensor(part).view(shape).mean(dim=1) for part in (G[0], lost))
        self._factors = torch.linalg.lu_factor(torch.eye(m, dtype=torch.float64) - self._gamma * self.weights)
        self.targets = earned[:, :m]
        right = torch.stack([self.targets, unknown[:, :m]], dim=2)
        solved = torch.linalg.lu_solve(*self._factors, right)
        self.values, self.unknown_values = solved.unbind(dim=2)
        start_values = (
            torch.stack([earned, unknown], dim=2)[:, m:] + self._gamma * self.start_weights @ solved
        )
        self.returns, self._unknown_masses = start_values.mean(dim=1).unbind(dim=1)
        finest = _FINEST * problem.model.return_range(gamma) + 1e-300
        self.objective, self._of_returns = lower_end(self.returns, finest, problem.deviations)

    def without_leaving(self) -> MultistepSolution:
        """Return the solution along the same paths as if none left the data."""
        return MultistepSolution(self.problem, self.policy, self.path.staying())

    @property
    def unknown_mass(self) -> float:
        """The discounted probability of leaving the data."""
        return float(self._unknown_masses[0])

    @property
    def expected_return(self) -> float:
        """Ĵ from all rows, leaving the data worth the unknown value."""
        return float(self.returns[0])

    @cached_property
    def visits(self) -> torch.Tensor:
        """Weight of every node's backup in the objective, shape (P, m): Λᵀμ = γᴴ W₀ᵀ ∂objective/∂returns."""
        starts = self._gamma * self.start_weights.mean(dim=1) * self._of_returns[:, None]
        solved: torch.Tensor = torch.linalg.lu_solve(*self._factors, starts[:, :, None], adjoint=True)
        return solved[:, :, 0]

    @property
    def certificate(self) -> Certificate:
        """What is proven about values and visits: residuals bound errors, with γᴴ in place of γ."""
        V, mu, b, W, gamma = self.values, self.visits, self.targets, self.weights, self._gamma
        m, eps = W.shape[1], torch.finfo(torch.float64).eps
        inverse = 1.0 / (1.0 - gamma * min(float(W.sum(dim=2).max()), 1.0))
        left = b - V + gamma * (W @ V[:, :, None])[:, :, 0]
        rounding = (m + 2) * eps * float(b.abs().max() + 2.0 * V.abs().max())
        value_error = inverse * (float(left.abs().max()) + rounding)
        starts = gamma * self.start_weights.mean(dim=1) * self._of_returns[:, None]
        unbalanced = starts - mu + gamma * (W.mT @ mu[:, :, None])[:, :, 0]
        mu_rounding = (m + 2) * eps * float(starts.abs().sum() + 2.0 * mu.abs().sum())
        by_values, by_visits = (starts * V).sum(dim=1), (mu * b).sum(dim=1)
        reach = gamma * float(self.start_weights.sum(dim=2).mean(dim=1).max())
        size = float(self.returns.abs().max() + V.abs().max())
        return Certificate(
            return_error=reach * value_error + (m + 8) * eps * size,
            q_error=value_error,
            mu_error=inverse * (float(unbalanced.abs().sum(dim=1).max()) + mu_rounding),
            duality_gap=float((by_values - by_visits).abs().max()),
            mass_defect=float(unbalanced.sum(dim=1).abs().max()),
            converged=bool(V.isfinite().all() and mu.isfinite().all()),
        )

    def at(self, features: torch.Tensor, *, seed: int = 0) -> StateEstimates:
        """Return all that is known at state features (m, d_f)."""
        del seed
        return _Estimates(self, self.problem.data.schema.decode(features.double()))

    def action_value(self, features: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return Q̂ at state features (m, d_f) for actions (m, d_a), shape (m,): one step, then the policy."""
        if actions.shape != (len(features), self.problem.model.num_actions):
            raise ArgumentError(
                f"actions have shape {tuple(actions.shape)}; give one action of "
                f"{self.problem.model.num_actions} numbers for each of {len(features)} states"
            )
        return self.value_after(self.problem.data.schema.decode(features.double()), actions)

    def value_after(self, states: torch.Tensor, actions: torch.Tensor | None) -> torch.Tensor:
        """Return the value (m,) of raw states (m, d_s), the first actions (m, d_a) given or the policy's."""
        problem = self.problem

        def act(features: torch.Tensor, t: int) -> torch.Tensor:
            return actions if t == 0 and actions is not None else self.policy.mode(features)

        path = rollout(problem.model, act, states, problem.horizon)
        between = problem.nodes.interpolate(torch.as_tensor(path.states[-1]))
        tail = between.values(self.values[0][between.near]).numpy()
        return torch.as_tensor(path.value(problem.discount, problem.unknown_value, tail)[0][0])

    @cached_property
    def _visited(self) -> tuple[torch.Tensor, torch.Tensor]:
        problem = self.problem
        gamma, starts = problem.discount, problem.starts
        T = min(math.ceil(_VISITED / (1.0 - gamma)), _LONGEST_VISITS)
        noise = None
        if problem.noisy:
            starts = starts.repeat(-(-_FEWEST_VISITS // len(starts)), 1)
            rng = generator(problem.seed, "noise of the visits")
            shape = (T, len(starts), problem.model.num_states)
            noise = torch.randn(shape, generator=rng, dtype=torch.float64).numpy()
        path = rollout(problem.model, lambda f, _: self.policy.mode(f), starts, T, noise=noise)
        weights = gamma ** np.arange(len(path))[:, None] * path.going[:-1]
        flat = torch.as_tensor(weights.reshape(-1))
        return torch.as_tensor(path.states[:-1].reshape(-1, problem.model.num_states)), flat / flat.sum()

    def visited(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the states of rollouts from the starts, weighted by γᵗ."""
        return self._visited

    def arrays(self) -> dict[str, torch.Tensor]:
        """Return the nodes; values follow from them."""
        return {"nodes": self.problem.nodes.states}

    def gradient(self) -> tuple[torch.Tensor, ...]:
        """Return the derivative of the objective by the policy's trainable parameters.

        With values and visits held fixed, ∂J = Σ_z μ_z ∂(backup of z) + the starts' backups: exact, because
        Λ and Λᵀ are solved. The chain rule runs backwards through the H steps in closed form; the policy is
        differentiated once, at all states of all paths.
        """
        problem, path, policy = self.problem, self.path, self.policy
        P, L, m, n_0 = problem.num_parts, problem.num_paths, len(problem.nodes), len(problem.starts)
        at_starts = (self._of_returns / n_0)[:, None].expand(P, n_0)
        shares = torch.cat([self.visits, at_starts], dim=1) / L
        shares = shares[:, None].expand(P, L, m + n_0).reshape(-1)
        part = torch.arange(P).repeat_interleave(L * (m + n_0))
        at_nodes = self.values[part[:, None], self.interpolation.near]
        tail, tail_slope = self.interpolation.values(at_nodes), self.interpolation.slopes(at_nodes)

        gamma, v = problem.discount, problem.unknown_value
        T, N, d_s = path.states[:-1].shape
        states = torch.as_tensor(path.states[:-1].reshape(T * N, d_s)).requires_grad_()
        noise = problem.action_noise(policy)
        features = problem.model.data.schema.encode(states)
        if noise is None:
            actions = policy.mode(features)
        else:
            actions = policy.actions(features, noise[:T].reshape(1, T * N, -1))[0]
        by_state = np.stack(
            [
                torch.autograd.grad(column.sum(), states, retain_graph=True)[0].numpy().reshape(T, N, d_s)
                for column in actions.unbind(dim=1)
            ],
            axis=1,
        ).transpose(0, 1, 3, 2)
        G, _, _ = path.value(gamma, v, tail.numpy())
        slopes = path.action_slopes(gamma, v, G, tail_slope=tail_slope.T.numpy(), by_state=by_state)
        weight = gamma ** np.arange(T)[:, None] * self._alive[:-1] * shares.numpy()
        cotangent = torch.as_tensor((weight[:, :, None] * slopes).reshape(T * N, -1))
        return torch.autograd.grad(
            actions, trainable(policy), cotangent, allow_unused=True, materialize_grads=True
        )


@dataclass(frozen=True)
class _Estimates(StateEstimates):
    """What a multi-step equation says at some raw states (m, d_s)."""

    solution: MultistepSolution
    states: torch.Tensor

    @cached_property
    def value(self) -> torch.Tensor:
        """V̂: H steps from the state, then the values of the nodes."""
        return self.solution.value_after(self.states, None)

    @cached_property
    def visitation(self) -> torch.Tensor:
        """Density of the visits along rollouts, per unit of volume in standard deviations."""
        problem = self.solution.problem
        places, weights = self.solution.visited()
        width = problem.nodes.spacing or 1.0
        space = problem.model.state_space
        points = space.embed(places) / width
        found = [
            torch.exp(-0.5 * torch.cdist(some / width, points).square()) @ weights
            for some in space.embed(self.states).split(_STATES_AT_ONCE)
        ]
        return torch.cat(found) / (math.sqrt(2 * math.pi) * width) ** self.states.shape[1]

    @cached_property
    def unknown(self) -> torch.Tensor:
        """The share of (s, π(s)) that the data do not account for."""
        problem = self.solution.problem
        with torch.no_grad():
            actions = self.solution.policy.mode(problem.data.schema.encode(self.states))
        return problem.model.predict(self.states, actions).unknown

    @cached_property
    def support(self) -> torch.Tensor:
        """Effective number of logged states around."""
        problem = self.solution.problem
        return (
            StateSupport(problem.data, problem.metric).log_mass(problem.data.schema.encode(self.states)).exp()
        )


class _LowerEnd:
    """The gradient of the objective of a multi-step problem; it depends on nothing but the policy."""

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

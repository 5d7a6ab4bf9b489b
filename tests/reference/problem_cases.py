"""Small problems with known answers, and functions that return the figures the tests assert."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from nopg._seeding import generator
from nopg.bellman import PaperProblem, solution_gradient
from nopg.bellman._solution import BellmanSolution
from nopg.data import Transitions
from nopg.envs import Pendulum, collect_grid
from nopg.errors import NopgError
from nopg.kernels import Bandwidths
from nopg.linalg import BiCGSTAB, DenseLU, FixedPoint, Resolvent
from nopg.linalg._operator import TransitionOperator
from nopg.linalg._rows import RowPattern, SparseRows
from nopg.models import IntegrationRule, MonteCarlo, PaperModel
from nopg.models._candidates import CandidateGraph, CandidateSearch
from nopg.models._integration import KernelMean
from nopg.policies import (
    ActionRange,
    GaussianMLPPolicy,
    GaussianPolicy,
    LinearPolicy,
    MLPPolicy,
    Policy,
    Standardizer,
)
from nopg.policies._networks import MLP
from reference.dense_reference import DenseProblem, DenseSolution, encode, solve_dense, truncated_return

__all__ = [
    "Case",
    "Moved",
    "PolicyKind",
    "RandomSystem",
    "certificate_cases",
    "dense_agreement",
    "edge_cases",
    "exact_solution",
    "far_features",
    "gradient_cases",
    "gradient_vs_autograd",
    "gradient_vs_finite_differences",
    "invariances",
    "pendulum_case",
    "random_case",
    "random_system",
    "return_certificate_cases",
    "with_bandwidth",
]

PolicyKind = Literal["linear", "mlp", "gaussian", "fixed std"]


# Problems


@dataclass(frozen=True)
class Case:
    """A dataset, a policy and all settings of one Bellman equation."""

    data: Transitions
    bandwidths: Bandwidths
    policy: Policy
    discount: float = 0.9
    prior_mass: float = 0.0
    unknown_value: float | None = None
    integration: IntegrationRule = field(default_factory=KernelMean)
    search: CandidateSearch = field(default_factory=CandidateSearch)

    def problem(self) -> PaperProblem:
        model = PaperModel(
            self.data,
            self.bandwidths,
            prior_mass=self.prior_mass,
            integration=self.integration,
            search=self.search,
        )
        starts = self.data.schema.encode(self.data.starts)
        return PaperProblem.build(model, starts, discount=self.discount, unknown_value=self.unknown_value)

    def solution(self, problem: PaperProblem | None = None) -> BellmanSolution:
        """Solve by LU, always with the same action noise."""
        equation = (problem or self.problem()).equation(self.policy, generator(0, "actions"))
        return equation.solve(DenseLU())

    def dense_problem(self) -> DenseProblem:
        """Return the same problem for the dense reference."""
        data, v = self.data, self.unknown_value
        columns, angles = data.schema.states, data.schema.angles
        spread = torch.ones(len(columns), dtype=torch.float64)
        for feature, column in enumerate(data.schema.feature_columns):
            turn = angles.get(columns[column], 2 * math.pi) / (2 * math.pi)
            spread[column] = self.bandwidths.next_states[feature] * turn
        points = self.integration.points(data.next_states, spread).numpy()
        if v is None:
            worst = float(data.rewards.min())
            for_ever = worst / (1 - self.discount)
            v = min(worst, for_ever) if bool(data.terminated.any()) else for_ever
        return DenseProblem(
            states=encode(data.states.numpy(), columns, angles),
            actions=data.actions.numpy(),
            rewards=data.rewards.numpy(),
            terminated=data.terminated.numpy(),
            next_points=encode(points, columns, angles).reshape(len(data), self.integration.num_samples, -1),
            starts=encode(data.starts.numpy(), columns, angles),
            h_psi=self.bandwidths.states.numpy(),
            h_varphi=self.bandwidths.actions.numpy(),
            beta=self.prior_mass,
            gamma=self.discount,
            v=v,
        )

    def dense_solution(self, solution: BellmanSolution) -> DenseSolution:
        """Return the reference's answer for the actions of this solution."""
        actions = (solution.equation.at_nodes.actions.numpy(), solution.equation.at_starts.actions.numpy())
        return solve_dense(self.dense_problem(), *actions)


def random_case(
    seed: int,
    *,
    rows: int = 40,
    state_columns: int = 2,
    action_columns: int = 1,
    angle: bool = False,
    terminals: bool = False,
    starts: int = 1,
    policy: PolicyKind = "mlp",
    discount: float = 0.9,
    prior_mass: float = 0.0,
    integration: IntegrationRule | None = None,
    search: CandidateSearch | None = None,
) -> Case:
    """Return a noisy drift with rewards and bandwidths of order 1; the first state may be an angle."""
    rng = generator(seed, "random case")

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=rng, dtype=torch.float64)

    s, a = normal(rows, state_columns), normal(rows, action_columns)
    data = Transitions.from_arrays(
        s,
        a,
        -s.square().sum(dim=1) + normal(rows),
        0.8 * s + 0.5 * a.sum(dim=1, keepdim=True) + 0.3 * normal(rows, state_columns),
        terminated=torch.rand(rows, generator=rng) < 0.2 if terminals else None,
        angles=[0] if angle else None,
        initial_states=normal(starts, state_columns),
    )
    h = 0.5 + 0.3 * torch.rand(state_columns, generator=rng, dtype=torch.float64)
    return Case(
        data=data,
        bandwidths=Bandwidths.from_values(h[list(data.schema.feature_columns)], [0.7] * action_columns),
        policy=_policy(policy, data, generator(seed, "policy")),
        discount=discount,
        prior_mass=prior_mass,
        integration=integration or KernelMean(),
        search=search or CandidateSearch(),
    )


def pendulum_case(*, prior_mass: float = 0.0) -> Case:
    """Return a grid on which many samples are equally far from a query."""
    data = collect_grid(Pendulum(), (10, 10, 2))
    return Case(
        data=data,
        bandwidths=Bandwidths.from_values([0.2, 0.2, 0.53], [2.0]),
        policy=_policy("mlp", data, generator(0, "policy")),
        discount=0.97,
        prior_mass=prior_mass,
    )


def _policy(kind: PolicyKind, data: Transitions, rng: torch.Generator) -> Policy:
    d_f, d_a = data.features.shape[1], data.actions.shape[1]
    if kind == "linear":
        return LinearPolicy(0.5 * torch.randn(d_a, d_f, generator=rng, dtype=torch.float64))
    if kind == "gaussian":
        return GaussianMLPPolicy.from_data(
            data.features, data.actions, rng=rng, hidden=6, num_action_samples=4
        )
    network = MLP(Standardizer.from_data(data.features), d_a, hidden=6, rng=rng)
    mean = MLPPolicy(network, ActionRange(data.actions.amin(dim=0), data.actions.amax(dim=0)))
    return mean if kind == "mlp" else GaussianPolicy(mean, 0.4, num_action_samples=3)


# Gradients


def gradient_cases(search: CandidateSearch | None = None) -> dict[str, Case]:
    """Return one case for every ingredient of the gradient, and one with all of them."""
    drawn = MonteCarlo(num_samples=3, seed=1)
    return {
        "deterministic": random_case(1, search=search),
        "linear": random_case(2, policy="linear", search=search),
        "gaussian": random_case(3, policy="gaussian", search=search),
        "fixed standard deviation": random_case(4, policy="fixed std", search=search),
        "prior mass": random_case(5, prior_mass=0.1, search=search),
        "terminals": random_case(6, terminals=True, search=search),
        "two actions": random_case(7, state_columns=3, action_columns=2, search=search),
        "several initial states": random_case(8, state_columns=1, starts=5, search=search),
        "monte carlo next states": random_case(9, angle=True, integration=drawn, search=search),
        "all at once": random_case(
            10,
            state_columns=3,
            action_columns=2,
            angle=True,
            terminals=True,
            starts=4,
            policy="gaussian",
            discount=0.97,
            prior_mass=0.05,
            integration=drawn,
            search=search,
        ),
    }


def gradient_vs_finite_differences() -> dict[str, float]:
    """Return by case ‖g − central differences‖/‖g‖ over all parameters."""
    return {name: _finite_difference_error(case) for name, case in gradient_cases().items()}


def gradient_vs_autograd() -> dict[str, float]:
    """Return by case ‖g − autograd‖/‖g‖, autograd through a dense solve on the same 7 candidates."""
    cases = gradient_cases(CandidateSearch(num_candidates=7))
    return {name: _autograd_error(case) for name, case in cases.items()}


def _finite_difference_error(case: Case, step: float = 1e-5) -> float:
    # The rectifiers of the network are smooth but for one point each: the chance that one of 40 states
    # crosses it within 10⁻⁵ of a parameter is small, and would show as an error near 10⁻² here.
    problem = case.problem()
    analytic = _flat(solution_gradient(case.solution(problem)))
    numeric = []
    for parameter in case.policy.parameters():
        entries = parameter.detach().view(-1)
        for k in range(len(entries)):
            center, ends = float(entries[k]), []
            for sign in (1.0, -1.0):
                entries[k] = center + sign * step
                ends.append(case.solution(problem).expected_return)
            entries[k] = center
            numeric.append((ends[0] - ends[1]) / (2 * step))
    return _relative(analytic, torch.tensor(numeric, dtype=torch.float64))


def _autograd_error(case: Case) -> float:
    solution = case.solution()
    equation = solution.equation
    model = equation.problem.model
    J = truncated_return(
        case.dense_problem(),
        case.policy,
        node_noise=equation.at_nodes.noise,
        initial_noise=equation.at_starts.noise,
        node_mask=_mask(model.node_queries),
        initial_mask=_mask(equation.problem.initial),
    )
    taped = torch.autograd.grad(J, list(case.policy.parameters()))
    return _relative(_flat(solution_gradient(solution)), _flat(taped))


def _mask(queries: Any) -> torch.Tensor:
    """Return which samples are candidates of which query, shape (m, n)."""
    graph: CandidateGraph = queries.graph
    mask = torch.zeros(len(graph.indices), graph.num_samples, dtype=torch.float64)
    return mask.scatter_add_(1, graph.indices.long(), graph.log_psi.isfinite().double()).clamp(max=1.0)


# The dense reference


def dense_agreement() -> dict[str, float]:
    """Return by quantity the largest relative difference to the dense reference where K = n."""
    worst: dict[str, float] = {}
    for case in gradient_cases(CandidateSearch(num_candidates=40)).values():
        solution = case.solution()
        equation, dense = solution.equation, case.dense_solution(solution)
        pairs: dict[str, tuple[torch.Tensor, Any]] = {
            "P": (equation.operator.to_dense(), dense.P),
            "b": (equation.targets, dense.b),
            "m": (equation.unknown, dense.m),
            "eps_0": (equation.initial_responsibilities, dense.eps_0),
            "q": (solution.q, dense.q),
            "mu": (solution.mu, dense.mu),
            "J": (_number(solution.expected_return), _number(dense.J)),
            "U": (_number(solution.unknown_mass), _number(dense.U)),
        }
        for name, (ours, theirs) in pairs.items():
            difference = _relative(ours, torch.as_tensor(theirs))
            worst[name] = max(worst.get(name, 0.0), difference)
    return worst


# Certificates

Rational = npt.NDArray[np.object_]


@dataclass(frozen=True, slots=True)
class RandomSystem:
    """Λ = I − γP with right-hand sides b and ε₀, P known exactly too."""

    operator: TransitionOperator
    discount: float
    b: torch.Tensor
    eps_0: torch.Tensor

    @property
    def exact_matrix(self) -> Rational:
        """Λ without rounding."""
        P, rows = self.operator, self.operator.rows
        g, gamma = P.group_size, Fraction(self.discount)
        Lambda = _rational(torch.eye(P.size))
        assert isinstance(rows.pattern, RowPattern)
        for query, (indices, weights) in enumerate(zip(rows.pattern.indices, rows.values, strict=True)):
            i = query // g
            for j, weight in zip(indices.tolist(), weights.tolist(), strict=True):
                Lambda[i, j] -= gamma * Fraction(weight) * int(P.continues[i]) / g
        return Lambda


def random_system(rng: np.random.Generator) -> RandomSystem:
    """Draw n ≤ 8, rows that sum to 1, to less and to 0, some terminal, γ ∈ [0, .999], wild scales."""
    n = int(rng.integers(1, 9))
    K = int(rng.integers(1, n + 1))
    indices = np.sort(rng.permuted(np.tile(np.arange(n), (n, 1)), axis=1)[:, :K], axis=1).astype(np.int32)
    mass = rng.choice([0.0, 1.0, 1.0, rng.random()], (n, 1))
    values = mass * rng.dirichlet(np.full(K, rng.choice([0.1, 1.0])), n)
    continues = (rng.random(n) > rng.choice([0.0, 0.3])).astype(float)

    b = rng.normal(size=n) * 10.0 ** rng.uniform(-3, 3)
    eps_0 = np.eye(n)[rng.integers(n)] if rng.random() < 0.5 else rng.dirichlet(np.ones(n))
    if rng.random() < 0.3:
        b = np.eye(n)[rng.integers(n)]
    return RandomSystem(
        operator=TransitionOperator(
            SparseRows(RowPattern(torch.as_tensor(indices), n), torch.as_tensor(values)),
            torch.as_tensor(continues),
        ),
        discount=float(rng.choice([0.0, rng.random(), 0.999, 1 - 10.0 ** rng.uniform(-3, 0)])),
        b=torch.as_tensor(b),
        eps_0=torch.as_tensor(eps_0 * rng.choice([1.0, rng.random()])),
    )


def exact_solution(Lambda: Rational, b: torch.Tensor) -> Rational:
    """Solve Λx = b by iterative refinement with residuals free of rounding: 30 digits or more."""
    approximate = Lambda.astype(float)
    right = _rational(b)
    x = _rational(torch.zeros_like(b))
    for _ in range(4):  # each round gains at least 12 digits, less log₁₀ of 2/(1 − γ)
        residual = (right - Lambda @ x).astype(float)
        x = x + _rational(torch.as_tensor(np.linalg.solve(approximate, residual)))
    return x


def certificate_cases(num_cases: int = 1000, seed: int = 0) -> dict[str, int]:
    """Count on random systems what the certificates claim and exact arithmetic refutes.

    Every system is solved for q and μ by LU, by BiCGSTAB to a loose tolerance, and by fixed-point
    iteration that may give up early; a certificate must hold whatever the solver did.
    """
    rng = np.random.default_rng(seed)
    counts = dict.fromkeys(["cases", "certificates", "q error", "mu error", "duality gap", "mass balance"], 0)
    for _ in range(num_cases):
        system = random_system(rng)
        Lambda = system.exact_matrix
        b, eps_0 = _rational(system.b), _rational(system.eps_0)
        q, mu = exact_solution(Lambda, system.b), exact_solution(Lambda.T, system.eps_0)
        counts["cases"] += 1
        tolerance = 10.0 ** rng.uniform(-8, -2)
        for solver in (DenseLU(), BiCGSTAB(), FixedPoint(max_steps=int(rng.integers(1, 200)))):
            resolvent = Resolvent(system.operator, system.discount)
            of_q, of_mu = solver.solve_both(resolvent, system.b, system.eps_0, tolerance=tolerance)
            q_hat, mu_hat = _rational(of_q.value), _rational(of_mu.value)
            q_bound, mu_bound = Fraction(of_q.error_bound), Fraction(of_mu.error_bound)

            # |ε₀ᵀq̂ − μ̂ᵀb| ≤ ε₀ᵀ|q̂ − q| + |μ̂ − μ|ᵀ|b|, because ε₀ᵀq = μᵀb.
            gap = abs(eps_0 @ q_hat - mu_hat @ b)
            # Summing Λᵀμ̂ − ε₀ = Λᵀ(μ̂ − μ): the mass is off by at most ‖Λᵀ‖₁ ‖μ̂ − μ‖₁.
            defect = abs((Lambda.T @ mu_hat - eps_0).sum())
            counts["certificates"] += 2
            counts["q error"] += int(abs(q_hat - q).max() > q_bound)
            counts["mu error"] += int(abs(mu_hat - mu).sum() > mu_bound)
            counts["duality gap"] += int(gap > eps_0.sum() * q_bound + mu_bound * abs(b).max())
            counts["mass balance"] += int(defect > (1 + Fraction(system.discount)) * mu_bound)
    return counts


def return_certificate_cases(num_cases: int = 200, seed: int = 0, scale: float = 1.0) -> dict[str, int]:
    """Count where Ĵ is farther from its exact value than certified, on problems of 6 samples.

    Exact means: the solution in exact arithmetic of the equation as it stands, with P, b, ε₀, m₀ and v
    the numbers that were computed for it. Starts lie up to 5 bandwidths away, so ε₀ may be tiny. All samples
    are candidates, so that the bound has no part for the cut.
    """
    rng = np.random.default_rng(seed)
    counts = dict.fromkeys(["cases", "expected return"], 0)
    for k in range(num_cases):
        case = random_case(
            seed + k,
            rows=6,
            terminals=k % 2 == 0,
            starts=int(rng.integers(1, 4)),
            discount=1 - 10.0 ** rng.uniform(-2, 0),
            prior_mass=float(rng.choice([0.0, 1e-3, 1.0])),
            integration=MonteCarlo(2) if k % 5 == 0 else None,
            search=CandidateSearch(num_candidates=6),
        )
        starts = case.data.starts * rng.choice([1.0, 5.0])
        equation = (
            replace(case, data=replace(case.data, initial_states=starts, rewards=scale * case.data.rewards))
            .problem()
            .equation(case.policy, generator(0, "actions"))
        )
        b, eps_0 = equation.targets, equation.initial_responsibilities
        solver = (DenseLU(), BiCGSTAB(), FixedPoint())[k % 3]
        solution = equation.solve(solver, tolerance=10.0 ** rng.uniform(-12, -2))

        q = exact_solution(RandomSystem(equation.operator, equation.discount, b, eps_0).exact_matrix, b)
        unknown = Fraction(equation.initial_unknown) * Fraction(equation.problem.unknown_value)
        error = abs(Fraction(solution.expected_return) - (_rational(eps_0) @ q + unknown))
        counts["cases"] += 1
        counts["expected return"] += int(error > Fraction(solution.certificate.return_error))
    return counts


def _rational(x: torch.Tensor) -> Rational:
    """Return an array of exact fractions."""
    flat = np.array([Fraction(value) for value in x.double().flatten().tolist()], dtype=object)
    return flat.reshape(x.shape)


# Invariances


class Moved(Policy):
    """The same controller for data in other units: a ↦ shift + scale·π(read(features))."""

    def __init__(
        self,
        policy: Policy,
        read: Callable[[torch.Tensor], torch.Tensor],
        *,
        scale: float = 1.0,
        shift: float = 0.0,
    ) -> None:
        super().__init__()
        self.policy, self.read, self.scale, self.shift = policy, read, scale, shift
        self.num_actions, self.num_action_samples = policy.num_actions, policy.num_action_samples

    def noise(self, num_states: int, rng: torch.Generator) -> torch.Tensor:
        return self.policy.noise(num_states, rng)

    def actions(self, features: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        return self.shift + self.scale * self.policy.actions(self.read(features), noise)

    def mode(self, features: torch.Tensor) -> torch.Tensor:
        return self.shift + self.scale * self.policy.mode(self.read(features))


def invariances() -> dict[str, float]:
    """Return by change the largest relative difference in Ĵ, q and gradient, which should not change."""
    cases = {
        "random": random_case(11, angle=True, terminals=True, starts=3),
        "random, prior mass": random_case(12, rows=60, state_columns=3, angle=True, prior_mass=0.1),
        "random, drawn": random_case(
            15, action_columns=2, angle=True, policy="gaussian", integration=MonteCarlo(num_samples=3)
        ),
        "random, 7 candidates": random_case(13, angle=True, search=CandidateSearch(num_candidates=7)),
        "pendulum grid": pendulum_case(),
        # An odd K cuts through pairs of equally near samples.
        "pendulum grid, 13 candidates": replace(pendulum_case(), search=CandidateSearch(num_candidates=13)),
        "pendulum grid, prior mass": pendulum_case(prior_mass=1e-3),
    }
    worst: dict[str, float] = {}
    for name, case in cases.items():
        base = case.solution()
        place = "pendulum grid" if name.startswith("pendulum") else "random"
        for change, (changed, rows, factor) in _changes(case).items():
            key = f"{change}, {place}"
            worst[key] = max(worst.get(key, 0.0), _difference(base, changed.solution(), rows, factor))
    return worst


def _changes(case: Case) -> dict[str, tuple[Case, torch.Tensor, float]]:
    """Return by name the changed case, the old row behind every new one, and the factor on rewards."""
    n, rng = len(case.data), generator(0, "changes")
    same = torch.arange(n)
    mixed = torch.randperm(n, generator=rng)
    changes = {
        "reward times 7": (replace(case, data=replace(case.data, rewards=7 * case.data.rewards)), same, 7.0),
        "angle turned": (_turned(case, 1.234), same, 1.0),
        "angle in degrees": (_in_degrees(case), same, 1.0),
        "states shifted": (_affine_states(case, scale=1.0, shift=10.0), same, 1.0),
        "states in other units": (_affine_states(case, scale=0.0123, shift=0.0), same, 1.0),
        "actions shifted": (_affine_actions(case, scale=1.0, shift=10.0), same, 1.0),
        "actions in other units": (_affine_actions(case, scale=123.0, shift=0.0), same, 1.0),
    }
    # Noise is drawn row by row, so it does not move along with the rows.
    if case.policy.num_action_samples * case.integration.num_samples == 1:
        changes["row order"] = (replace(case, data=case.data.take(mixed)), mixed, 1.0)
    # With a given K every row twice means twice as many candidates; with prior mass it means more data.
    if "row order" in changes and case.prior_mass == 0.0:
        twice = torch.cat([same, same])[torch.randperm(2 * n, generator=rng)]
        K = case.search.num_candidates
        search = CandidateSearch(num_candidates=None if K is None else 2 * K)
        doubled = replace(case, data=case.data.take(twice), search=search)
        changes["every row twice"] = (doubled, twice, 1.0)
    return changes


def _affine_states(case: Case, *, scale: float, shift: float) -> Case:
    """Change every column but the first, which is the angle; its two features stay."""
    data, h = case.data, case.bandwidths.states.clone()
    h[2:] *= scale

    def write(states: torch.Tensor) -> torch.Tensor:
        return torch.cat([states[:, :1], scale * states[:, 1:] + shift], dim=1)

    def read(features: torch.Tensor) -> torch.Tensor:
        return torch.cat([features[:, :2], (features[:, 2:] - shift) / scale], dim=1)

    return replace(
        case,
        data=_with_states(data, write),
        bandwidths=Bandwidths.from_values(h, case.bandwidths.actions),
        policy=Moved(case.policy, read),
    )


def _affine_actions(case: Case, *, scale: float, shift: float) -> Case:
    return replace(
        case,
        data=replace(case.data, actions=scale * case.data.actions + shift),
        bandwidths=Bandwidths.from_values(case.bandwidths.states, scale * case.bandwidths.actions),
        policy=Moved(case.policy, lambda features: features, scale=scale, shift=shift),
    )


def _turned(case: Case, turn: float) -> Case:
    """Count the angle from elsewhere; cosine and sine turn, and they share a bandwidth."""

    def write(states: torch.Tensor) -> torch.Tensor:
        return torch.cat([states[:, :1] + turn, states[:, 1:]], dim=1)

    def read(features: torch.Tensor) -> torch.Tensor:
        x, y = features[:, :1], features[:, 1:2]
        c, s = math.cos(turn), math.sin(turn)
        return torch.cat([c * x + s * y, c * y - s * x, features[:, 2:]], dim=1)

    return replace(case, data=_with_states(case.data, write), policy=Moved(case.policy, read))


def _in_degrees(case: Case) -> Case:
    def write(states: torch.Tensor) -> torch.Tensor:
        return torch.cat([states[:, :1] * (180 / math.pi), states[:, 1:]], dim=1)

    schema = replace(case.data.schema, angles={case.data.schema.states[0]: 360.0})
    return replace(case, data=replace(_with_states(case.data, write), schema=schema))


def _with_states(data: Transitions, write: Callable[[torch.Tensor], torch.Tensor]) -> Transitions:
    return replace(
        data,
        states=write(data.states),
        next_states=write(data.next_states),
        initial_states=write(data.starts),
    )


def _difference(base: BellmanSolution, changed: BellmanSolution, rows: torch.Tensor, factor: float) -> float:
    gradients = (_flat(solution_gradient(changed)), factor * _flat(solution_gradient(base)))
    returns = (_number(changed.expected_return), _number(factor * base.expected_return))
    return max(_relative(*returns), _relative(changed.q, factor * base.q[rows]), _relative(*gradients))


# Edges


def edge_cases() -> dict[str, str]:
    """Return by edge a line on the finite answer or the named error; raise AssertionError on NaN."""
    return {name: _answer(edge) for name, edge in _edges().items()}


def _answer(edge: Callable[[], str]) -> str:
    try:
        return edge()
    except NopgError as error:
        return f"{type(error).__name__}: {error}"


def _edges() -> dict[str, Callable[[], str]]:
    case = random_case(14)
    trusting, wary = replace(case, prior_mass=0.0), replace(case, prior_mass=1e-3)
    one = replace(case, data=case.data.take(torch.tensor([0])))
    ended = replace(case, data=replace(case.data, terminated=torch.ones(40, dtype=torch.bool)))
    twice = replace(case, data=case.data.take(torch.arange(40).repeat_interleave(2)))
    nan_policy = LinearPolicy([[math.nan, 0.0]])
    return {
        "1e6 bandwidths from the data, β = 0": lambda: _far(trusting),
        "1e6 bandwidths from the data, β > 0": lambda: _far(wary),
        "n = 1, β = 0": lambda: _finite(one),
        "n = 1, β > 0": lambda: _finite(replace(one, prior_mass=1e-3)),
        "every row twice": lambda: _finite(twice),
        "all terminal, β = 0": lambda: _finite(ended),
        "all terminal, β > 0": lambda: _finite(replace(ended, prior_mass=1e-3)),
        "γ = 0": lambda: _finite(replace(case, discount=0.0)),
        "zero density (bandwidths 1e-8), β = 0": lambda: _finite(with_bandwidth(trusting, 1e-8)),
        "zero density (bandwidths 1e-8), β > 0": lambda: _finite(with_bandwidth(wary, 1e-8)),
        "bandwidths 1e8, β = 0": lambda: _finite(with_bandwidth(trusting, 1e8)),
        "bandwidths 1e8, β > 0": lambda: _finite(with_bandwidth(wary, 1e8)),
        "bandwidths 1e-200": lambda: _finite(with_bandwidth(case, 1e-200)),
        "γ = 1": lambda: _finite(replace(case, discount=1.0)),
        "γ = -0.1": lambda: _finite(replace(case, discount=-0.1)),
        "γ = nan": lambda: _finite(replace(case, discount=math.nan)),
        "a policy of NaN": lambda: _finite(replace(case, policy=nan_policy)),
        "value of a state of NaN": lambda: _value_at(case, math.nan),
        "value 1e200 bandwidths away": lambda: _value_at(case, 1e200),
        "no data": lambda: str(Transitions.from_arrays(torch.zeros(0, 1), torch.zeros(0, 1), [], [])),
    }


def with_bandwidth(case: Case, h: float) -> Case:
    """Return the case with one bandwidth for everything."""
    d_f, d_a = len(case.bandwidths.states), len(case.bandwidths.actions)
    return replace(case, bandwidths=Bandwidths.from_values([h] * d_f, [h] * d_a))


def _value_at(case: Case, place: float) -> str:
    features = place * torch.ones(1, case.data.features.shape[1], dtype=torch.float64)
    return f"V = {float(case.solution().value(features)):.4g}"


def _finite(case: Case) -> str:
    """Say Ĵ, U and what is known of its error; raise AssertionError unless every number is finite."""
    solution = case.solution()
    _assert_finite(solution, case.data.features)
    certificate = solution.certificate
    return (
        f"J = {solution.expected_return:.4g}, U = {solution.unknown_mass:.2g}, "
        f"error ≤ {certificate.return_error:.0e}"
    )


def _far(case: Case) -> str:
    """Say what stands in for data 10⁶ bandwidths away; raise AssertionError unless all is finite."""
    solution, features = case.solution(), far_features(case)
    _assert_finite(solution, features)
    V, visits = float(solution.value(features)[0]), float(solution.visitation(features)[0])
    m = float(solution.unknown_at(features)[0])
    assert visits > 0, "visitation is a silent 0"
    whose = "the unknown value" if case.prior_mass > 0 else "the nearest sample's"
    return f"V = {V:.4g} ({whose}), m = {m:.2g}, visitation = {visits:.2g}"


def far_features(case: Case, bandwidths: float = 1e6) -> torch.Tensor:
    """Return two states that many bandwidths from all data, on either side, shape (2, d_f)."""
    away = torch.zeros(2, len(case.bandwidths.states), dtype=torch.float64)
    away[:, 0] = torch.tensor([1.0, -1.0]) * bandwidths * case.bandwidths.states[0]
    return away


def _assert_finite(solution: BellmanSolution, features: torch.Tensor) -> None:
    actions = torch.zeros(len(features), solution.equation.problem.model.num_actions, dtype=torch.float64)
    certificate = solution.certificate
    numbers = {
        "q": solution.q,
        "mu": solution.mu,
        "expected return": _number(solution.expected_return),
        "unknown mass": _number(solution.unknown_mass),
        "error bound": _number(certificate.return_error + certificate.q_error + certificate.mu_error),
        "value": solution.value(features),
        "action value": solution.action_value(features, actions),
        "visitation": solution.visitation(features),
        "unknown": solution.unknown_at(features),
        "gradient": _flat(solution_gradient(solution)),
    }
    for name, tensor in numbers.items():
        assert bool(tensor.isfinite().all()), f"{name} is not finite"


def _number(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


def _flat(parts: tuple[torch.Tensor, ...]) -> torch.Tensor:
    return torch.cat([part.flatten() for part in parts])


def _relative(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """Return ‖ours − theirs‖/‖theirs‖; 0 where both are 0."""
    difference = float((ours - theirs).norm())
    return difference / float(theirs.norm()) if difference > 0 else 0.0

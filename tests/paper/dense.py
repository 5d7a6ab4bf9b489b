"""The whole of the paper a second time: dense, with a tape, straight from the formulas."""

from dataclasses import dataclass

import numpy as np
import torch

from nopg import Bandwidths, Transitions
from nopg._seeding import generator
from nopg._typing import FloatArray
from nopg.paper import PaperModel, PaperProblem, PaperSolution
from nopg.policies import GaussianMLPPolicy, LinearPolicy, MLPPolicy, Policy
from nopg.policies._policy import trainable


def encode(data: Transitions, states: torch.Tensor) -> torch.Tensor:
    """Replace every angle θ of period T by (cos 2πθ/T, sin 2πθ/T); states have shape (m, d_s)."""
    columns = []
    for name, x in zip(data.schema.states, states.T, strict=True):
        if name in data.schema.angles:
            turn = 2 * torch.pi * x / data.schema.angles[name]
            columns += [turn.cos(), turn.sin()]
        else:
            columns.append(x)
    return torch.stack(columns, dim=1)


@dataclass(frozen=True)
class Case:
    """Data, a policy and all settings of one equation."""

    data: Transitions
    bandwidths: Bandwidths
    policy: Policy
    discount: float = 0.9
    prior_mass: float = 0.0
    unknown_value: float | None = None

    def problem(self) -> PaperProblem:
        model = PaperModel(self.data, self.bandwidths, prior_mass=self.prior_mass)
        return PaperProblem(model, self.data.starts, self.discount, unknown_value=self.unknown_value)

    def solution(self) -> PaperSolution:
        """Solve with noise that is always the same."""
        return self.problem().equation(self.policy, generator(0, "actions")).solve()


@dataclass(frozen=True)
class Dense:
    """What the paper's equation says: P, b, ε₀, q, μ, Ĵ, U and ∂Ĵ/∂θ."""

    P: FloatArray
    q: FloatArray
    mu: FloatArray
    expected_return: float
    unknown_mass: float
    gradient: tuple[torch.Tensor, ...]


def dense(case: Case) -> Dense:
    """Write the equation down, solve it, and differentiate Ĵ through the solve."""
    data, h, gamma = case.data, case.bandwidths, case.discount
    points, starts, s = (encode(data, part) for part in (data.next_states, data.starts, data.states))
    a = data.actions
    rng = generator(0, "actions")
    noise = [case.policy.noise(len(x), rng) for x in (points, starts)]
    weights = torch.ones(len(data), dtype=torch.float64) if data.weights is None else data.weights

    def responsibilities(x: torch.Tensor, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        psi = (-0.5 * ((x[:, None] - s) / h.states).square().sum(dim=2)).exp()
        phi = (-0.5 * ((actions[:, :, None] - a) / h.actions).square().sum(dim=3)).exp()
        kernel = weights * psi * phi  # (L, m, n)
        total = case.prior_mass + kernel.sum(dim=2, keepdim=True)
        return (kernel / total).mean(dim=0), (case.prior_mass / total[:, :, 0]).mean(dim=0)

    n = len(data)
    goes_on = (~data.terminated).double()
    eps, m = responsibilities(points, case.policy.actions(points, noise[0]))
    P, m = goes_on[:, None] * eps, goes_on * m
    eps_0, m_0 = responsibilities(starts, case.policy.actions(starts, noise[1]))
    eps_0, m_0 = eps_0.mean(dim=0), m_0.mean()

    v = case.unknown_value
    if v is None:
        worst = float(data.rewards.min())
        v = min(worst, worst / (1 - gamma)) if bool(data.terminated.any()) else worst / (1 - gamma)
    Lambda = torch.eye(n, dtype=torch.float64) - gamma * P
    q = torch.linalg.solve(Lambda, data.rewards + gamma * m * v)
    mu = torch.linalg.solve(Lambda.T, eps_0)
    J = eps_0 @ q + m_0 * v
    gradient = torch.autograd.grad(J, trainable(case.policy), allow_unused=True, materialize_grads=True)
    P, q, mu, m = (part.detach() for part in (P, q, mu, m))
    return Dense(
        P.numpy(),
        q.numpy(),
        mu.numpy(),
        float(J.detach()),
        float(m_0.detach() + gamma * mu @ m),
        gradient,
    )


def random_case(
    seed: int,
    *,
    rows: int = 40,
    state_columns: int = 2,
    action_columns: int = 1,
    angle: bool = False,
    terminals: bool = False,
    weights: bool = False,
    starts: int = 1,
    policy: str = "network",
    discount: float = 0.9,
    prior_mass: float = 0.0,
) -> Case:
    """Return a noisy drift with rewards and bandwidths of order 1; the first state may be an angle."""
    rng = np.random.default_rng(seed)
    s, a = rng.normal(size=(rows, state_columns)), rng.normal(size=(rows, action_columns))
    data = Transitions.from_arrays(
        s,
        a,
        -np.square(s).sum(axis=1) + rng.normal(size=rows),
        0.8 * s + 0.5 * a.sum(axis=1, keepdims=True) + 0.3 * rng.normal(size=(rows, state_columns)),
        terminated=rng.random(rows) < 0.2 if terminals else None,
        angles=[0] if angle else None,
        weights=rng.uniform(0.5, 3.0, rows) if weights else None,
        initial_states=rng.normal(size=(starts, state_columns)),
    )
    h = (0.5 + 0.3 * rng.random(state_columns))[list(data.schema.feature_columns)]
    return Case(
        data=data,
        bandwidths=Bandwidths.from_values(h, [0.7] * action_columns),
        policy=new_policy(policy, data, seed),
        discount=discount,
        prior_mass=prior_mass,
    )


def new_policy(kind: str, data: Transitions, seed: int = 0) -> Policy:
    rng, (d_f, d_a) = generator(seed, "policy"), (data.features.shape[1], data.actions.shape[1])
    if kind == "linear":
        return LinearPolicy(0.5 * torch.randn(d_a, d_f, generator=rng, dtype=torch.float64))
    if kind == "gaussian":
        return GaussianMLPPolicy.from_data(
            data.features, data.actions, rng=rng, hidden=6, num_action_samples=4
        )
    return MLPPolicy.from_data(data.features, data.actions, rng=rng, hidden=6)


def cases() -> dict[str, Case]:
    """Return one case for every ingredient of the equation, and one with all of them."""
    return {
        "deterministic": random_case(1),
        "linear": random_case(2, policy="linear"),
        "gaussian": random_case(3, policy="gaussian"),
        "prior mass": random_case(5, prior_mass=0.1),
        "terminals": random_case(6, terminals=True),
        "two actions": random_case(7, state_columns=3, action_columns=2),
        "several starts": random_case(8, state_columns=1, starts=5),
        "angle": random_case(9, angle=True),
        "weights": random_case(11, weights=True),
        "all at once": random_case(
            10,
            state_columns=3,
            action_columns=2,
            angle=True,
            terminals=True,
            weights=True,
            starts=4,
            policy="gaussian",
            discount=0.97,
            prior_mass=0.05,
        ),
    }


def flat(parts: tuple[torch.Tensor, ...]) -> torch.Tensor:
    return torch.cat([part.flatten() for part in parts])

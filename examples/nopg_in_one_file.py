"""NOPG from data to a trained policy in one file: a pendulum is swung up from 450 single transitions.

The algorithm of Tosatto et al., "A Nonparametric Off-Policy Policy Gradient" (AISTATS 2020), with the paper's
labels, on numpy, scipy and torch alone. `nopg.paper` computes the same from sparse candidates, with proofs.

    python examples/nopg_in_one_file.py
"""

import argparse
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from scipy import linalg

Array = npt.NDArray[np.float64]

GAMMA, TIME_STEP, MOST_TORQUE, MOST_SPEED = 0.97, 0.05, 2.0, 8.0
STEPS = 500


# The plant: it makes the data, and tries the result at the end. Training never calls it.


def step(state: Array, torque: Array) -> tuple[Array, Array]:
    """Return rewards (m,) and next states (m, 2) of a rod that is too heavy for its motor; upright is 0."""
    angle, speed = state.T
    torque = torque.clip(-MOST_TORQUE, MOST_TORQUE)
    wrapped = (angle + math.pi) % (2 * math.pi) - math.pi
    reward = -(wrapped**2 + 0.1 * speed**2 + 0.001 * torque**2)
    speed = (speed + (15 * np.sin(angle) + 3 * torque) * TIME_STEP).clip(-MOST_SPEED, MOST_SPEED)
    return reward, np.stack([angle + speed * TIME_STEP, speed], axis=1)


def features(state: Array) -> Array:
    """Return (cos angle, sin angle, speed): a kernel must not see the jump from π to −π."""
    return np.stack([np.cos(state[:, 0]), np.sin(state[:, 0]), state[:, 1]], axis=1)


# Data and kernels (`definition:npbe`): n transitions, in any order; ψ on states, φ on actions.


@dataclass(frozen=True)
class Data:
    """Transitions (s, a, r, s′) as features, the start, and the bandwidths h of ψ and φ."""

    s: Array
    a: Array
    r: Array
    s_next: Array
    start: Array
    h_psi: Array
    h_phi: Array
    beta: float = 1e-6  # a prior mass; 0 in the paper
    terminated: Array | None = None

    @property
    def v(self) -> float:
        """The value of what the data do not know: the worst reward for ever."""
        return float(self.r.min()) / (1 - GAMMA)


def pendulum_grid(points: int = 15) -> Data:
    """Try both extreme torques once at every point of a grid of states, as in the paper."""
    angles, speeds = np.linspace(-math.pi, math.pi, points), np.linspace(-MOST_SPEED, MOST_SPEED, points)
    grid = np.array([(x, y, u) for x in angles for y in speeds for u in (-MOST_TORQUE, MOST_TORQUE)])
    reward, after = step(grid[:, :2], grid[:, 2])
    # Bandwidths: 0.3 spacings of the states, half of the spacing of the actions.
    chord, gap = 2 * math.sin(math.pi / (points - 1)), 2 * MOST_SPEED / (points - 1)
    return Data(
        s=features(grid[:, :2]),
        a=grid[:, 2:],
        r=reward,
        s_next=features(after),
        start=features(np.array([[math.pi, 0.0]])),
        h_psi=np.array([0.5 * chord, 0.5 * chord, 0.3 * gap]),
        h_phi=np.array([MOST_TORQUE]),
    )


def weights(data: Data, s: Array, a: Array) -> tuple[Array, Array]:
    """Return ε_j(s, a) = ψ(s, s_j) φ(a, a_j) / (β + Σ_k ψφ), (m, n), and m = β / (β + Σ_k ψφ), (m,)."""
    log_psi = -0.5 * np.square((s[:, None] - data.s) / data.h_psi).sum(axis=2)
    log_phi = -0.5 * np.square((a[:, None] - data.a) / data.h_phi).sum(axis=2)
    kernel = np.exp(log_psi + log_phi)
    total = data.beta + kernel.sum(axis=1, keepdims=True)
    return kernel / total, data.beta / total[:, 0]


# The equation and its gradient (`theorem:fixedpoint`, `equation:algorithmicgradient`).


def action_gradient(data: Data, a: Array, eps: Array, V: Array, q: Array) -> Array:
    """Return ∂V/∂a = Σ_j ε_j (q_j − V)(a_j − a) / h²: better actions nearby pull the action there."""
    pull = eps * (q - V[:, None])
    return np.asarray((pull @ data.a - pull.sum(axis=1, keepdims=True) * a) / data.h_phi**2)


def solve(data: Data, a_next: Array, a_start: Array) -> tuple[float, Array, Array]:
    """Return Ĵ and its derivatives by the actions at all s′ and at the start.

    Values flow back, visits flow forth, and the gradient multiplies them where they meet:

        Λ = I − γP,   Λq = r + γmv,   Λᵀμ = ε₀,   Ĵ = ε₀ᵀq + m₀v
        ∂Ĵ/∂aᵢ = γμᵢ ∂Vᵢ/∂aᵢ at s′ᵢ,   1/n₀ ∂V/∂a at the start
    """
    goes_on = np.ones(len(data.r)) if data.terminated is None else 1.0 - data.terminated
    eps, m = weights(data, data.s_next, a_next)
    eps_start, m_start = weights(data, data.start, a_start)
    P, n_0 = goes_on[:, None] * eps, len(data.start)

    factors = linalg.lu_factor(np.eye(len(data.r)) - GAMMA * P)
    q = linalg.lu_solve(factors, data.r + GAMMA * goes_on * m * data.v)
    mu = linalg.lu_solve(factors, eps_start.mean(axis=0), trans=1)

    V, V_start = eps @ q + m * data.v, eps_start @ q + m_start * data.v
    by_next = GAMMA * (mu * goes_on)[:, None] * action_gradient(data, a_next, eps, V, q)
    by_start = action_gradient(data, a_start, eps_start, V_start, q) / n_0
    return float(V_start.mean()), by_next, by_start


# Algorithm 1 (`alg:kbpgalg`): the policy, and the ascent.


def new_policy(data: Data, seed: int) -> torch.nn.Module:
    """Return a_max tanh f(s) with 50 hidden units, on standardised features."""

    class Policy(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mean, self.std = torch.as_tensor(data.s.mean(axis=0)), torch.as_tensor(data.s.std(axis=0))
            layers = [torch.nn.Linear(data.s.shape[1], 50), torch.nn.ReLU(), torch.nn.Linear(50, 1)]
            self.network = torch.nn.Sequential(*layers).double()

        def forward(self, s: torch.Tensor) -> torch.Tensor:
            f: torch.Tensor = self.network((s - self.mean) / self.std)
            return MOST_TORQUE * torch.tanh(f)

    torch.manual_seed(seed)
    return Policy()


def gradient(data: Data, policy: torch.nn.Module) -> float:
    """Write −∂Ĵ/∂θ into the gradients of the policy's parameters, for a descent, and return Ĵ."""
    a_next, a_start = (policy(torch.as_tensor(states)) for states in (data.s_next, data.start))
    J, by_next, by_start = solve(data, a_next.detach().numpy(), a_start.detach().numpy())
    torch.autograd.backward([a_next, a_start], [-torch.as_tensor(by_next), -torch.as_tensor(by_start)])
    return J


def train(data: Data, *, updates: int, seed: int) -> tuple[torch.nn.Module, list[float]]:
    """Follow the gradient with Adam; return the policy and Ĵ before each update."""
    policy, history = new_policy(data, seed), []
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for _ in range(updates):
        optimizer.zero_grad()
        history.append(gradient(data, policy))
        optimizer.step()
    return policy, history


def try_on_plant(policy: torch.nn.Module) -> float:
    """Return the sum of rewards over 500 steps from hanging, on the true dynamics."""
    state, total = np.array([[math.pi, 0.0]]), 0.0
    for _ in range(STEPS):
        with torch.no_grad():
            torque = policy(torch.as_tensor(features(state)))[:, 0].numpy()
        reward, state = step(state, torque)
        total += float(reward[0])
    return total


def main() -> None:
    """Train and try."""
    parser = argparse.ArgumentParser(description="Swing up a pendulum from 450 transitions.")
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    policy, history = train(pendulum_grid(), updates=given.updates, seed=given.seed)
    print(f"predicted return, discounted: {history[0]:.1f} at first, {history[-1]:.1f} at the end")
    print(f"500 steps on the plant: {try_on_plant(policy):.0f} (-369 is the best for this discount)")


if __name__ == "__main__":
    main()

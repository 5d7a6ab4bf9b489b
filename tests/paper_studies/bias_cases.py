"""Worlds whose bias is known to some accuracy, to hold the bounds of `studies.paper.bias` against."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from studies.paper.bias import value_bias_bound

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ridges:
    """A sum of |α·x − c| and sin(α·x − c), each with a weight and a direction α of entries within ±1.

    Such a sum serves as a regression function and as a log-density: its Lipschitz constant in the 1-norm is
    at most the sum of the weights' sizes.
    """

    weights: Array  # (m,)
    directions: Array  # (m, d)
    offsets: Array  # (m,)
    smooth: npt.NDArray[np.bool_]  # (m,), True for a sine

    def __call__(self, points: Array) -> Array:
        """Evaluate at points of shape (..., d)."""
        t = points @ self.directions.T - self.offsets  # (..., m)
        return np.asarray(np.where(self.smooth, np.sin(t), np.abs(t)) @ self.weights)

    @property
    def lipschitz(self) -> float:
        return float(np.abs(self.weights) @ np.abs(self.directions).max(axis=1))


def regression_bias(
    function: Callable[[Array], Array],
    log_density: Callable[[Array], Array],
    *,
    query: Array,
    bandwidth: Array,
    reach: float,
    room: Array | None = None,
    nodes_per_bandwidth: int,
) -> float:
    """Compute ∫ f K β / ∫ K β − f(query), the bias of Nadaraya-Watson regression on infinitely many samples.

    Trapezoid rule on a grid around the query. The kernel is cut `reach` bandwidths away; where `room`
    (shape (d, 2), in bandwidths) is smaller than that, β is zero beyond it.
    """
    sides = np.full((len(query), 2), reach) if room is None else np.minimum(room, reach)
    axes, log_weights = [], []
    for below, above in sides:
        u = np.linspace(-below, above, 2 + math.ceil((below + above) * nodes_per_bandwidth))
        ends = np.zeros_like(u)
        ends[[0, -1]] = math.log(0.5)
        axes.append(u)
        log_weights.append(-0.5 * u**2 + ends)
    offsets = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)  # (n₁, …, n_d, d)
    points = query + bandwidth * offsets

    log_w = log_density(points) + sum(np.meshgrid(*log_weights, indexing="ij"))
    w = np.exp(log_w - log_w.max())
    return float(np.sum(w * (function(points) - function(query))) / np.sum(w))


@dataclass(frozen=True, slots=True)
class WorldSolution:
    """The estimated and the true value on a grid of states, and the slope of the estimate."""

    states: Array
    estimated: Array
    true: Array

    @property
    def bias(self) -> float:
        return float(np.abs(self.estimated - self.true).max())

    @property
    def value_lipschitz(self) -> float:
        return float(np.abs(np.diff(self.estimated) / np.diff(self.states)).max())


@dataclass(frozen=True, slots=True)
class LinearWorld:
    """A cart between stops, s′ = clip(A s + B a, ±stop), with r = −Σ cᵢ|xᵢ − x̄ᵢ| over x = (s, a) and a = k s.

    The data have log-density Σ lᵢ|xᵢ − x̃ᵢ|: peaked at x̃ where l < 0, sparsest there where l > 0, uniform
    for l = 0. Bandwidths are those of ψ, φ and ϕ; that of ϕ may be 0.
    """

    state_gain: float
    action_gain: float
    stop: float
    policy_gain: float
    discount: float
    bandwidths: tuple[float, float, float]
    reward_slopes: tuple[float, float]
    reward_peaks: tuple[float, float] = (0.0, 0.0)
    design_slopes: tuple[float, float] = (0.0, 0.0)
    design_kinks: tuple[float, float] = (0.0, 0.0)

    @property
    def reward_lipschitz(self) -> float:
        return max(self.reward_slopes)

    @property
    def transition_lipschitz(self) -> float:
        return max(abs(self.state_gain), abs(self.action_gain))

    @property
    def log_lipschitz(self) -> float:
        return max(abs(slope) for slope in self.design_slopes)

    def step(self, s: Array, a: Array) -> Array:
        return np.clip(self.state_gain * s + self.action_gain * a, -self.stop, self.stop)

    def reward(self, s: Array, a: Array) -> Array:
        (c_s, c_a), (peak_s, peak_a) = self.reward_slopes, self.reward_peaks
        return np.asarray(-c_s * np.abs(s - peak_s) - c_a * np.abs(a - peak_a))

    def solve(self, *, reach: float = 6.0, nodes_per_bandwidth: int = 4) -> WorldSolution:
        """Solve the nonparametric Bellman equation in the limit of infinite data (equation:infnpbe).

        In that limit the sum over samples is an integral over the design,

            V(s) = ∫∫ w(z, b | s) [r(z, b) + γ ∫ V(f(z, b) + l) ϕ(l) dl] dz db,
            w ∝ ψ(s, z) φ(k s, b) β(z, b), of mass 1.

        Every integral becomes a sum over nodes `reach` bandwidths to each side. V is a function smoothed by
        ψ, so its values on a grid finer than h_ψ determine it by linear interpolation, and the equation is
        V = ρ + γ P S V, with P for the step and S for ϕ. Stops and reach bound the states that occur.
        """
        h_psi, h_varphi, h_phi = self.bandwidths
        edge = self.stop + reach * h_phi
        spacing = min(h_psi, h_varphi) / nodes_per_bandwidth
        s = np.linspace(-edge, edge, 2 + math.ceil(2 * edge / spacing))  # (n,)

        nodes = np.linspace(-reach, reach, 1 + round(2 * reach * nodes_per_bandwidth))  # (m,)
        z = s[:, None] + h_psi * nodes  # (n, m)
        b = self.policy_gain * s[:, None] + h_varphi * nodes  # (n, m)
        w_z, w_b = self._weights(nodes, z, 0), self._weights(nodes, b, 1)
        w = w_z[:, :, None] * w_b[:, None, :]  # (n, m, m)
        z, b = z[:, :, None], b[:, None, :]

        rho = np.sum(w * self.reward(z, b), axis=(1, 2))
        P = _interpolation(s, self.step(z, b), w)
        w_l = np.broadcast_to(_normalised(-0.5 * nodes**2), (len(s), len(nodes)))
        S = _interpolation(s, np.clip(s[:, None] + h_phi * nodes, -edge, edge), w_l)
        V = np.linalg.solve(np.eye(len(s)) - self.discount * P @ S, rho)
        return WorldSolution(states=s, estimated=V, true=self.true_value(s))

    def true_value(self, s: Array) -> Array:
        """Add up γᵗrₜ along the policy's path until γᵗ < 10⁻¹²."""
        value, weight = np.zeros_like(s), 1.0
        while weight >= 1e-12:
            a = self.policy_gain * s
            value = value + weight * self.reward(s, a)
            s, weight = self.step(s, a), weight * self.discount
        return value

    def _weights(self, nodes: Array, points: Array, dimension: int) -> Array:
        slope, kink = self.design_slopes[dimension], self.design_kinks[dimension]
        return _normalised(-0.5 * nodes**2 + slope * np.abs(points - kink))


def steep_world(*, next_state_bandwidth: float = 0.0) -> LinearWorld:
    """Return the counter-example to theorem:ultimate: s′ = 10a, r = −|s|, π = 0, h = .1, γ = .9.

    The policy goes to 0 and stays, so V*(0) = 0. But actions within .1 of 0 lead to states within 1 of 0,
    and the kernel on actions averages over them. The stops lie beyond all nodes, so they are never touched.
    """
    return LinearWorld(
        state_gain=0.0,
        action_gain=10.0,
        stop=6.1,
        policy_gain=0.0,
        discount=0.9,
        bandwidths=(0.1, 0.1, next_state_bandwidth),
        reward_slopes=(1.0, 0.0),
    )


def steep_world_value_at_zero(*, next_state_bandwidth: float = 0.0) -> float:
    """Return V_D(0) of `steep_world` by hand.

    On a uniform design z ~ N(s, h²) and b ~ N(0, h²) are independent. Wherever we stand, the next state is
    10b + l ~ N(0, (10h)² + h_ϕ²), and what we see there is smoothed by ψ once more. So every step but the
    first costs E|N(0, (10h)² + h_ϕ² + h²)|, the first from 0 costs E|N(0, h²)|, and E|N(0, σ²)| = σ√(2/π).
    """
    h, gamma = 0.1, 0.9
    later = math.hypot(10 * h, next_state_bandwidth, h)
    return -math.sqrt(2 / math.pi) * (h + gamma / (1 - gamma) * later)


def value_bound(world: LinearWorld, solution: WorldSolution, *, printed: bool = False) -> float:
    """Return our bound on the bias of the value in a world, or the paper's."""
    *state_action, next_state = world.bandwidths
    return value_bias_bound(
        discount=world.discount,
        reward_lipschitz=world.reward_lipschitz,
        value_lipschitz=solution.value_lipschitz,
        transition_lipschitz=world.transition_lipschitz,
        log_lipschitz=world.log_lipschitz,
        state_action_bandwidth=state_action,
        next_state_bandwidth=[next_state],
        printed=printed,
    )


def _normalised(log_weights: Array) -> Array:
    w = np.exp(log_weights - log_weights.max(axis=-1, keepdims=True))
    return np.asarray(w / w.sum(axis=-1, keepdims=True))


def _interpolation(grid: Array, points: Array, weights: Array) -> Array:
    """Return M with (M v)ᵢ = Σ weightsᵢ · v(pointsᵢ), v linear between the nodes of an even grid."""
    n = len(grid)
    position = (points - grid[0]) / (grid[1] - grid[0])
    left = np.clip(np.floor(position).astype(np.int64), 0, n - 2)
    share = np.clip(position - left, 0.0, 1.0)
    cell = left + n * np.arange(n).reshape(-1, *[1] * (points.ndim - 1))

    M = np.bincount(cell.ravel(), weights=(weights * (1 - share)).ravel(), minlength=n * n)
    M += np.bincount(cell.ravel() + 1, weights=(weights * share).ravel(), minlength=n * n)
    return np.asarray(M.reshape(n, n))

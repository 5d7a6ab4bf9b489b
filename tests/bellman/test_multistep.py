"""The multi-step equation: against closed forms, exact rational solves, differences, and long rollouts."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from bellman.exact_gradient import exact_gradient
from models.test_known_columns import tank
from models.test_local_model import curved_log, linear_log
from models.test_noise import run
from nopg.bellman import MultistepProblem
from nopg.bellman._held_actions import best_held_actions
from nopg.bellman._multistep import Charge
from nopg.bellman._nodes import Nodes
from nopg.data import Transitions
from nopg.models import LocalModel
from nopg.models._regression_rows import InputSpace, StateCoordinates
from nopg.models._rollout import rollout
from nopg.policies import Deterministic, GaussianPolicy, LinearPolicy, Policy
from nopg.policies._policy import trainable

GAIN = LinearPolicy([[-0.3, -0.2]])


class Bent(Deterministic):
    """A smooth nonlinear policy."""

    def __init__(self, columns: int, seed: int = 0) -> None:
        super().__init__()
        rng = torch.Generator().manual_seed(seed)
        self.first = torch.nn.Parameter(torch.randn(columns, 4, generator=rng, dtype=torch.float64))
        self.last = torch.nn.Parameter(torch.randn(4, 1, generator=rng, dtype=torch.float64))
        self.num_actions = 1

    def mode(self, features: torch.Tensor) -> torch.Tensor:
        return 0.5 * (features @ self.first).tanh() @ self.last


@pytest.fixture(scope="module")
def linear() -> MultistepProblem:
    data = linear_log(200)
    return MultistepProblem.build(LocalModel(data), data.states[:5], 0.9, horizon=6, num_nodes=40)


@pytest.fixture(scope="module")
def curved() -> MultistepProblem:
    data = curved_log(250)
    return MultistepProblem.build(LocalModel(data), data.states[:4], 0.9, horizon=5, num_nodes=30)


@pytest.fixture(scope="module")
def noisy() -> MultistepProblem:
    data = linear_log(300, noise=0.3)
    return MultistepProblem.build(LocalModel(data), data.states[:3], 0.9, horizon=4, num_nodes=25)


@pytest.fixture(scope="module")
def measured() -> MultistepProblem:
    data = run(sensor=0.1, disturbance=0.05, feedback=True)
    problem = MultistepProblem.build(LocalModel(data), data.states[:3], 0.9, horizon=4, num_nodes=25)
    assert problem.model.noise.sensors.all()
    return problem


@pytest.fixture(scope="module")
def delayed() -> MultistepProblem:
    data = tank(noise=0.05)
    return MultistepProblem.build(LocalModel(data), data.states[:3], 0.9, horizon=5, num_nodes=25)


def _plain(space: InputSpace) -> StateCoordinates:
    return StateCoordinates(space, None, torch.zeros_like(space.units))


def test_the_equation_is_fulfilled(linear: MultistepProblem) -> None:
    found = linear.solve(GAIN)
    V, W, gamma = found.values[0], found.weights[0], 0.9**6
    assert torch.allclose(V, found.targets[0] + gamma * W @ V, atol=1e-10)
    assert float(W.min()) >= 0.0
    assert float(W.sum(dim=1).max()) <= 1.0 + 1e-12


def test_a_constant_reward_is_worth_its_annuity() -> None:
    data = linear_log(150)
    constant = Transitions.from_arrays(
        data.states, data.actions, torch.full((150,), 2.0), data.next_states, episodes=data.episodes
    )
    problem = MultistepProblem.build(LocalModel(constant), data.states[:3], 0.8, horizon=3, num_nodes=30)
    found = problem.solve(GAIN).without_leaving
    assert found.returns.tolist() == pytest.approx([2.0 / 0.2], rel=1e-9)
    assert found.values[0].tolist() == pytest.approx([10.0] * 30, rel=1e-9)


def test_ends_cut_the_annuity() -> None:
    s = torch.linspace(0, 0.99, 100, dtype=torch.float64)[:, None]
    a = torch.full((100, 1), 0.1, dtype=torch.float64)
    a[::2] = 0.12
    after = s + a
    data = Transitions.from_arrays(s, a, torch.ones(100), after, terminated=after[:, 0] > 1.0)
    problem = MultistepProblem.build(
        LocalModel(data), torch.tensor([[0.55]], dtype=torch.float64), 0.9, horizon=20, num_nodes=20
    )

    class Push(Deterministic):
        num_actions = 1

        def mode(self, features: torch.Tensor) -> torch.Tensor:
            return torch.full((len(features), 1), 0.1, dtype=torch.float64)

    # From .55 five steps of .1 pass 1: 1 + γ + γ² + γ³ + γ⁴.
    found = problem.solve(Push()).without_leaving
    assert float(found.returns[0]) == pytest.approx(sum(0.9**t for t in range(5)), abs=1e-6)


def test_longer_horizons_agree_with_long_rollouts(linear: MultistepProblem) -> None:
    path = rollout(linear.model, lambda f, _: GAIN.mode(f), linear.starts, 150)
    truth = float(path.value(0.9, linear.unknown_value)[0][0].mean())
    misses = [abs(float(linear.replace(horizon=H).solve(GAIN).returns[0]) - truth) for H in (1, 6, 40)]
    assert misses[2] < misses[1] < misses[0]
    assert misses[2] < 0.02 * abs(truth)


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("case", ["curved", "noisy", "measured", "delayed"])
def test_the_gradient_agrees_with_central_differences(
    case: str, parts: int, request: pytest.FixtureRequest
) -> None:
    problem: MultistepProblem = request.getfixturevalue(case)
    problem = problem.replace(num_parts=parts)
    policy = Bent(len(problem.data.schema.features))
    gradient = exact_gradient(problem, policy)
    rng = torch.Generator().manual_seed(2)
    for _ in range(3):
        towards = [
            torch.randn(part.shape, generator=rng, dtype=torch.float64) for part in policy.parameters()
        ]
        slope = sum(float((g * d).sum()) for g, d in zip(gradient, towards, strict=True))
        numeric = _difference(problem, policy, towards)
        assert slope == pytest.approx(numeric, rel=2e-4, abs=1e-5)


def _difference(problem: MultistepProblem, policy: Policy, towards: list[torch.Tensor]) -> float:
    values = []
    for sign in (1.0, -1.0):
        for parameter, direction in zip(trainable(policy), towards, strict=True):
            parameter.data.add_(sign * 1e-5 * direction)
        values.append(problem.solve(policy).objective)
        for parameter, direction in zip(trainable(policy), towards, strict=True):
            parameter.data.sub_(sign * 1e-5 * direction)
    return (values[0] - values[1]) / 2e-5


def test_the_gradient_of_a_stochastic_policy_agrees_with_differences(linear: MultistepProblem) -> None:
    problem = linear.replace(num_paths=4)
    policy = GaussianPolicy(LinearPolicy([[-0.3, -0.2]]), 0.2, num_action_samples=2)
    gradient = exact_gradient(problem, policy)
    towards = [torch.tensor([[1.0, -2.0]], dtype=torch.float64)]
    slope = float((gradient[0] * towards[0]).sum())
    assert slope == pytest.approx(_difference(problem, policy, towards), rel=2e-4, abs=1e-5)


def test_the_gradient_of_a_charged_problem_agrees_with_differences() -> None:
    data = linear_log(200)
    costs = data.states[:, :1].abs() + data.actions.square()
    model = LocalModel(data, costs=costs)
    problem = MultistepProblem.build(model, data.states[:4], 0.9, horizon=4, num_nodes=25)
    smooth = Charge(3.0, lambda s, a, after: torch.sigmoid(4.0 * after[:, 0]))
    charged = problem.replace(charges=(smooth, Charge(2.0, 0)))
    policy = Bent(2)
    gradient = exact_gradient(charged, policy)
    towards = [torch.ones_like(part) for part in policy.parameters()]
    slope = sum(float(part.sum()) for part in gradient)
    assert slope == pytest.approx(_difference(charged, policy, towards), rel=2e-4, abs=1e-5)
    assert charged.solve(policy).expected_return < problem.solve(policy).expected_return


def test_the_certificate_bounds_the_error_of_an_exact_rational_solve(linear: MultistepProblem) -> None:
    small = linear.replace(nodes=Nodes(linear.nodes.states[:8], linear.model.coordinates))
    found = small.solve(GAIN)
    gamma = 0.9**6
    matrix = [
        [Fraction(int(i == j)) - Fraction(gamma) * Fraction(float(found.weights[0, i, j])) for j in range(8)]
        for i in range(8)
    ]
    right = [Fraction(float(x)) for x in found.targets[0]]
    exact = _solved(matrix, right)
    error = max(abs(float(Fraction(float(x)) - y)) for x, y in zip(found.values[0], exact, strict=True))
    proof = found.certificate
    assert error <= proof.q_error < 1e-9
    assert proof.converged
    assert proof.duality_gap <= 1e-9
    start = [Fraction(float(x)) for x in gamma * found.start_weights[0].mean(dim=0)]
    transposed = [[matrix[j][i] for j in range(8)] for i in range(8)]
    mu = _solved(transposed, start)
    missed = sum(abs(float(Fraction(float(x)) - y)) for x, y in zip(found.visits[0], mu, strict=True))
    assert missed <= proof.mu_error < 1e-9


def _solved(matrix: list[list[Fraction]], right: list[Fraction]) -> list[Fraction]:
    """Solve by Gauss and Jordan in exact arithmetic."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for k in range(len(rows)):
        pivot = next(i for i in range(k, len(rows)) if rows[i][k] != 0)
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [x / rows[k][k] for x in rows[k]]
        for i in range(len(rows)):
            if i != k:
                rows[i] = [x - rows[i][k] * y for x, y in zip(rows[i], rows[k], strict=True)]
    return [row[-1] for row in rows]


def test_values_at_any_state_are_those_of_the_starts(linear: MultistepProblem) -> None:
    found = linear.solve(GAIN)
    values = found.value(linear.starts)
    assert float(values.mean()) == pytest.approx(found.expected_return, rel=1e-9)
    first = GAIN.mode(linear.starts).detach()
    assert torch.allclose(found.value_after(linear.starts, first), values, atol=1e-9)


def test_the_cost_of_an_update_does_not_depend_on_the_number_of_rows() -> None:
    sizes = []
    for rows in (300, 3_000):
        data = linear_log(rows)
        problem = MultistepProblem.build(LocalModel(data), data.states[:3], 0.9, horizon=4)
        sizes.append((len(problem.nodes), problem.solve(GAIN).path.states.shape[1]))
    assert sizes[0] == sizes[1]


# Nodes


@pytest.mark.parametrize("columns", [1, 2, 4])
def test_interpolation_is_smooth_and_its_slope_agrees_with_differences(columns: int) -> None:
    rng = torch.Generator().manual_seed(columns)
    space = InputSpace(torch.full((columns,), 0.7, dtype=torch.float64), *torch.zeros(2, columns).double())
    nodes = Nodes(torch.randn(120, columns, generator=rng, dtype=torch.float64), _plain(space))
    values = torch.randn(120, generator=rng, dtype=torch.float64)
    s = 0.7 * torch.randn(40, columns, generator=rng, dtype=torch.float64)
    here = nodes.interpolate(s)
    assert float(here.weights.min()) >= 0.0
    assert torch.allclose(here.weights.sum(dim=1), torch.ones(40, dtype=torch.float64))
    slopes = here.slopes(values[here.near])
    for column in range(columns):
        step = torch.zeros(columns, dtype=torch.float64)
        step[column] = 1e-6
        up, down = nodes.interpolate(s + step), nodes.interpolate(s - step)
        numeric = (up.values(values[up.near]) - down.values(values[down.near])) / 2e-6
        apart = (numeric - slopes[:, column]).abs() / (1 + numeric.abs())
        # The nearest nodes change smoothly; only the distance to the first one left out has a kink.
        assert float(apart.median()) < 1e-6
        assert float((apart < 1e-4).double().mean()) >= 0.95


def test_amid_the_nodes_a_linear_value_is_reproduced() -> None:
    grid = torch.linspace(-1, 1, 15, dtype=torch.float64)
    space = InputSpace(*torch.tensor([[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]], dtype=torch.float64))
    nodes = Nodes(torch.cartesian_prod(grid, grid), _plain(space))
    s = torch.tensor([[0.03, -0.41], [0.5, 0.222]], dtype=torch.float64)
    here = nodes.interpolate(s)
    line = nodes.states @ torch.tensor([2.0, -3.0], dtype=torch.float64)
    assert here.values(line[here.near]).tolist() == pytest.approx([0.06 + 1.23, 1.0 - 0.666], abs=5e-3)


def test_nodes_cover_what_a_controller_visits(linear: MultistepProblem) -> None:
    visited = torch.tensor([[5.0, 5.0], [5.1, 5.0]], dtype=torch.float64)
    nodes = Nodes.covering(linear.model, 20, visited)
    assert len(nodes) == 20
    assert torch.cdist(nodes.states, visited).amin(dim=0).tolist() == [0.0, 0.0]


# Held actions


def test_the_best_held_actions_push_towards_the_reward() -> None:
    rng = torch.Generator().manual_seed(0)
    s = 2 * torch.rand(400, 1, generator=rng, dtype=torch.float64) - 1
    a = 0.4 * torch.rand(400, 1, generator=rng, dtype=torch.float64) - 0.2
    data = Transitions.from_arrays(s, a, -s[:, 0].square(), s + a)
    problem = MultistepProblem.build(LocalModel(data), s[:10], 0.9)
    held = best_held_actions(problem, 1, num_nodes=60, seed=0)
    best = held.best(torch.tensor([[0.8], [-0.8], [0.001]], dtype=torch.float64))[:, 0].tolist()
    assert best == pytest.approx([-0.2, 0.2, 0.0], abs=1e-3)
    by_node = np.sign(held.actions[:, 0].numpy()) * np.sign(held.problem.nodes.states[:, 0].numpy())
    assert (by_node <= 0).mean() > 0.95


class _Paced(LocalModel):
    """A model that takes so many steps to move a standard deviation, with a share of noise."""

    steps_per_unit, share = 4.0, 0.0

    def steps_to_move(self, distance: float) -> float:
        return math.ceil(distance * self.steps_per_unit)

    @property
    def noise_share(self) -> float:
        return self.share


@pytest.mark.parametrize(
    ("steps_per_spacing", "discount", "horizon"),
    [
        (4, 0.9, 12),  # three spacings
        (1, 0.9375, 8),  # half of 1/(1 − γ)
        (4, 0.96875, 16),
        (100, 0.9, 128),  # the longest
        (1, 0.999, 128),
    ],
)
def test_the_first_horizon_moves_three_spacings_and_lasts_half_an_effective_horizon(
    steps_per_spacing: int, discount: float, horizon: int
) -> None:
    data = linear_log(60)
    model = _Paced(data)
    spacing = MultistepProblem.build(model, data.states[:2], discount, horizon=1, num_nodes=20).nodes.spacing
    model.steps_per_unit = (steps_per_spacing - 1e-9) / spacing
    problem = MultistepProblem.build(model, data.states[:2], discount, num_nodes=20)
    assert problem.horizon == horizon


@pytest.mark.parametrize(
    ("share", "noisy", "num_paths"), [(0.009, False, 1), (0.011, True, 1), (0.049, True, 1), (0.051, True, 4)]
)
def test_noise_counts_in_rollouts_from_1_per_cent_of_the_variance_and_in_the_equation_from_5(
    share: float, noisy: bool, num_paths: int
) -> None:
    data = linear_log(60)
    model = _Paced(data)
    model.share = share
    problem = MultistepProblem.build(model, data.states[:2], 0.9, horizon=1, num_nodes=20)
    assert (problem.noisy, problem.num_paths) == (noisy, num_paths)

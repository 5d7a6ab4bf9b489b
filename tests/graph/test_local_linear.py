import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nopg._seeding import generator
from nopg.bellman import BellmanSolution, ControlProblem
from nopg.data import Transitions
from nopg.errors import ArgumentError
from nopg.gradients import solution_gradient
from nopg.graph import KernelMean, LocalLinear, NadarayaWatson, Queries
from nopg.graph._local_linear import LocalLinearQueries
from nopg.kernels import Bandwidths, GaussianKernel
from nopg.policies import LinearPolicy
from nopg.solvers import BiCGSTAB, DenseLU
from reference import problem_cases
from reference.local_linear_reference import FitProblem, FittedStates, dense_return, fit_at
from reference.problem_cases import Case, gradient_cases, pendulum_case, random_case


@dataclass(frozen=True)
class Local:
    """A case of the paper's model, asked of the local-linear one; its state bandwidths are the metric."""

    case: Case
    num_neighbors: int = 20
    num_candidates: int = 8
    ridge: float = 1e-3

    @property
    def model(self) -> LocalLinear:
        return LocalLinear(
            self.case.data,
            GaussianKernel(self.case.bandwidths.states),
            num_neighbors=self.num_neighbors,
            num_candidates=self.num_candidates,
            ridge=self.ridge,
            prior_mass=self.case.prior_mass,
        )

    def problem(self) -> ControlProblem:
        data = self.case.data
        starts = data.schema.encode(data.starts)
        return ControlProblem.build(
            self.model, starts, discount=self.case.discount, unknown_value=self.case.unknown_value
        )

    def solution(self, problem: ControlProblem | None = None) -> BellmanSolution:
        """Solve by LU, always with the same action noise."""
        equation = (problem or self.problem()).equation(self.case.policy, generator(0, "actions"))
        return equation.solve(DenseLU())


def _cases() -> dict[str, Case]:
    """Return the cases of the paper's model without drawn next states, and one in degrees."""
    cases = {name: replace(case, integration=KernelMean()) for name, case in gradient_cases().items()}
    cases["angle"] = cases.pop("monte carlo next states")
    return cases | {"angle in degrees": problem_cases._in_degrees(cases["angle"])}


CASES = _cases()


def flat(parts: tuple[torch.Tensor, ...]) -> torch.Tensor:
    return torch.cat([part.flatten() for part in parts])


def relative(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    return float((ours - theirs).norm() / theirs.norm())


def column(*rows: float) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)[:, None]


def periods(data: Transitions) -> list[float | None]:
    return [data.schema.angles.get(name) for name in data.schema.states]


def per_column(data: Transitions, per_feature: torch.Tensor) -> torch.Tensor:
    """Return one number per state column; both features of an angle have the same."""
    first = [data.schema.feature_columns.index(k) for k in range(len(data.schema.states))]
    return per_feature[first]


# By hand


def four_corners(*, prior_mass: float = 0.0) -> LocalLinear:
    """Return s′ = s + a and r = 1 + 3a at (s, a) ∈ {−1, 1}²: nodes at −2, 0, 0 and 2, h = 1."""
    s, a = column(-1, -1, 1, 1), column(-1, 1, -1, 1)
    data = Transitions.from_arrays(s, a, (1 + 3 * a)[:, 0], s + a)
    metric = GaussianKernel(torch.ones(1, dtype=torch.float64))
    return LocalLinear(data, metric, num_neighbors=4, ridge=1e-12, interpolation=1.0, prior_mass=prior_mass)


@pytest.mark.parametrize("prior_mass", [0.0, 0.5])
def test_weights_reward_and_action_gradient_of_four_samples_by_hand(prior_mass: float) -> None:
    queries = four_corners(prior_mass=prior_mass).bind(column(0.0))
    actions = column(0.5)[None]
    backup = queries.backup(actions)

    # The action .5 leads from 0 to .5, for a reward of 2.5.
    kernel = [math.exp(-0.5 * (0.5 - node) ** 2) for node in (-2, 0, 0, 2)]
    total = prior_mass + sum(kernel)
    # The intercept has a ridge of 10⁻¹⁰.
    assert backup.reward.tolist() == pytest.approx([2.5], abs=1e-8)
    assert backup.weights.to_dense()[0].tolist() == pytest.approx([k / total for k in kernel], abs=1e-8)
    assert backup.unknown.tolist() == pytest.approx([prior_mass / total], abs=1e-8)

    # V = 2.5 + (Σ kₖ xₖ + βv)/(β + Σ kₖ), dkₖ/da = kₖ (zₖ − ½), dr/da = 3.
    x, v = [1.0, 2.0, 3.0, 4.0], -7.0
    tensor = torch.tensor(x, dtype=torch.float64)
    carried = (sum(k * value for k, value in zip(kernel, x, strict=True)) + prior_mass * v) / total
    rises = [k * (node - 0.5) for k, node in zip(kernel, (-2, 0, 0, 2), strict=True)]
    slope = 3 + sum(rise * (value - carried) for rise, value in zip(rises, x, strict=True)) / total
    assert backup.values(tensor, v).tolist() == pytest.approx([2.5 + carried], abs=1e-7)
    gradient = queries.action_gradient(actions, backup, tensor, v)
    assert gradient.flatten().tolist() == pytest.approx([slope], abs=1e-7)


@pytest.mark.parametrize(
    ("rewards", "terminated", "value"),
    [
        ([1.0, 3.0], [False, False], 9.0),
        ([-1.0, 3.0], [False, False], -9.0),
        ([1.0, 3.0], [False, True], 0.0),
        ([-1.0, 3.0], [False, True], -9.0),
    ],
)
def test_the_unknown_is_worth_the_worst_reward_from_the_next_step_on_or_an_end_if_that_is_worse(
    rewards: list[float], terminated: list[bool], value: float
) -> None:
    data = Transitions.from_arrays([0.0, 0.0], [0.0, 1.0], rewards, [0.0, 1.0], terminated=terminated)
    model = LocalLinear(data, GaussianKernel(torch.ones(1, dtype=torch.float64)), num_neighbors=2)
    assert model.default_unknown_value(0.9) == pytest.approx(value)


# Gradients


@pytest.mark.parametrize("name", CASES)
def test_the_gradient_agrees_with_central_differences(name: str) -> None:
    local, step = Local(CASES[name]), 1e-5
    problem = local.problem()
    analytic = flat(solution_gradient(local.solution(problem)))
    numeric = []
    for parameter in local.case.policy.parameters():
        entries = parameter.detach().view(-1)
        for k in range(len(entries)):
            center, ends = float(entries[k]), []
            for sign in (1.0, -1.0):
                entries[k] = center + sign * step
                ends.append(local.solution(problem).expected_return)
            entries[k] = center
            numeric.append((ends[0] - ends[1]) / (2 * step))

    # Truncation J‴ step²/6 ~ 10⁻¹⁰/h² with h ≥ .1, rounding 10⁻¹⁶ · 10 · 1/(1 − γ)/step ~ 10⁻⁹.
    assert relative(analytic, torch.tensor(numeric, dtype=torch.float64)) <= 1e-6


def fitted(queries: Queries, states: torch.Tensor) -> FittedStates:
    assert isinstance(queries, LocalLinearQueries)
    graph = queries.graph
    mask = torch.zeros(len(states), graph.num_samples, dtype=torch.float64)
    mask.scatter_add_(1, graph.indices.long(), graph.present.double())
    return FittedStates(states, queries.fit.shift, queries.fit.slope, mask)


@pytest.mark.parametrize("name", CASES)
def test_return_and_gradient_are_those_of_autograd_through_a_dense_solve(name: str) -> None:
    local = Local(CASES[name])
    data, policy = local.case.data, local.case.policy
    solution = local.solution()
    equation, model = solution.equation, solution.equation.problem.model
    initial = equation.problem.initial
    assert isinstance(model, LocalLinear)

    h = model.interpolation * per_column(data, local.case.bandwidths.states)
    beta = local.case.prior_mass
    node_actions = policy.actions(model.node_queries.features, equation.node_noise)
    initial_actions = policy.actions(initial.features, equation.initial_noise)
    nodes = fitted(model.node_queries, data.next_states)
    starts = fitted(initial, data.starts)
    # No candidate stands twice in a row.
    assert set(nodes.candidates.flatten().tolist()) == {0.0, 1.0}
    J = dense_return(
        nodes.backup(node_actions, data.next_states, periods(data), h=h, beta=beta),
        starts.backup(initial_actions, data.next_states, periods(data), h=h, beta=beta),
        data.terminated,
        discount=local.case.discount,
        unknown_value=equation.problem.unknown_value,
    )
    taped = torch.autograd.grad(J, list(policy.parameters()))

    # Rounding times the condition of Λ, at most 2/(1 − .97).
    assert solution.expected_return == pytest.approx(float(J.detach()), rel=1e-12)
    assert relative(flat(solution_gradient(solution)), flat(taped)) <= 1e-10


# Fits


@pytest.mark.parametrize("name", ["deterministic", "two actions", "angle", "angle in degrees", "all at once"])
@pytest.mark.parametrize("ridge", [1e-3, 0.3])
def test_fits_are_those_of_weighted_least_squares_at_any_state(name: str, ridge: float) -> None:
    local = replace(Local(CASES[name]), num_neighbors=17, ridge=ridge)
    data = local.case.data
    rng = np.random.default_rng(0)
    scale = data.states.std(dim=0).numpy()
    queries = 1.5 * scale * rng.normal(size=(20, len(scale)))
    fit = local.model.bind(data.schema.encode(torch.as_tensor(queries))).fit
    problem = FitProblem(
        data.states.numpy(),
        data.actions.numpy(),
        data.rewards.numpy(),
        data.next_states.numpy(),
        periods(data),
        per_column(data, local.case.bandwidths.states).tolist(),
        local.num_neighbors,
        ridge,
    )
    for row, state in enumerate(queries):
        shift, slope = fit_at(problem, state)
        # The condition of the normal equations is at most 10⁶, of which the least squares need the root.
        assert fit.shift[row].numpy() == pytest.approx(shift, rel=1e-9, abs=1e-9)
        assert fit.slope[row].numpy() == pytest.approx(slope, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("angle", [False, True])
def test_affine_dynamics_and_rewards_are_recovered_exactly(angle: bool) -> None:
    rng = np.random.default_rng(3)
    A = np.array([[1.0, 0.1], [0.0, 0.9]]) if angle else rng.normal(size=(2, 2))
    B, c = 0.3 * rng.normal(size=(2, 2)), 0.2 * rng.normal(size=2)
    # An affine function of an angle is none of the circle; the reward sees the velocity only.
    by_state = np.array([0.0, 2.0]) if angle else np.array([1.0, 2.0])
    by_action = np.array([-1.0, 3.0])

    def samples(count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        s, a = rng.uniform(-math.pi, math.pi, (count, 2)), rng.uniform(-1, 1, (count, 2))
        return (
            torch.as_tensor(s),
            torch.as_tensor(a),
            torch.as_tensor(s @ by_state + a @ by_action + 0.5),
            torch.as_tensor(s @ A.T + a @ B.T + c),
        )

    data = Transitions.from_arrays(*samples(300), angles=[0] if angle else None)
    s, a, r, s_next = samples(50)
    h = torch.full((data.features.shape[1],), 0.5, dtype=torch.float64)
    features = data.schema.encode(s)
    local = LocalLinear(data, GaussianKernel(h), num_neighbors=30, ridge=1e-12).bind(features).fit.at(a)

    # Ridges of 10⁻¹⁰ and 10⁻¹² on coefficients of order 1, in neighbourhoods narrower than a bandwidth.
    torch.testing.assert_close(local[:, :-1], s_next - s, rtol=0, atol=1e-6)
    torch.testing.assert_close(local[:, -1], r, rtol=0, atol=1e-6)
    # Nadaraya-Watson is off by the offsets of the neighbours.
    weights = (
        NadarayaWatson(data, Bandwidths.from_values(h, [0.5, 0.5])).bind(features).backup(a[None]).weights
    )
    assert float((weights.apply(data.rewards) - r).abs().median()) > 0.05
    velocity = weights.apply(data.next_states[:, 1]) - s_next[:, 1]
    assert float(velocity.abs().median()) > 0.02


def test_an_angle_turns_through_its_seam() -> None:
    rng = np.random.default_rng(0)
    s, a = torch.as_tensor(rng.uniform(-180, 180, (200, 1))), torch.as_tensor(rng.uniform(-1, 1, (200, 1)))
    ahead = (s + 10 * a + 7 + 180) % 360 - 180
    data = Transitions.from_arrays(s, a, torch.zeros(200), ahead, angles={"s0": 360.0})
    metric = GaussianKernel(torch.full((2,), 0.3, dtype=torch.float64))
    queries = LocalLinear(data, metric, num_neighbors=12, ridge=1e-12).bind(
        data.schema.encode(column(179.0, -179.0, 0.0))
    )
    # Degrees, on which the ridges of 10⁻¹⁰ act too.
    assert queries.fit.at(column(0.5, 0.5, 0.5))[:, 0].tolist() == pytest.approx([12.0] * 3, abs=1e-6)


@pytest.mark.parametrize(
    "action",
    [
        0.0,
        0.1,
        1.1,
    ],
)
def test_data_of_one_action_know_no_slope(action: float) -> None:
    # The mean of 37 equal numbers is not always that number.
    s = torch.as_tensor(np.random.default_rng(0).normal(size=(37, 1)))
    a = torch.full((37, 1), action, dtype=torch.float64)
    data = Transitions.from_arrays(s, a, s[:, 0], 0.9 * s + 1)
    model = LocalLinear(data, GaussianKernel(torch.ones(1, dtype=torch.float64)), num_neighbors=10)
    assert float(model.bind(data.next_features).fit.slope.abs().max()) <= 1e-6


def noisy_wave(frequency: float, noise: float) -> LocalLinear:
    rng = np.random.default_rng(0)
    s, a = torch.as_tensor(rng.uniform(-1, 1, (400, 1))), torch.as_tensor(rng.uniform(-1, 1, (400, 1)))
    wave = (frequency * s).sin() + a + noise * torch.as_tensor(rng.normal(size=(400, 1)))
    data = Transitions.from_arrays(s, a, wave[:, 0], s + wave)
    return LocalLinear(data, GaussianKernel(torch.ones(1, dtype=torch.float64)))


def test_the_neighborhood_that_is_chosen_is_wide_for_noise_and_narrow_for_curvature() -> None:
    # Three coefficients; 2 to 14 samples for each are tried.
    assert noisy_wave(0.3, 0.3).num_neighbors >= 27
    assert noisy_wave(20.0, 1e-3).num_neighbors <= 9


def test_rows_are_left_out_with_their_duplicates_when_the_neighborhood_is_chosen() -> None:
    once = noisy_wave(0.3, 0.3)
    twice = LocalLinear(once.data.take(torch.arange(400).repeat(2)), once.metric)
    assert twice.num_neighbors >= 27


# Weights, solutions, edges


@pytest.mark.parametrize("rows", [200, 2_000])
def test_the_weights_stand_where_the_action_leads_whatever_the_action(rows: int) -> None:
    rng = np.random.default_rng(0)
    s, a = torch.as_tensor(rng.uniform(-1, 1, (rows, 1))), torch.as_tensor(rng.uniform(-1, 1, (rows, 1)))
    data = Transitions.from_arrays(s, a, s[:, 0], s + a)
    metric = GaussianKernel(torch.full((1,), 0.3, dtype=torch.float64))
    queries = LocalLinear(data, metric, num_neighbors=12).bind(column(0.0))
    for action in torch.linspace(-0.9, 0.9, 13, dtype=torch.float64):
        stands = queries.backup(action.reshape(1, 1, 1)).weights.apply(data.next_states[:, 0])
        # Nodes are 4/n apart at most where they are dense, and a ridge of 10⁻³ shrinks slopes by .003.
        assert float(stands) == pytest.approx(float(action), abs=0.005 + 10 / rows)


def test_the_weights_stand_where_two_actions_together_lead() -> None:
    rng = np.random.default_rng(0)
    s, a = torch.as_tensor(rng.uniform(-1, 1, (3_000, 2))), torch.as_tensor(rng.uniform(-1, 1, (3_000, 2)))
    data = Transitions.from_arrays(s, a, s[:, 0], s + 0.3 * a)
    metric = GaussianKernel(torch.full((2,), 0.3, dtype=torch.float64))
    queries = LocalLinear(data, metric, num_neighbors=20).bind(torch.zeros(1, 2, dtype=torch.float64))
    for action in ([0.0, 0.9], [0.5, 0.5], [0.9, 0.9], [-0.9, 0.9]):
        weights = queries.backup(torch.tensor([[action]], dtype=torch.float64)).weights
        stands = [float(weights.apply(data.next_states[:, k])) for k in range(2)]
        # 3 000 nodes over an area of 2.6² are .05 apart.
        assert stands == pytest.approx([0.3 * u for u in action], abs=0.05)


@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(1, 30),
    prior_mass=st.sampled_from([0.0, 1e-12, 1e-2, 1.0, 1e3]),
    scales=st.tuples(st.floats(1e-2, 1e2), st.floats(0, 1e4), st.floats(0, 1e3)),
    num_candidates=st.integers(1, 10),
)
@settings(max_examples=100, deadline=None)
def test_weights_are_not_negative_and_rows_sum_to_one_minus_the_unknown_mass(
    seed: int, rows: int, prior_mass: float, scales: tuple[float, float, float], num_candidates: int
) -> None:
    h, state_scale, action_scale = scales
    case = random_case(seed, rows=rows, action_columns=2, angle=seed % 2 == 0, policy="linear")
    d_f = case.data.features.shape[1]
    metric = GaussianKernel(torch.full((d_f,), h, dtype=torch.float64))
    model = LocalLinear(
        case.data, metric, num_neighbors=12, num_candidates=num_candidates, prior_mass=prior_mass
    )
    rng = np.random.default_rng(seed)
    features = case.data.schema.encode(torch.as_tensor(state_scale * rng.normal(size=(5, 2))))
    actions = torch.as_tensor(action_scale * rng.normal(size=(3, 5, 2)))
    queries = model.bind(features)
    backup = queries.backup(actions)

    assert bool((backup.weights.values >= 0).all())
    assert bool(((backup.unknown >= 0) & (backup.unknown <= 1)).all())
    # Sums of up to 50 weights and 3 samples.
    torch.testing.assert_close(backup.weights.sums(), 1 - backup.unknown, rtol=0, atol=1e-14)
    if prior_mass == 0.0:
        assert backup.unknown.tolist() == [0.0] * 5
    x = torch.as_tensor(rng.normal(size=rows))
    assert bool(backup.values(x, -3.0).isfinite().all())
    assert bool(queries.action_gradient(actions, backup, x, -3.0).isfinite().all())


@pytest.mark.parametrize("solver", [DenseLU(), BiCGSTAB()])
@pytest.mark.parametrize("name", CASES)
def test_the_certificate_of_a_solution_converges_and_holds(name: str, solver: DenseLU | BiCGSTAB) -> None:
    equation = Local(CASES[name]).problem().equation(CASES[name].policy, generator(0, "actions"))
    solution = equation.solve(solver, tolerance=1e-8)
    certificate = solution.certificate

    gamma, b = equation.discount, equation.targets
    Lambda = torch.eye(len(b), dtype=torch.float64) - gamma * equation.operator.to_dense()
    q = torch.linalg.solve(Lambda, b)
    assert certificate.converged
    # The dense solve is rounded itself: 10⁻¹⁶ times the condition of Λ, times q of order 10².
    assert float((solution.q - q).abs().max()) <= certificate.q_error + 1e-11
    # A relative residual of 10⁻⁸, amplified by at most 1/(1 − γ) ≤ 34.
    assert certificate.q_error <= 1e-6 * float(b.abs().max()) * len(b) ** 0.5
    assert certificate.duality_gap <= certificate.return_error + certificate.mu_error * float(b.abs().max())
    assert certificate.mass_defect <= 2 * certificate.mu_error


def test_terminal_nodes_have_value_zero_and_what_leads_to_them_alone_is_worth_its_reward() -> None:
    local = Local(CASES["terminals"])
    solution = local.solution()
    terminated = local.case.data.terminated
    assert 0 < int(terminated.sum()) < len(terminated)
    assert solution.q[terminated].tolist() == [0.0] * int(terminated.sum())
    assert bool((solution.q[~terminated] != 0).all())

    ended = replace(local.case, data=replace(local.case.data, terminated=torch.ones(40, dtype=torch.bool)))
    solution = Local(ended).solution()
    assert solution.expected_return == solution.equation.initial_reward
    assert solution.unknown_mass == 0.0


def away(distance: float) -> torch.Tensor:
    return distance * torch.tensor([[1.0, 1.0], [-1.0, 1.0]], dtype=torch.float64)


def drift(prior_mass: float) -> Local:
    """Return s′ = .9 s + .1 a exactly, so that far states lead far away."""
    rng = np.random.default_rng(0)
    s, a = torch.as_tensor(rng.normal(size=(60, 2))), torch.as_tensor(rng.normal(size=(60, 1)))
    data = Transitions.from_arrays(s, a, s[:, 0] - 3, 0.9 * s + 0.1 * a, initial_states=s[:1])
    policy = LinearPolicy([[0.1, 0.2]])
    case = Case(data, Bandwidths.from_values([0.5, 0.5], [1.0]), policy, prior_mass=prior_mass)
    return Local(case, ridge=1e-12)


@pytest.mark.parametrize("distance", [1e2, 1e6])
def test_far_from_all_nodes_prior_mass_leaves_the_reward_and_the_unknown_value(distance: float) -> None:
    local = drift(prior_mass=1e-3)
    solution, features = local.solution(), away(distance)
    V, reward = solution.value(features), solution._backup_at(features, 0).reward

    # exp(−½(100/.5)²) against a mass of 10⁻³ is no number.
    assert solution.unknown_at(features).tolist() == pytest.approx([1.0, 1.0], abs=1e-12)
    # Rounding of a reward of order the distance.
    v = solution.equation.problem.unknown_value
    torch.testing.assert_close(V, reward + v, rtol=1e-12, atol=1e-9)
    assert v == pytest.approx(0.9 * float(local.case.data.rewards.min()) / 0.1)
    assert float(solution.visitation(features).min()) > 0


@pytest.mark.parametrize("distance", [1e2, 1e6])
@pytest.mark.parametrize("prior_mass", [0.0, 1e-3])
def test_every_answer_far_from_all_data_is_finite(distance: float, prior_mass: float) -> None:
    local = drift(prior_mass)
    solution, features = local.solution(), away(distance)
    far_start = replace(local.case, data=replace(local.case.data, initial_states=features))
    from_far = Local(far_start, ridge=1e-12).solution()
    for tensor in (
        solution.value(features),
        solution.action_value(features, column(1e3, -1e3)),
        solution.unknown_at(features),
        solution.support(features),
        solution.visitation(features),
        flat(solution_gradient(from_far)),
        torch.tensor([from_far.expected_return, from_far.unknown_mass]),
    ):
        assert bool(tensor.isfinite().all())


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("prior_mass", [0.0, 1e-3])
def test_a_handful_of_samples_gives_finite_answers(rows: int, prior_mass: float) -> None:
    case = random_case(14, prior_mass=prior_mass, policy="linear")
    local = Local(replace(case, data=case.data.take(torch.arange(rows))))
    solution = local.solution()
    assert math.isfinite(solution.expected_return)
    assert bool(flat(solution_gradient(solution)).isfinite().all())
    assert solution.certificate.converged


@pytest.mark.parametrize("prior_mass", [-1.0, math.nan, math.inf])
def test_a_prior_mass_that_is_no_mass_is_refused(prior_mass: float) -> None:
    with pytest.raises(ArgumentError, match=r"prior_mass is .*; give 0 \(the paper\) or a positive number"):
        four_corners(prior_mass=prior_mass)


# Invariances


INVARIANT = {
    "random": Local(random_case(11, angle=True, terminals=True, starts=3)),
    "prior mass": Local(random_case(12, rows=60, state_columns=3, angle=True, prior_mass=0.1)),
    "two actions": Local(random_case(15, action_columns=2, angle=True, policy="gaussian")),
}
CHANGES = [
    "row order",
    "reward times 7",
    "angle turned",
    "angle in degrees",
    "states shifted",
    "states in other units",
    "actions shifted",
    "actions in other units",
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", INVARIANT)
def test_return_values_and_gradient_do_not_depend_on_how_the_data_are_written(name: str, change: str) -> None:
    local = INVARIANT[name]
    if change == "row order" and local.case.policy.num_action_samples > 1:
        pytest.skip("noise is drawn row by row, so it does not move along with the rows")
    changed, rows, factor = problem_cases._changes(local.case)[change]
    difference = problem_cases._difference(
        local.solution(), replace(local, case=changed).solution(), rows, factor
    )
    # Rounding of coordinates of order 10, over bandwidths of .2, times the condition of the fits and of Λ.
    assert difference <= 1e-8


def test_the_order_of_rows_does_not_matter_where_many_samples_are_equally_near() -> None:
    local = Local(pendulum_case())
    changed, rows, factor = problem_cases._changes(local.case)["row order"]
    difference = problem_cases._difference(
        local.solution(), replace(local, case=changed).solution(), rows, factor
    )
    assert difference <= 1e-8

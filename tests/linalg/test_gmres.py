from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from nopg import TrainingConfig
from nopg._seeding import generator
from nopg.bellman import NOPG, BellmanEquation, PaperProblem
from nopg.data import Transitions
from nopg.envs import Pendulum, collect_uniform
from nopg.kernels import Bandwidths
from nopg.linalg import GMRES, Auto, BiCGSTAB, DenseLU, FixedPoint, Resolvent, Solution, Solver
from nopg.linalg._hierarchy import CellHierarchy
from nopg.models import PaperModel
from nopg.models._candidates import CandidateSearch
from nopg.models._row_order import next_state_order
from nopg.policies import GaussianMLPPolicy, MLPPolicy, Policy
from nopg.training._ascent import ascend


def plant(columns: int, rows: int = 1_500) -> Transitions:
    """Return transitions of a stable linear plant of so many state columns, some of them terminal."""
    rng = np.random.default_rng(columns)
    A = np.eye(columns) + rng.normal(size=(columns, columns)) * 0.1 / columns
    s, a = rng.uniform(-1, 1, (rows, columns)), rng.uniform(-1, 1, (rows, 1))
    ends = np.abs(s[:, 0]) > 0.95
    return Transitions.from_arrays(s, a, -np.square(s).sum(axis=1), s @ A.T + 0.1 * a, terminated=ends)


def equation(
    columns: int, *, prior_mass: float = 0.0, gaussian: bool = False, discount: float = 0.99
) -> BellmanEquation:
    data = plant(columns)
    h = Bandwidths.from_values([0.15 * columns**0.5] * columns, [0.5])
    rows = next_state_order(data, h.state_kernel)
    model = PaperModel(data.take(rows), h, prior_mass=prior_mass, search=CandidateSearch(num_candidates=24))
    problem = PaperProblem.build(model, torch.zeros(1, columns, dtype=torch.float64), discount=discount)
    build = GaussianMLPPolicy.from_data if gaussian else MLPPolicy.from_data
    policy: Policy = build(data.features, data.actions, rng=generator(0, "policy"))
    return problem.equation(policy, generator(0, "actions"))


@pytest.mark.parametrize("columns", [1, 3, 8, 17])
@pytest.mark.parametrize("prior_mass", [0.0, 1e-3])
@pytest.mark.parametrize("gaussian", [False, True])
def test_it_solves_what_lu_solves(columns: int, prior_mass: float, gaussian: bool) -> None:
    problem = equation(columns, prior_mass=prior_mass, gaussian=gaussian)
    exact = problem.solve(DenseLU())
    found = problem.solve(GMRES(), tolerance=1e-10)
    assert found.certificate.converged
    for ours, theirs, bound in (
        (found.q, exact.q, found.q_solution.error_bound),
        (found.mu, exact.mu, found.mu_solution.error_bound),
    ):
        assert float((ours - theirs).abs().max()) <= bound + 1e-9 * float(theirs.abs().max())


def test_the_preconditioner_is_worth_it_on_a_plant_of_few_dimensions() -> None:
    # On the pendulum a step of the model is short, which is what makes the plain method slow.
    data = collect_uniform(Pendulum(), 4_000, seed=0)
    h = Bandwidths.from_values([0.1, 0.1, 0.4], [0.6])
    rows = next_state_order(data, h.state_kernel)
    model = PaperModel(data.take(rows), h, search=CandidateSearch(num_candidates=24))
    problem = PaperProblem.build(model, data.schema.encode(data.starts), discount=0.99)
    policy = MLPPolicy.from_data(data.features, data.actions, rng=generator(0, "policy"))
    system = problem.equation(policy, generator(0, "actions"))
    ours, plain = (system.solve(solver, tolerance=1e-6) for solver in (GMRES(), BiCGSTAB()))
    for with_cells, without in ((ours.q_solution, plain.q_solution), (ours.mu_solution, plain.mu_solution)):
        assert with_cells.num_steps < without.num_steps / 3


@pytest.mark.parametrize("rows", range(1, 41))
def test_it_solves_what_lu_solves_on_so_few_rows_that_one_cell_holds_them(rows: int) -> None:
    data = plant(2, rows)
    model = PaperModel(data, Bandwidths.from_values([0.3, 0.3], [0.5]))
    problem = PaperProblem.build(model, torch.zeros(1, 2, dtype=torch.float64), discount=0.95)
    corners = torch.tensor([[-1.0, -1.0], [1.0, 1.0]], dtype=torch.float64)
    policy = MLPPolicy.from_data(corners, corners[:, :1], rng=generator(0, "policy"))
    system = problem.equation(policy, generator(0, "actions"))
    found, exact = system.solve(GMRES(), tolerance=1e-10), system.solve(DenseLU())
    assert found.certificate.converged
    assert found.q_solution.num_steps > 0
    for ours, theirs in (
        (found.q_solution, exact.q_solution),
        (found.mu_solution, exact.mu_solution),
    ):
        apart = float((ours.value - theirs.value).abs().max())
        assert apart <= ours.error_bound + theirs.error_bound


SCALES = [1e-318, 1e-310, 1e-300, 1e-160, 1e160, 1e300]


def scaled_equation(scale: float) -> BellmanEquation:
    data = plant(2, 450)
    data = replace(data, rewards=scale * data.rewards)  # readers refuse the largest; a solver takes them
    model = PaperModel(data, Bandwidths.from_values([0.2, 0.2], [0.5]))
    problem = PaperProblem.build(model, torch.zeros(1, 2, dtype=torch.float64), discount=0.95)
    policy = MLPPolicy.from_data(data.features, data.actions, rng=generator(0, "policy"))
    return problem.equation(policy, generator(0, "actions"))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("solver", [Auto, GMRES, BiCGSTAB, FixedPoint, DenseLU])
def test_values_scale_with_the_rewards_down_to_denormal_numbers(scale: float, solver: type[Solver]) -> None:
    expected = scaled_equation(1.0).solve(solver(), tolerance=1e-6)
    found = scaled_equation(scale).solve(solver(), tolerance=1e-6)
    # Steps are counted at another scale, where rewards are rounded to multiples of 2⁻¹⁰⁷⁴.
    assert found.q_solution.num_steps == pytest.approx(expected.q_solution.num_steps, abs=1)
    assert found.q_solution.converged
    rounding = 2e-3 if scale < 1e-315 else 1e-10
    # Both are within 1e-6/(1 − γ) of the solution.
    assert (found.q / scale).numpy() == pytest.approx(expected.q.numpy(), abs=4e-5, rel=rounding)


def test_a_guess_that_is_many_powers_of_ten_too_large_is_not_used() -> None:
    equation = scaled_equation(1e-310)
    system, guess = Resolvent(equation.operator, 0.95), torch.ones(450, dtype=torch.float64)
    for solver in (GMRES(), BiCGSTAB(), FixedPoint()):
        with_guess = solver.solve(system, equation.targets, tolerance=1e-6, guess=guess)
        assert torch.equal(with_guess.value, solver.solve(system, equation.targets, tolerance=1e-6).value)


def test_one_node_and_many_copies_of_it_are_solved_too() -> None:
    for rows in (1, 40):
        data = Transitions.from_arrays([[0.5]] * rows, [[0.1]] * rows, [1.0] * rows, [[0.5]] * rows)
        model = PaperModel(data, Bandwidths.from_values([1.0], [1.0]))
        problem = PaperProblem.build(model, torch.tensor([[0.5]], dtype=torch.float64), discount=0.9)
        policy = MLPPolicy.from_data(
            torch.tensor([[0.0], [1.0]]).double(), torch.tensor([[0.0], [1.0]]).double(), rng=generator(0)
        )
        found = problem.equation(policy, generator(0)).solve(GMRES(), tolerance=1e-12)
        assert found.q.tolist() == pytest.approx([10.0] * rows)


def test_an_operator_without_cells_is_left_to_bicgstab() -> None:
    full = equation(3)
    bare = full.problem.model.operator(full.node_backup)
    bare._hierarchy = None
    system = Resolvent(bare, 0.9)
    found = GMRES().solve(system, full.targets, tolerance=1e-8)
    plain = BiCGSTAB().solve(system, full.targets, tolerance=1e-8)
    assert torch.equal(found.value, plain.value)


def test_what_was_kept_of_another_problem_is_not_used() -> None:
    solver, first, second = GMRES(), equation(1), equation(3)
    first.solve(solver, tolerance=1e-8)
    again = second.solve(solver, tolerance=1e-8)
    assert torch.equal(again.q, second.solve(GMRES(), tolerance=1e-8).q)


def test_a_preconditioner_is_kept_over_updates_and_built_again_when_it_has_aged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = collect_uniform(Pendulum(), 2_000, seed=0)
    h = Bandwidths.from_values([0.15, 0.15, 0.6], [0.6])
    model = PaperModel(data, h, search=CandidateSearch(num_candidates=24))
    problem = PaperProblem.build(model, data.schema.encode(data.starts), discount=0.97)
    policy = MLPPolicy.from_data(data.features, data.actions, rng=generator(0, "policy"))
    built, approximate = [], CellHierarchy.approximate

    def counted(*arguments: Any) -> Any:
        built.append(1)
        return approximate(*arguments)

    monkeypatch.setattr(CellHierarchy, "approximate", counted)
    ascend(NOPG(problem, solver=GMRES()), policy, TrainingConfig(updates=40, learning_rate=3e-2, seed=0))
    assert 2 <= len(built) < 20


def test_auto_takes_the_solver_of_less_work_and_stays_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    solved = []

    def counted(solver: type[Solver]) -> Callable[..., tuple[Solution, Solution]]:
        original = solver.solve_both

        def solve_both(self: Solver, *systems: Any, **settings: Any) -> tuple[Solution, Solution]:
            solved.append(solver.__name__)
            return original(self, *systems, **settings)

        return solve_both

    for solver in (GMRES, BiCGSTAB):
        monkeypatch.setattr(solver, "solve_both", counted(solver))
    auto, system = Auto(), equation(1)
    system.solve(auto, tolerance=1e-6)
    assert solved == ["GMRES", "BiCGSTAB"]
    system.solve(auto, tolerance=1e-6)
    assert len(solved) == 3
    auto.reset()
    system.solve(auto, tolerance=1e-6)
    assert len(solved) == 5

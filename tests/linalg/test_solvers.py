from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import bicgstab

from nopg.errors import ArgumentError, SolverError
from nopg.linalg import Auto, BiCGSTAB, DenseLU, FixedPoint, Resolvent, Solver
from nopg.linalg._choice import solver_by_name
from nopg.linalg._operator import TransitionOperator
from nopg.linalg._rows import RowPattern, SparseRows
from reference.problem_cases import certificate_cases, pendulum_case, random_system

SOLVERS: list[Solver] = [DenseLU(), BiCGSTAB(), FixedPoint(), Auto(), Auto(dense_up_to=0)]


def vector(*entries: float) -> torch.Tensor:
    return torch.tensor(entries, dtype=torch.float64)


def operator(rows: list[list[float]]) -> TransitionOperator:
    values = torch.tensor(rows, dtype=torch.float64)
    indices = torch.arange(len(rows), dtype=torch.int32).expand(len(rows), -1).contiguous()
    return TransitionOperator(
        SparseRows(RowPattern(indices, len(rows)), values), torch.ones(len(rows)).double()
    )


def ring(size: int) -> TransitionOperator:
    """Return the walk i → i + 1 → … around a ring."""
    return operator(torch.eye(size).roll(1, dims=1).tolist())


CHAIN = operator([[0.0, 1.0], [0.0, 0.5]])


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_a_chain_of_two_by_hand(solver: Solver) -> None:
    # γ = ½: x₂ = 3 + ¼x₂ = 4, x₁ = 1 + ½x₂ = 3; y₁ = 1, y₂ = 2 + ½y₁ + ¼y₂ = 10/3.
    x, y = solver.solve_both(Resolvent(CHAIN, 0.5), vector(1.0, 3.0), vector(1.0, 2.0), tolerance=1e-13)

    # The tolerance over 1 − γ.
    assert x.value.tolist() == pytest.approx([3.0, 4.0], abs=1e-12)
    assert y.value.tolist() == pytest.approx([1.0, 10 / 3], abs=1e-12)
    assert x.converged
    assert y.converged


def test_a_residual_and_its_bound_by_hand() -> None:
    system = Resolvent(CHAIN, 0.5)
    wrong = system.certify(vector(3.5, 4.0), vector(1.0, 3.0), num_steps=7, tolerance=1e-3)

    # b − Λx = (1 − 3.5 + 2, 3 − 4 + 1); the largest row sum is 1, so ‖Λ⁻¹‖ ≤ 2.
    assert wrong.residual == pytest.approx(0.5)
    assert wrong.error_bound == pytest.approx(1.0)
    assert wrong.num_steps == 7
    assert not wrong.converged

    of_transpose = system.T.certify(vector(1.5, 3.0), vector(1.0, 2.0), num_steps=0, tolerance=1e-3)
    # ε₀ − Λᵀy = (1 − 1.5, 2 − 3 + .75 + .75), in the sum norm.
    assert of_transpose.residual == pytest.approx(1.0)
    assert of_transpose.error_bound == pytest.approx(2.0)


def test_rows_that_lose_mass_sharpen_the_bound() -> None:
    # ‖Λ⁻¹‖ ≤ 1/(1 − .9 · .5).
    assert Resolvent(operator([[0.5]]), 0.9).inverse_bound == pytest.approx(1 / 0.55)


@pytest.mark.parametrize("count", [200, pytest.param(1_000, marks=pytest.mark.slow)])
def test_no_certificate_is_violated_in_so_many_systems(count: int) -> None:
    counts = certificate_cases(count, seed=0)
    assert counts == {
        "cases": count,
        "certificates": 6 * count,
        "q error": 0,
        "mu error": 0,
        "duality gap": 0,
        "mass balance": 0,
    }


def exact_solution(system: Resolvent, b: torch.Tensor) -> list[Fraction]:
    """Return x of Λx = b by Gauss-Jordan elimination in rational numbers."""
    dense = system.operator.to_dense()
    P, gamma, n = (dense.T if system.transposed else dense).tolist(), Fraction(system.discount), len(b)
    rows = [
        [*((i == j) - gamma * Fraction(P[i][j]) for j in range(n)), Fraction(float(b[i]))] for i in range(n)
    ]
    for k in range(n):  # Λ is an M-matrix: no pivot is 0
        rows[k] = [entry / rows[k][k] for entry in rows[k]]
        for i in range(n):
            if i != k:
                rows[i] = [a - rows[i][k] * c for a, c in zip(rows[i], rows[k], strict=True)]
    return [row[-1] for row in rows]


@given(
    seed=st.integers(0, 10**6),
    scale=st.sampled_from([1.0, 1e-290, 1e-308, 1e-316, 1e-320, 5e-324]),
    discount=st.sampled_from([0.5, 0.9, 0.98]),
    transposed=st.booleans(),
    solver=st.sampled_from([DenseLU(), BiCGSTAB(), FixedPoint()]),
)
@settings(max_examples=300, deadline=None)
def test_no_bound_is_exceeded_in_rational_arithmetic_also_at_denormal_numbers(
    seed: int, scale: float, discount: float, transposed: bool, solver: Solver
) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6))
    P = rng.random((n, n))
    system = Resolvent(operator((P / P.sum(axis=1, keepdims=True)).tolist()), discount, transposed)
    b = torch.tensor(rng.normal(size=n)) * scale
    solution = solver.solve(system, b, tolerance=1e-9)

    errors = [
        abs(Fraction(x) - y) for x, y in zip(solution.value.tolist(), exact_solution(system, b), strict=True)
    ]
    assert (sum(errors) if transposed else max(errors)) <= Fraction(solution.error_bound)
    assert solution.converged


@pytest.mark.parametrize("transposed", [False, True])
def test_a_bound_counts_one_denormal_unit_per_operation(transposed: bool) -> None:
    # The residual of x = 2⁻¹⁰⁷⁴ on n states that stay is (1 − γ)x, rounded to 0, while x* = 0.
    n, unit = 500, 5e-324
    stays = SparseRows(RowPattern(torch.arange(n).int()[:, None], n), torch.ones(n, 1).double())
    system = Resolvent(TransitionOperator(stays, torch.ones(n).double()), 0.9, transposed)
    wrong = system.certify(
        torch.full((n,), unit).double(), torch.zeros(n).double(), num_steps=0, tolerance=1e-9
    )
    assert wrong.residual == 0.0
    error = Fraction(unit) * (n if transposed else 1)
    # 1/(1 − γ) = 10, and 10 units for each entry.
    assert error <= Fraction(wrong.error_bound) <= 101 * error


@given(seed=st.integers(0, 10**6), transposed=st.booleans(), tolerance=st.floats(1e-12, 1e-2))
@settings(max_examples=200, deadline=None)
def test_a_bound_is_larger_than_the_error_by_no_more_than_the_condition_number(
    seed: int, transposed: bool, tolerance: float
) -> None:
    drawn = random_system(np.random.default_rng(seed))
    P, gamma = drawn.operator.to_dense(), drawn.discount
    system = Resolvent(drawn.operator, gamma, transposed)
    b = drawn.eps_0 if transposed else drawn.b
    solution = BiCGSTAB().solve(system, b, tolerance=tolerance)

    Lambda = torch.eye(len(P), dtype=torch.float64) - gamma * P
    exact = torch.linalg.solve(Lambda.T if transposed else Lambda, b)
    error, size = system.norm(solution.value - exact), system.norm(b) + 2 * system.norm(exact)
    inverse = 1 / (1 - gamma * float(P.sum(dim=1).max()))
    # ‖b − Λx‖ ≤ (1 + γ)‖x − x*‖, and rounding: 2(n + 8)u of the terms, there and in `exact`.
    assert solution.error_bound <= 1.01 * inverse * (2 * error + 1e-13 * inverse * size)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("solver", [BiCGSTAB(), FixedPoint()], ids=repr)
@pytest.mark.parametrize("tolerance", [1e-2, 1e-6, 1e-10])
def test_an_iteration_stops_at_its_tolerance(solver: Solver, transposed: bool, tolerance: float) -> None:
    equation = pendulum_case().problem().equation(pendulum_case().policy, torch.Generator())
    system = Resolvent(equation.operator, equation.discount, transposed)
    b = equation.initial_responsibilities if transposed else equation.targets
    solution = solver.solve(system, b, tolerance=tolerance)

    assert solution.converged
    assert solution.residual <= tolerance * system.norm(b)
    assert solution.residual == pytest.approx(system.norm(b - system.apply(solution.value)))


def test_bicgstab_needs_a_tenth_of_the_products_of_the_fixed_point() -> None:
    equation = pendulum_case().problem().equation(pendulum_case().policy, torch.Generator())
    system = Resolvent(equation.operator, 0.99)
    krylov = BiCGSTAB().solve(system, equation.targets, tolerance=1e-8)
    assert krylov.num_steps < FixedPoint().solve(system, equation.targets, tolerance=1e-8).num_steps / 10


@pytest.mark.parametrize("size", [4, 7, 50])
@pytest.mark.parametrize("gamma", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("transposed", [False, True])
def test_bicgstab_survives_the_breakdown_on_a_ring_from_one_node(
    size: int, gamma: float, transposed: bool
) -> None:
    # From b = e₁ the first residual is a combination of e₂ and e₃: orthogonal to the shadow, ρ = 0.
    system = Resolvent(ring(size), gamma, transposed)
    one_hot = torch.eye(size, dtype=torch.float64)[0]
    dense = np.eye(size) - gamma * system.operator.to_dense().numpy()
    _, unguarded = bicgstab(dense.T if transposed else dense, one_hot.numpy(), rtol=1e-10, atol=0.0)
    assert unguarded == -10  # scipy's word for ρ = 0

    solution = BiCGSTAB().solve(system, one_hot, tolerance=1e-10)

    # Around the ring and back: xᵢ = γ^(steps from i to 1) / (1 − γⁿ).
    steps = torch.arange(size) if transposed else (-torch.arange(size)) % size
    assert solution.converged
    torch.testing.assert_close(
        solution.value, gamma ** steps.double() / (1 - gamma**size), rtol=0, atol=1e-10 / (1 - gamma)
    )


@pytest.mark.parametrize("max_steps", [0, 1, 2, 3])
def test_bicgstab_without_steps_left_hands_over_to_the_fixed_point(max_steps: int) -> None:
    equation = pendulum_case().problem().equation(pendulum_case().policy, torch.Generator())
    system, b = Resolvent(equation.operator, 0.9), equation.targets
    solution = BiCGSTAB(max_steps=max_steps).solve(system, b, tolerance=1e-8)
    alone = BiCGSTAB().solve(system, b, tolerance=1e-8)

    assert solution.converged
    assert solution.num_steps > alone.num_steps
    assert system.norm(solution.value - alone.value) <= solution.error_bound + alone.error_bound


def test_a_fixed_point_that_gives_up_says_so_and_still_bounds_its_error() -> None:
    system, b = Resolvent(CHAIN, 0.9), vector(1.0, 3.0)
    solution = FixedPoint(max_steps=3).solve(system, b, tolerance=1e-10)

    exact = DenseLU().solve(system, b, tolerance=1e-10).value
    assert not solution.converged
    assert solution.num_steps == 3
    # b, then three times b + γPx: the error shrinks by γ each time.
    assert 1e-3 < system.norm(solution.value - exact) <= solution.error_bound


@pytest.mark.parametrize("solver", [BiCGSTAB(), FixedPoint()], ids=repr)
def test_a_start_at_the_solution_needs_one_product(solver: Solver) -> None:
    system, b = Resolvent(CHAIN, 0.5), vector(1.0, 3.0)
    assert solver.solve(system, b, tolerance=1e-12, guess=vector(3.0, 4.0)).num_steps == 1
    assert solver.solve(system, b, tolerance=1e-12).num_steps > 1


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_the_guess_is_left_as_it_was(solver: Solver) -> None:
    guess = vector(1.0, 1.0)
    solver.solve(Resolvent(CHAIN, 0.5), vector(1.0, 3.0), tolerance=1e-12, guess=guess)
    assert guess.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
@pytest.mark.parametrize("guess", [None, vector(1.0, -1.0)])
def test_to_a_right_hand_side_of_zero_the_answer_is_zero(solver: Solver, guess: torch.Tensor | None) -> None:
    solution = solver.solve(Resolvent(CHAIN, 0.9), vector(0.0, 0.0), tolerance=1e-8, guess=guess)
    assert solution.value.tolist() == pytest.approx([0.0, 0.0], abs=1e-12)  # BiCGSTAB shrinks its guess
    assert solution.converged


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_without_discount_the_answer_is_the_right_hand_side(solver: Solver) -> None:
    b = vector(1.0, 3.0)
    solution = solver.solve(Resolvent(CHAIN, 0.0), b, tolerance=1e-12)
    assert solution.value.tolist() == [1.0, 3.0]
    assert solution.converged


@pytest.mark.parametrize("name", ["cg", "CG", "conjugate-gradient", "conjugate_gradient"])
def test_conjugate_gradient_is_refused_because_the_matrix_is_not_symmetric(name: str) -> None:
    with pytest.raises(
        SolverError, match=r"Λ = I − γP is not symmetric.*Use 'auto', 'gmres', 'bicgstab', 'lu'"
    ):
        solver_by_name(name)


def test_an_unknown_solver_is_refused_with_the_names_of_the_known() -> None:
    with pytest.raises(ArgumentError, match=r"no solver 'sor'; choose one of \['auto', 'bicgstab', 'fixed-"):
        solver_by_name("sor")


@pytest.mark.parametrize(
    ("name", "solver"),
    [("auto", Auto()), ("bicgstab", BiCGSTAB()), ("fixed-point", FixedPoint()), ("lu", DenseLU())],
)
def test_a_solver_answers_to_its_name(name: str, solver: Solver) -> None:
    assert solver_by_name(name) == solver


def test_dense_lu_refuses_more_rows_than_its_limit_and_says_what_to_use() -> None:
    with pytest.raises(SolverError, match=r"for n = 5; its limit is 4\. Use solver='bicgstab' or 'auto'"):
        DenseLU(limit=4).solve(Resolvent(ring(5), 0.9), torch.ones(5).double(), tolerance=1e-8)


def test_auto_factorises_small_systems_and_iterates_on_large_ones() -> None:
    system, b = Resolvent(ring(5), 0.9), torch.arange(5).double()
    assert Auto(dense_up_to=5).solve(system, b, tolerance=1e-8).num_steps == 0
    assert Auto(dense_up_to=4).solve(system, b, tolerance=1e-8).num_steps > 0

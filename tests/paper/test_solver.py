from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from nopg._typing import FloatArray
from nopg.errors import SolverError
from nopg.paper import _solver as solver_module
from nopg.paper._solver import Resolvent, Solver


def rational(x: FloatArray) -> Any:
    """Return an array of exact fractions."""
    return np.array([Fraction(value) for value in np.ravel(x).tolist()], dtype=object).reshape(np.shape(x))


def exact_solution(Lambda: Any, b: FloatArray) -> Any:
    """Solve Λx = b by iterative refinement with residuals free of rounding: 30 digits or more."""
    right, x = rational(b), rational(np.zeros(len(b)))
    size = max(abs(right).max(), Fraction(1, 10**300))
    for _ in range(4):  # each round gains at least 12 digits, less log₁₀ of 2/(1 − γ)
        residual = ((right - Lambda @ x) / size).astype(float)
        x = x + size * rational(np.linalg.solve(Lambda.astype(float), residual))
    return x


def random_system(rng: np.random.Generator, n: int) -> tuple[sparse.csr_array, float]:
    """Draw P whose rows sum to 1, to less and to 0, and γ in [0, .999]."""
    mass = rng.choice([0.0, 1.0, 1.0, rng.random()], (n, 1))
    P = mass * rng.dirichlet(np.full(n, rng.choice([0.1, 1.0])), n)
    P[rng.random((n, n)) < 0.3] = 0.0
    return sparse.csr_array(P), float(rng.choice([0.0, rng.random(), 0.999, 1 - 10.0 ** rng.uniform(-3, 0)]))


def test_certificates_hold_in_exact_arithmetic_whatever_the_solver_did(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    for k in range(300):
        monkeypatch.setattr(solver_module, "_DENSE_UP_TO", 1_000 if k % 2 else 0)
        n = int(rng.integers(2, 9))
        P, gamma = random_system(rng, n)
        b, eps_0 = rng.normal(size=n) * 10.0 ** rng.uniform(-200, 200), rng.dirichlet(np.ones(n))
        Lambda = rational(np.eye(n)) - Fraction(gamma) * rational(P.toarray())
        q, mu = exact_solution(Lambda, b), exact_solution(Lambda.T, eps_0)
        system, tolerance = Resolvent(P, gamma), 10.0 ** rng.uniform(-8, -2)
        of_q, of_mu = Solver().solve_both(system, b, eps_0, tolerance=tolerance)
        assert abs(rational(of_q.value) - q).max() <= Fraction(of_q.error_bound)
        assert abs(rational(of_mu.value) - mu).sum() <= Fraction(of_mu.error_bound)
        # A certificate holds for any numbers, not only for those of a solver.
        wrong = of_q.value + rng.normal(size=n) * float(abs(b).max())
        found = system.certify(wrong, b, num_steps=0, tolerance=tolerance)
        assert abs(rational(wrong) - q).max() <= Fraction(found.error_bound)


@pytest.mark.parametrize("n", [200, 1_500])
def test_both_systems_reach_their_tolerance(n: int) -> None:
    rng = np.random.default_rng(n)
    P = sparse.random_array((n, n), density=20 / n, rng=rng, format="csr")
    P = sparse.csr_array(sparse.diags_array(1 / np.maximum(P.sum(axis=1), 1e-9)) @ P)
    b, c, system = rng.normal(size=n), rng.dirichlet(np.ones(n)), Resolvent(P, 0.99)
    q, mu = Solver().solve_both(system, b, c, tolerance=1e-9)
    assert q.converged
    assert mu.converged
    assert np.abs(b - system.apply(q.value)).max() <= 2e-9 * np.abs(b).max()
    assert np.abs(c - system.T.apply(mu.value)).sum() <= 2e-9
    assert abs(c @ q.value - mu.value @ b) <= 1e-6


def test_a_solver_keeps_its_factors_and_begins_at_a_guess() -> None:
    rng = np.random.default_rng(1)
    n = 1_200
    P = sparse.csr_array(sparse.random_array((n, n), density=0.02, rng=rng, format="csr"))
    P = sparse.csr_array(sparse.diags_array(1 / np.maximum(P.sum(axis=1), 1e-9)) @ P)
    b, c, solver = rng.normal(size=n), rng.dirichlet(np.ones(n)), Solver()
    system = Resolvent(P, 0.95)
    first = solver.solve_both(system, b, c)
    again = solver.solve_both(system, b, c, guesses=(first[0].value, first[1].value))
    assert sum(one.num_steps for one in again) < sum(one.num_steps for one in first)
    zero, _ = solver.solve_both(system, np.zeros(n), c)
    assert not zero.value.any()


def test_a_system_that_is_not_solved_says_so_and_names_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver_module, "_DENSE_UP_TO", 0)
    for name, value in (("_MOST_STEPS", 1), ("_RESTART", 1), ("_DROPPED", 2.0)):
        monkeypatch.setattr(solver_module, name, value)
    rng, n = np.random.default_rng(2), 50
    P = sparse.csr_array(rng.dirichlet(np.full(n, 0.1), n))
    with pytest.raises(SolverError, match=r"the solve for q stopped at .* model='local' needs no such solve"):
        Solver().solve_both(Resolvent(P, 0.999), rng.normal(size=n), np.full(n, 1 / n))

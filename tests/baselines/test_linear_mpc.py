"""Linear MPC: LQR where no bound is active, the quadratic program where one is."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from nopg._seeding import generator
from nopg.baselines import LinearMPC
from nopg.baselines._regulator import LinearQuadraticFit
from nopg.data import Transitions
from nopg.errors import ArgumentError

GAMMA = 0.95


def double_integrator(rows: int = 300, limit: float = 1.0) -> Transitions:
    """Return position and speed under random forces, with a cost on both and on the force."""
    rng = generator(0, "log")
    s = 4 * torch.rand(rows, 2, generator=rng, dtype=torch.float64) - 2
    a = limit * (2 * torch.rand(rows, 1, generator=rng, dtype=torch.float64) - 1)
    after = s @ torch.tensor([[1.0, 0.1], [0.0, 1.0]], dtype=torch.float64).T + torch.cat(
        [0.005 * a, 0.1 * a], dim=1
    )
    reward = -s.square() @ torch.tensor([1.0, 0.1], dtype=torch.float64) - 0.1 * a.square()[:, 0]
    return Transitions.from_arrays(s, a, reward, after, bounds={"a0": (-limit, limit)})


def test_where_no_bound_is_active_the_action_is_that_of_the_regulator() -> None:
    data = double_integrator()
    fit = LinearQuadraticFit.of(data)
    assert fit is not None
    regulator = fit.regulator(GAMMA)
    assert regulator is not None
    near = torch.tensor([[0.02, -0.01], [-0.05, 0.03], [0.0, 0.0]], dtype=torch.float64)
    for horizon in (1, 5, 20):
        planned = LinearMPC(data, GAMMA, horizon=horizon)(near)
        assert torch.allclose(planned, regulator(near), atol=1e-7)


def test_plans_at_the_bounds_minimise_the_cost_of_the_fit() -> None:
    data, horizon = double_integrator(limit=0.3), 8
    mpc, fit = LinearMPC(data, GAMMA, horizon=horizon), LinearQuadraticFit.of(data)
    assert fit is not None
    solved = fit.solve(GAMMA)
    assert solved is not None

    def cost(plan: np.ndarray, state: np.ndarray) -> float:
        """Return what a plan costs, by simulation of the fit."""
        x = np.append(1.0, (state - fit.center[:2]) / fit.unit[:2])
        total = 0.0
        for t, action in enumerate((plan - fit.center[2]) / fit.unit[2]):
            z = np.append(x, action)
            total += GAMMA**t * float(z @ fit.cost @ z)
            x = fit.F @ x + fit.B[:, 0] * action
        return total + GAMMA**horizon * float(x @ solved[1] @ x)

    states = torch.tensor([[1.5, 1.0], [-1.0, 0.2], [0.4, -0.8]], dtype=torch.float64)
    for state, plan in zip(states.numpy(), mpc.plan(states)[..., 0], strict=True):
        assert np.abs(plan).max() == pytest.approx(0.3)  # a bound is active
        known = minimize(
            cost, np.zeros(horizon), args=(state,), method="L-BFGS-B", bounds=[(-0.3, 0.3)] * horizon
        )
        assert cost(plan, state) <= known.fun * (1 + 1e-9)
        assert np.abs(plan - known.x).max() < 1e-3


def test_a_bound_that_comes_later_changes_the_first_action() -> None:
    data = double_integrator(limit=0.3)
    fit = LinearQuadraticFit.of(data)
    assert fit is not None
    regulator, mpc = fit.regulator(GAMMA), LinearMPC(data, GAMMA, horizon=30)
    assert regulator is not None
    fast = torch.tensor([[1.0, -1.1]], dtype=torch.float64)  # it will have to brake harder than it can
    assert 0 < float(regulator(fast)) < 0.2
    assert float(mpc(fast)) > 0.25


def test_a_horizon_of_no_step_is_refused() -> None:
    with pytest.raises(ArgumentError, match="at least 1"):
        LinearMPC(double_integrator(), GAMMA, horizon=0)

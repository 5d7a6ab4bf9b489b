"""Exact returns and gradients of the regulator against simulation, differences and Riccati's equation."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nopg._seeding import generator
from nopg.envs import LQR, simulate
from studies.paper._regulator import exact_gradient, exact_return, optimum


def returned(gains: list[float], std: float, steps: int, episodes: int) -> torch.Tensor:
    draw = generator(0, "noise")

    def act(states: torch.Tensor) -> torch.Tensor:
        noise = torch.randn(states.shape, generator=draw, dtype=torch.float64)
        return states * torch.tensor(gains, dtype=torch.float64) + std * noise

    return simulate(LQR(), act, steps=steps, initial_states=LQR().initial(episodes)).discounted_returns(0.9)


@pytest.mark.parametrize("gains", [[-3.0, -2.0], [0.7, -0.7]])
def test_a_simulation_returns_what_the_sum_says(gains: list[float]) -> None:
    assert float(exact_return(gains)) == pytest.approx(returned(gains, 0.0, 30, 1).item(), rel=1e-12)


def test_noise_costs_what_it_costs_in_simulation() -> None:
    returns = returned([-3.0, -2.0], 0.5, 30, 20_000)
    error = float(returns.std()) / len(returns) ** 0.5
    expected, quiet = float(exact_return([-3.0, -2.0], 0.5)), float(exact_return([-3.0, -2.0]))
    assert abs(float(returns.mean()) - expected) < 3 * error
    assert quiet - expected > 20 * error


@pytest.mark.parametrize("gains", [[-3.0, -2.0], [0.35, -0.35]])
@pytest.mark.parametrize("std", [0.0, 0.3])
def test_the_gradient_is_the_slope_of_the_return(gains: list[float], std: float) -> None:
    slope = exact_gradient(gains, std)
    for k, unit in enumerate(1e-5 * np.eye(2)):
        high, low = (float(exact_return(np.array(gains) + sign * unit, std)) for sign in (1, -1))
        assert float(slope[k]) == pytest.approx((high - low) / 2e-5, rel=1e-6)


def test_the_optimum_satisfies_the_scalar_riccati_equation() -> None:
    # Each coordinate alone: p = q + γa²p − (γabp)²/(r + γb²p), a quadratic equation for p < 0.
    for i, (a, b, q) in enumerate([(1.2, 0.1, -0.25), (1.1, 0.2, -0.125)]):
        r, gamma = -0.005, 0.9
        terms = gamma * b**2, r - gamma * a**2 * r - gamma * b**2 * q, -q * r
        p = min(np.roots(terms).real)
        # The Riccati solver and the roots agree to rounding.
        assert float(optimum()[0][i]) == pytest.approx(-gamma * a * b * p / (r + gamma * b**2 * p), rel=1e-10)


def test_the_optimum_returns_what_riccati_says() -> None:
    gains, best = optimum()
    # After 300 steps less than .9³⁰⁰ = 2·10⁻¹⁴ is missing.
    assert float(exact_return(gains, steps=300)) == pytest.approx(best, abs=1e-12)


@given(first=st.floats(-0.5, 0.5), second=st.floats(-0.5, 0.5))
@settings(max_examples=25, deadline=None)
def test_no_gains_beat_the_optimum(first: float, second: float) -> None:
    gains, best = optimum()
    assert float(exact_return(gains + torch.tensor([first, second]), steps=300)) <= best + 1e-12

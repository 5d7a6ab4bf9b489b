"""Exact values and gradients against sums taken step by step, finite differences and the Riccati equation."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nopg.envs import LQR, simulate
from nopg.errors import ArgumentError
from studies.lqr_analysis import UnstableGainError, exact_gradient, exact_return, exact_value, optimal_gain

STABLE = [[-3.0, 0.4], [-0.3, -2.0]]
UNSTABLE = [[0.7, 0.2], [-0.1, -0.7]]


def random_rows(count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    return torch.as_tensor(rng.uniform(-3, 3, (count, 2))), torch.as_tensor(rng.uniform(-20, 20, (count, 2)))


def summed_return(gain: torch.Tensor, start: torch.Tensor, steps: int) -> float:
    """Σ γᵗ rₜ along one trajectory, step by step."""
    lqr, total, x = LQR(), 0.0, start[None]
    for t in range(steps):
        u = x @ gain.T
        x_next = lqr.step(x, u)
        total += 0.9**t * lqr.reward(x, u, x_next).item()
        x = x_next
    return total


def differences(
    lqr: LQR, gain: list[Any], initial: list[list[float]], horizon: int | None, step: float = 1e-5
) -> torch.Tensor:
    """Central differences of the expected return in every entry of the gain."""
    K = torch.tensor(gain, dtype=torch.float64)
    slopes = torch.zeros(K.numel(), dtype=torch.float64)
    for i in range(K.numel()):
        shift = torch.zeros(K.numel(), dtype=torch.float64)
        shift[i] = step
        ahead, behind = (
            exact_return(lqr, K + sign * shift.reshape(K.shape), initial, horizon=horizon) for sign in (1, -1)
        )
        slopes[i] = (ahead - behind) / (2 * step)
    return slopes.reshape(K.shape)


def test_the_optimum_is_the_known_one() -> None:
    lqr = LQR()
    gain = optimal_gain(lqr)
    expected = [[-6.394, 0.0], [0.0, -3.355]]
    np.testing.assert_allclose(gain, expected, rtol=0, atol=5e-4)  # three decimals are given
    assert exact_return(lqr, gain) == pytest.approx(-0.8509, abs=5e-5)  # four decimals are given


def test_the_optimum_satisfies_the_scalar_riccati_equation() -> None:
    # Each coordinate alone: p = q + γa²p − (γabp)²/(r + γb²p), a quadratic equation for p < 0.
    for i, (a, b, q) in enumerate([(1.2, 0.1, -0.25), (1.1, 0.2, -0.125)]):
        r, gamma = -0.005, 0.9
        terms = gamma * b**2, r - gamma * a**2 * r - gamma * b**2 * q, -q * r
        p = min(np.roots(terms).real)
        gain = -gamma * a * b * p / (r + gamma * b**2 * p)
        # The Riccati solver and the roots agree to rounding.
        assert optimal_gain(LQR())[i, i].item() == pytest.approx(gain, rel=1e-10)


def test_the_gradient_vanishes_at_the_optimum_and_nowhere_near() -> None:
    lqr = LQR()
    optimum = optimal_gain(lqr)
    assert exact_gradient(lqr, optimum).abs().max().item() < 1e-12  # rounding of terms of order 1
    assert exact_gradient(lqr, optimum + 0.5).abs().min().item() > 1e-4


@given(first=st.floats(-0.5, 0.5), second=st.floats(-0.5, 0.5), off=st.floats(-0.5, 0.5))
def test_no_gain_beats_the_optimum(first: float, second: float, off: float) -> None:
    lqr = LQR()
    optimum = optimal_gain(lqr)
    change = torch.tensor([[first, off], [-off, second]], dtype=torch.float64)
    assert exact_return(lqr, optimum + change) <= exact_return(lqr, optimum) + 1e-12


@pytest.mark.parametrize("gain", [STABLE, [-3.0, -2.0]])
@pytest.mark.parametrize("horizon", [None, 1, 30])
def test_the_gradient_equals_finite_differences(gain: list[Any], horizon: int | None) -> None:
    initial = [[1.0, 1.0], [0.5, -0.7], [-1.2, 0.1]]
    exact = exact_gradient(LQR(), gain, initial, horizon=horizon)
    # Central differences with step 10⁻⁵ err by about 10⁻¹⁰.
    torch.testing.assert_close(exact, differences(LQR(), gain, initial, horizon), rtol=0, atol=1e-6)
    assert exact.shape == np.shape(gain)


@pytest.mark.parametrize("gain", [UNSTABLE, [0.7, -0.7], [0.35, -0.35]])
@pytest.mark.parametrize("lqr", [LQR(), LQR.as_printed()])
def test_at_the_papers_gains_the_finite_horizon_has_a_gradient(gain: list[Any], lqr: LQR) -> None:
    exact = exact_gradient(lqr, gain, horizon=30)
    # Returns reach 10⁵ here, so the agreement is relative.
    slopes = differences(lqr, gain, [[1.0, 1.0]], 30)
    torch.testing.assert_close(exact, slopes, rtol=1e-6, atol=1e-6)


def test_the_diagonal_gradient_is_the_diagonal_of_the_full_one() -> None:
    diagonal, full = exact_gradient(LQR(), [-3.0, -2.0]), exact_gradient(LQR(), [[-3.0, 0.0], [0.0, -2.0]])
    assert torch.equal(diagonal, full.diagonal())


def test_values_equal_sums_along_trajectories() -> None:
    states, _ = random_rows(5)
    gain = torch.tensor(STABLE, dtype=torch.float64)
    finite, infinite = exact_value(LQR(), gain, states, horizon=30), exact_value(LQR(), gain, states)
    for i in range(5):
        assert finite[i].item() == pytest.approx(summed_return(gain, states[i], 30), abs=1e-12)
        # After 600 steps less than 0.9⁶⁰⁰ ≈ 10⁻²⁷ is missing.
        assert infinite[i].item() == pytest.approx(summed_return(gain, states[i], 600), abs=1e-12)


def test_the_finite_horizon_tends_to_the_infinite_one() -> None:
    lqr = LQR()
    assert exact_return(lqr, STABLE, horizon=500) == pytest.approx(exact_return(lqr, STABLE), abs=1e-12)
    torch.testing.assert_close(
        exact_gradient(lqr, STABLE, horizon=500), exact_gradient(lqr, STABLE), rtol=0, atol=1e-12
    )


def test_one_step_is_worth_its_reward() -> None:
    # From (1, 1) with u = (−3, −2): ½(−.5 − .25 − .01·9 − .01·4) = −.44.
    assert exact_return(LQR(), [-3.0, -2.0], horizon=1) == pytest.approx(-0.44, abs=1e-15)


def test_the_expected_return_is_the_mean_over_the_initial_states() -> None:
    states, _ = random_rows(7)
    mean = exact_value(LQR(), STABLE, states).mean().item()
    assert exact_return(LQR(), STABLE, states) == pytest.approx(mean, abs=1e-15)
    assert exact_return(LQR(), STABLE) == exact_return(LQR(), STABLE, [[1.0, 1.0]])


def test_a_simulation_returns_what_the_closed_form_says() -> None:
    gain = torch.tensor(UNSTABLE, dtype=torch.float64)
    episodes = simulate(LQR(), lambda states: states @ gain.T, steps=30)
    exact = exact_return(LQR(), gain, horizon=30)
    assert episodes.discounted_returns(0.9).item() == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("gain", [[0.7, -0.7], [0.35, -0.35], UNSTABLE])
def test_an_unstable_gain_is_refused_by_name_without_a_horizon(gain: list[Any]) -> None:
    for ask in (exact_return, exact_gradient):
        with pytest.raises(UnstableGainError, match=r"spectral radius 1\.2.*give a horizon"):
            ask(LQR(), gain)


def test_the_edge_of_stability_is_where_the_discount_says() -> None:
    edge = (0.9**-0.5 - 1.2) / 0.1  # 1.2 + 0.1·k = 1/√γ
    assert math.isfinite(exact_return(LQR(), [edge - 1e-3, -3.0]))
    with pytest.raises(UnstableGainError):
        exact_return(LQR(), [edge + 1e-3, -3.0])


def test_the_printed_problem_has_no_optimum() -> None:
    with pytest.raises(ArgumentError, match="no maximum"):
        optimal_gain(LQR.as_printed())
    lqr = LQR.as_printed()
    # The stable gains reach as far as |1.2 + 0.1·k| < 1.054; deep inside, more effort pays ever more.
    assert exact_return(lqr, [-22.5, -10.5]) > exact_return(lqr, [-12.0, -5.5]) > -1.0


def test_another_number_of_actions_works_too() -> None:
    lqr = LQR(
        dynamics=((1.0, 0.1), (0.0, 1.0)),
        control=((0.0,), (0.1,)),
        state_reward=((-1.0, 0.0), (0.0, -0.1)),
        action_reward=((-0.1,),),
    )
    gain = optimal_gain(lqr)
    assert gain.shape == (1, 2)
    assert exact_gradient(lqr, gain).abs().max().item() < 1e-10  # the returns are of order 10
    rough = gain * 0.8
    slopes = differences(lqr, rough.tolist(), [[1.0, 1.0]], None)
    torch.testing.assert_close(exact_gradient(lqr, rough), slopes, rtol=0, atol=1e-6)
    with pytest.raises(ArgumentError, match="gain has shape"):
        exact_value(lqr, [1.0, 2.0], [[1.0, 1.0]])


def test_impossible_questions_are_refused() -> None:
    with pytest.raises(ArgumentError, match="gain has shape"):
        exact_value(LQR(), [[1.0, 2.0]], [[1.0, 1.0]])
    with pytest.raises(ArgumentError, match="gain holds NaN"):
        exact_value(LQR(), [math.nan, 1.0], [[1.0, 1.0]])
    with pytest.raises(ArgumentError, match="states has shape"):
        exact_value(LQR(), STABLE, [1.0, 1.0])
    with pytest.raises(ArgumentError, match="horizon"):
        exact_value(LQR(), STABLE, [[1.0, 1.0]], horizon=0)

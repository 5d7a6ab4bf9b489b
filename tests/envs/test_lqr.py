"""The regulator against sums taken step by step, finite differences and the algebra of its optimum."""

import math
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nopg.envs import LQR, LQRParameters, simulate
from nopg.envs._lqr import UnstableGainError
from nopg.errors import ArgumentError

STABLE = [[-3.0, 0.4], [-0.3, -2.0]]
UNSTABLE = [[0.7, 0.2], [-0.1, -0.7]]


def random_rows(count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    return torch.as_tensor(rng.uniform(-3, 3, (count, 2))), torch.as_tensor(rng.uniform(-20, 20, (count, 2)))


def scalar_step(x: list[float], u: list[float], r: float = -0.01) -> tuple[list[float], float]:
    """The supplement's numbers, written out."""
    reward = 0.5 * (-0.5 * x[0] ** 2 - 0.25 * x[1] ** 2 + r * u[0] ** 2 + r * u[1] ** 2)
    return [1.2 * x[0] + 0.1 * u[0], 1.1 * x[1] + 0.2 * u[1]], reward


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
            lqr.expected_return(K + sign * shift.reshape(K.shape), initial, horizon=horizon)
            for sign in (1, -1)
        )
        slopes[i] = (ahead - behind) / (2 * step)
    return slopes.reshape(K.shape)


@pytest.mark.parametrize(("parameters", "r"), [(LQRParameters(), -0.01), (LQRParameters.as_printed(), 0.01)])
def test_ten_thousand_random_steps_equal_the_supplements(parameters: LQRParameters, r: float) -> None:
    lqr = LQR(parameters)
    states, actions = random_rows(10_000)
    next_states = lqr.step(states, actions)
    rewards = lqr.reward(states, actions, next_states)

    rows = zip(states.tolist(), actions.tolist(), strict=True)
    expected = [scalar_step(x, u, r) for x, u in rows]
    # Sums of four products of order 10 round below 10⁻¹⁴.
    np.testing.assert_allclose(next_states, [state for state, _ in expected], rtol=0, atol=1e-12)
    np.testing.assert_allclose(rewards, [reward for _, reward in expected], rtol=0, atol=1e-12)


def test_the_optimum_is_the_known_one() -> None:
    lqr = LQR()
    gain = lqr.optimal_gain()
    expected = [[-6.394, 0.0], [0.0, -3.355]]
    np.testing.assert_allclose(gain, expected, rtol=0, atol=5e-4)  # three decimals are given
    assert lqr.expected_return(gain) == pytest.approx(-0.8509, abs=5e-5)  # four decimals are given


def test_the_optimum_satisfies_the_scalar_riccati_equation() -> None:
    # Each coordinate alone: p = q + γa²p − (γabp)²/(r + γb²p), a quadratic equation for p < 0.
    for i, (a, b, q) in enumerate([(1.2, 0.1, -0.25), (1.1, 0.2, -0.125)]):
        r, gamma = -0.005, 0.9
        terms = gamma * b**2, r - gamma * a**2 * r - gamma * b**2 * q, -q * r
        p = min(np.roots(terms).real)
        gain = -gamma * a * b * p / (r + gamma * b**2 * p)
        # The Riccati solver and the roots agree to rounding.
        assert LQR().optimal_gain()[i, i].item() == pytest.approx(gain, rel=1e-10)


def test_the_gradient_vanishes_at_the_optimum_and_nowhere_near() -> None:
    lqr = LQR()
    optimum = lqr.optimal_gain()
    assert lqr.gradient(optimum).abs().max().item() < 1e-12  # rounding of terms of order 1
    assert lqr.gradient(optimum + 0.5).abs().min().item() > 1e-4


@given(first=st.floats(-0.5, 0.5), second=st.floats(-0.5, 0.5), off=st.floats(-0.5, 0.5))
def test_no_gain_beats_the_optimum(first: float, second: float, off: float) -> None:
    lqr = LQR()
    optimum = lqr.optimal_gain()
    change = torch.tensor([[first, off], [-off, second]], dtype=torch.float64)
    assert lqr.expected_return(optimum + change) <= lqr.expected_return(optimum) + 1e-12


@pytest.mark.parametrize("gain", [STABLE, [-3.0, -2.0]])
@pytest.mark.parametrize("horizon", [None, 1, 30])
def test_the_gradient_equals_finite_differences(gain: list[Any], horizon: int | None) -> None:
    initial = [[1.0, 1.0], [0.5, -0.7], [-1.2, 0.1]]
    exact = LQR().gradient(gain, initial, horizon=horizon)
    # Central differences with step 10⁻⁵ err by about 10⁻¹⁰.
    torch.testing.assert_close(exact, differences(LQR(), gain, initial, horizon), rtol=0, atol=1e-6)
    assert exact.shape == np.shape(gain)


@pytest.mark.parametrize("gain", [UNSTABLE, [0.7, -0.7], [0.35, -0.35]])
@pytest.mark.parametrize("parameters", [LQRParameters(), LQRParameters.as_printed()])
def test_at_the_papers_gains_the_finite_horizon_has_a_gradient(
    gain: list[Any], parameters: LQRParameters
) -> None:
    lqr = LQR(parameters)
    exact = lqr.gradient(gain, horizon=30)
    # Returns reach 10⁵ here, so the agreement is relative.
    slopes = differences(lqr, gain, [[1.0, 1.0]], 30)
    torch.testing.assert_close(exact, slopes, rtol=1e-6, atol=1e-6)


def test_the_diagonal_gradient_is_the_diagonal_of_the_full_one() -> None:
    diagonal, full = LQR().gradient([-3.0, -2.0]), LQR().gradient([[-3.0, 0.0], [0.0, -2.0]])
    assert torch.equal(diagonal, full.diagonal())


def test_values_equal_sums_along_trajectories() -> None:
    states, _ = random_rows(5)
    gain = torch.tensor(STABLE, dtype=torch.float64)
    finite, infinite = LQR().value(gain, states, horizon=30), LQR().value(gain, states)
    for i in range(5):
        assert finite[i].item() == pytest.approx(summed_return(gain, states[i], 30), abs=1e-12)
        # After 600 steps less than 0.9⁶⁰⁰ ≈ 10⁻²⁷ is missing.
        assert infinite[i].item() == pytest.approx(summed_return(gain, states[i], 600), abs=1e-12)


def test_the_finite_horizon_tends_to_the_infinite_one() -> None:
    lqr = LQR()
    assert lqr.expected_return(STABLE, horizon=500) == pytest.approx(lqr.expected_return(STABLE), abs=1e-12)
    torch.testing.assert_close(lqr.gradient(STABLE, horizon=500), lqr.gradient(STABLE), rtol=0, atol=1e-12)


def test_one_step_is_worth_its_reward() -> None:
    # From (1, 1) with u = (−3, −2): ½(−.5 − .25 − .01·9 − .01·4) = −.44.
    assert LQR().expected_return([-3.0, -2.0], horizon=1) == pytest.approx(-0.44, abs=1e-15)


def test_the_expected_return_is_the_mean_over_the_initial_states() -> None:
    states, _ = random_rows(7)
    mean = LQR().value(STABLE, states).mean().item()
    assert LQR().expected_return(STABLE, states) == pytest.approx(mean, abs=1e-15)
    assert LQR().expected_return(STABLE) == LQR().expected_return(STABLE, [[1.0, 1.0]])


def test_a_simulation_returns_what_the_closed_form_says() -> None:
    gain = torch.tensor(UNSTABLE, dtype=torch.float64)
    episodes = simulate(LQR(), lambda states: states @ gain.T, steps=30)
    exact = LQR().expected_return(gain, horizon=30)
    assert episodes.discounted_returns(0.9).item() == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("gain", [[0.7, -0.7], [0.35, -0.35], UNSTABLE])
def test_an_unstable_gain_is_refused_by_name_without_a_horizon(gain: list[Any]) -> None:
    for ask in (LQR().expected_return, LQR().gradient):
        with pytest.raises(UnstableGainError, match=r"spectral radius 1\.2.*give a horizon"):
            ask(gain)


def test_the_edge_of_stability_is_where_the_discount_says() -> None:
    edge = (0.9**-0.5 - 1.2) / 0.1  # 1.2 + 0.1·k = 1/√γ
    assert math.isfinite(LQR().expected_return([edge - 1e-3, -3.0]))
    with pytest.raises(UnstableGainError):
        LQR().expected_return([edge + 1e-3, -3.0])


def test_the_printed_problem_has_no_optimum() -> None:
    with pytest.raises(ArgumentError, match="no maximum"):
        LQR(LQRParameters.as_printed()).optimal_gain()
    lqr = LQR(LQRParameters.as_printed())
    # The stable gains reach as far as |1.2 + 0.1·k| < 1.054; deep inside, more effort pays ever more.
    assert lqr.expected_return([-22.5, -10.5]) > lqr.expected_return([-12.0, -5.5]) > -1.0


def test_actions_are_never_clipped() -> None:
    actions = torch.tensor([[1e6, -1e6]], dtype=torch.float64)
    assert torch.equal(LQR().applied(actions), actions)
    assert LQR().step(torch.zeros(1, 2, dtype=torch.float64), actions).tolist() == [[1e5, -2e5]]


def test_every_start_is_the_same_and_no_state_is_terminal() -> None:
    assert LQR().initial(2).tolist() == [[1.0, 1.0]] * 2
    assert LQR().terminal(random_rows(3)[0]).tolist() == [False] * 3


def test_the_description_names_every_dimension() -> None:
    lqr = LQR()
    assert (lqr.state_names, lqr.action_names) == (("x1", "x2"), ("u1", "u2"))
    assert dict(lqr.angles) == {}
    assert lqr.state_low.tolist() == [-2.0, -2.0]
    assert lqr.state_high.tolist() == [2.0, 2.0]
    assert lqr.action_low.tolist() == [-15.0, -15.0]
    assert lqr.action_high.tolist() == [15.0, 15.0]


def test_another_number_of_actions_works_too() -> None:
    lqr = LQR(
        LQRParameters(
            dynamics=((1.0, 0.1), (0.0, 1.0)),
            control=((0.0,), (0.1,)),
            state_reward=((-1.0, 0.0), (0.0, -0.1)),
            action_reward=((-0.1,),),
        )
    )
    gain = lqr.optimal_gain()
    assert gain.shape == (1, 2)
    assert lqr.gradient(gain).abs().max().item() < 1e-10  # the returns are of order 10
    rough = gain * 0.8
    slopes = differences(lqr, rough.tolist(), [[1.0, 1.0]], None)
    torch.testing.assert_close(lqr.gradient(rough), slopes, rtol=0, atol=1e-6)
    with pytest.raises(ArgumentError, match="gain has shape"):
        lqr.value([1.0, 2.0], [[1.0, 1.0]])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"dynamics": ((1.0, 0.0),)}, "dynamics has shape"),
        ({"control": ((1.0,), (1.0, 2.0))}, "control has rows of different lengths"),
        ({"state_reward": ((-1.0, 0.2), (0.0, -1.0))}, "state_reward must be symmetric"),
        ({"action_reward": ((math.nan, 0.0), (0.0, -1.0))}, "action_reward holds NaN"),
        ({"initial_state": ()}, "initial_state has shape"),
        ({"discount": 1.0}, "discount"),
        ({"state_bound": 0.0}, "state_bound"),
        ({"action_bound": math.inf}, "action_bound"),
    ],
)
def test_impossible_parameters_are_refused_by_name(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        LQRParameters(**setting)


def test_impossible_questions_are_refused() -> None:
    with pytest.raises(ArgumentError, match="gain has shape"):
        LQR().value([[1.0, 2.0]], [[1.0, 1.0]])
    with pytest.raises(ArgumentError, match="gain holds NaN"):
        LQR().value([math.nan, 1.0], [[1.0, 1.0]])
    with pytest.raises(ArgumentError, match="states has shape"):
        LQR().value(STABLE, [1.0, 1.0])
    with pytest.raises(ArgumentError, match="horizon"):
        LQR().value(STABLE, [[1.0, 1.0]], horizon=0)
    with pytest.raises(ArgumentError, match="num_states"):
        LQR().initial(cast(Any, 0))

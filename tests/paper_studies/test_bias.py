import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from paper_studies.bias_cases import (
    LinearWorld,
    Ridges,
    regression_bias,
    steep_world,
    steep_world_value_at_zero,
    value_bound,
)
from studies.paper.bias import regression_bias_bound, value_bias_bound

# Trapezoid rule with spacing δ: a kink of slope ±L_f under a weight of height .4/h errs by at most
# δ²/12 · 2L_f · .4/h, that is .067 L_f h (δ/h)², against a bound of at least .8 L_f h; a kink of the
# density errs by L_β h times that, and L_β h ≤ 3. Kinks are at most six.
TOLERANCE_1D = 1e-3  # δ = h/100: 6 · 4 · .084 · 10⁻⁴ = 2·10⁻⁴
# V_D is linear between nodes h/4 apart and |V_D″| ≤ 4 · .8 L_f/h, so interpolation errs by at most
# δ²/8 · 3.2 L_f/h = .025 L_f h, against 1.6 L_f h in the bound (two dimensions); the kinks of the rewards and
# of the stops add at most as much.
TOLERANCE_VALUE = 4e-2
# A constant function has a bound of 0; its mean rounds in the sixteenth digit of values of order 1.
ROUNDING = 1e-14


def ridges(dimensions: int, *, greatest_slope: float, greatest_offset: float) -> st.SearchStrategy[Ridges]:
    part = st.tuples(
        st.floats(-1, 1),
        st.lists(st.floats(-1, 1), min_size=dimensions, max_size=dimensions),
        st.floats(-greatest_offset, greatest_offset),
        st.booleans(),
    )
    return st.lists(part, min_size=1, max_size=3).map(
        lambda parts: Ridges(
            weights=np.array([greatest_slope / len(parts) * p[0] for p in parts]),
            directions=np.array([p[1] for p in parts]),
            offsets=np.array([p[2] for p in parts]),
            smooth=np.array([p[3] for p in parts]),
        )
    )


def straight(weight: float, *, smooth: bool = False) -> Ridges:
    return Ridges(np.array([weight]), np.ones((1, 1)), np.zeros(1), np.array([smooth]))


def printed_formula(L_f: float, L_beta: float, h: list[float]) -> float:
    """Transcribe theorem:biasnadaraya letter by letter."""
    chi = [math.exp((L_beta * x) ** 2 / 2) * (1 + math.erf(x * L_beta / math.sqrt(2))) for x in h]
    numerator = sum(
        h[k]
        * math.prod(chi[i] for i in range(len(h)) if i != k)
        * (1 / math.sqrt(2 * math.pi) + L_beta * h[k] / 2 * chi[k])
        for k in range(len(h))
    )
    factors = [math.exp((L_beta * x) ** 2 / 2) * (1 - math.erf(x * L_beta / math.sqrt(2))) for x in h]
    return L_f * numerator / math.prod(factors)


def test_the_absolute_value_on_a_uniform_design_breaks_the_printed_bound_and_meets_ours() -> None:
    bias = regression_bias(
        straight(1.0),
        straight(0.0),
        query=np.zeros(1),
        bandwidth=np.array([0.1]),
        reach=8.0,
        nodes_per_bandwidth=100,
    )
    setting: dict[str, Any] = {"lipschitz": 1.0, "log_lipschitz": 0.0, "bandwidth": [0.1]}

    # E|z| of a Gaussian with standard deviation .1; the rule errs by 10⁻⁴ of it at most.
    assert bias == pytest.approx(0.1 * math.sqrt(2 / math.pi), rel=1e-4)
    assert round(bias, 4) == 0.0798
    assert round(regression_bias_bound(**setting, printed=True), 4) == 0.0399
    assert regression_bias_bound(**setting, printed=True) < bias
    assert regression_bias_bound(**setting) >= bias * (1 - 1e-4)


def test_steep_dynamics_break_the_printed_value_bound_and_keep_ours() -> None:
    world = steep_world()
    solution = world.solve()
    value_at_zero = float(np.interp(0.0, solution.states, solution.estimated))

    assert value_at_zero == pytest.approx(-7.3, abs=0.02)
    assert float(np.interp(0.0, solution.states, solution.true)) == pytest.approx(0.0, abs=0.02)
    # V_D(s) = −E|s + N(0, h²)| + constant, of slope 1; the grid's steepest chord is as steep to 10⁻³.
    assert solution.value_lipschitz == pytest.approx(1.0, rel=1e-3)
    assert value_bound(world, solution, printed=True) == pytest.approx(0.798, abs=1e-3)
    assert value_bound(world, solution) == pytest.approx(15.96, abs=2e-2)
    assert value_bound(world, solution, printed=True) < -value_at_zero < value_bound(world, solution)


@pytest.mark.parametrize("next_state_bandwidth", [0.0, 0.1])
def test_the_solver_of_the_worlds_agrees_with_the_value_by_hand(next_state_bandwidth: float) -> None:
    solution = steep_world(next_state_bandwidth=next_state_bandwidth).solve()

    value_at_zero = float(np.interp(0.0, solution.states, solution.estimated))

    # Interpolation and the kink of |s| each err by about (1/4)²/12 of h√(2/π)/(1 − γ), that is .004.
    by_hand = steep_world_value_at_zero(next_state_bandwidth=next_state_bandwidth)
    assert value_at_zero == pytest.approx(by_hand, abs=0.01)


@pytest.mark.parametrize("bandwidth", [[0.1], [0.5, 0.2], [1.0, 0.3, 0.7]])
@pytest.mark.parametrize("log_lipschitz", [0.0, 0.5, 3.0])
def test_the_printed_form_is_the_formula_of_the_paper(log_lipschitz: float, bandwidth: list[float]) -> None:
    bound = regression_bias_bound(2.0, log_lipschitz, bandwidth, printed=True)

    # 1 − erf cancels up to four digits at L_β h = 3.
    assert bound == pytest.approx(printed_formula(2.0, log_lipschitz, bandwidth), rel=1e-10)


@pytest.mark.parametrize("log_lipschitz", [0.0, 0.5, 3.0])
def test_the_corrected_form_is_the_quotient_of_the_integrals_it_comes_from(log_lipschitz: float) -> None:
    h = [0.5, 1.2]

    def integral(bandwidth: float, power: int, sign: float) -> float:
        def integrand(z: float) -> float:
            return z**power * math.exp(-0.5 * (z / bandwidth) ** 2 + sign * log_lipschitz * z)

        # An even integrand, cut where it is below exp(−100).
        half = quad(integrand, 0.0, (log_lipschitz * bandwidth + 15.0) * bandwidth, epsabs=0.0, epsrel=1e-11)
        return float(2 * half[0] / (math.sqrt(2 * math.pi) * bandwidth))

    numerator = integral(h[0], 1, 1) * integral(h[1], 0, 1) + integral(h[0], 0, 1) * integral(h[1], 1, 1)
    denominator = integral(h[0], 0, -1) * integral(h[1], 0, -1)
    bound = regression_bias_bound(lipschitz=2.0, log_lipschitz=log_lipschitz, bandwidth=h)
    assert bound == pytest.approx(2.0 * numerator / denominator, rel=1e-9)


def test_the_transition_term_is_the_mean_distance_of_a_gaussian_from_its_centre() -> None:
    bound = value_bias_bound(
        discount=0.5,
        reward_lipschitz=0.0,
        value_lipschitz=2.0,
        transition_lipschitz=0.0,
        log_lipschitz=4.0,
        state_action_bandwidth=[1.0],
        next_state_bandwidth=[0.1, 0.3],
    )
    assert bound == pytest.approx(0.5 * 2.0 * 0.4 * math.sqrt(2 / math.pi) / 0.5)


def test_a_constant_function_has_no_bias_however_uneven_the_design() -> None:
    assert regression_bias_bound(lipschitz=0.0, log_lipschitz=1e9, bandwidth=[1.0]) == 0.0


@given(
    function=ridges(1, greatest_slope=2.0, greatest_offset=1.0),
    log_density=ridges(1, greatest_slope=6.0, greatest_offset=1.0),
    query=st.floats(-1, 1),
    bandwidth=st.floats(0.02, 0.5),
    room=st.tuples(st.floats(0, 12), st.floats(0.1, 12)),
)
@settings(max_examples=200, deadline=None)
def test_no_function_on_a_line_is_off_by_more_than_the_corrected_bound(
    function: Ridges, log_density: Ridges, query: float, bandwidth: float, room: tuple[float, float]
) -> None:
    bound = regression_bias_bound(
        lipschitz=function.lipschitz, log_lipschitz=log_density.lipschitz, bandwidth=[bandwidth]
    )
    bias = regression_bias(
        function,
        log_density,
        query=np.array([query]),
        bandwidth=np.array([bandwidth]),
        reach=11.0,  # L_β h ≤ 3: eight standard deviations beyond the farthest peak of the weights
        room=np.array([room]),
        nodes_per_bandwidth=100,
    )
    assert abs(bias) <= bound * (1 + TOLERANCE_1D) + ROUNDING


@given(slope=st.floats(0, 6), bandwidth=st.floats(0.02, 0.5))
@settings(max_examples=50, deadline=None)
def test_the_worst_function_on_the_worst_design_keeps_our_bound_and_breaks_the_printed_one_if_nearly_uniform(
    slope: float, bandwidth: float
) -> None:
    bias = regression_bias(
        straight(1.0),
        straight(slope),
        query=np.zeros(1),
        bandwidth=np.array([bandwidth]),
        reach=11.0,
        nodes_per_bandwidth=100,
    )
    setting: dict[str, Any] = {"lipschitz": 1.0, "log_lipschitz": slope, "bandwidth": [bandwidth]}

    assert bias <= regression_bias_bound(**setting) * (1 + TOLERANCE_1D)
    if slope * bandwidth < 0.4:  # Φ(a) < 2Φ(−a): half of the bound is below the worst case
        assert bias > regression_bias_bound(**setting, printed=True)


either_sign = st.floats(-1.5, 1.5)
in_reach = st.floats(-1, 1)
width = st.floats(0.1, 0.3)


@given(
    world=st.builds(
        LinearWorld,
        state_gain=either_sign,
        action_gain=st.floats(-10, 10),
        stop=st.just(1.0),
        policy_gain=in_reach,
        discount=st.floats(0, 0.95),
        bandwidths=st.tuples(width, width, st.floats(0, 0.3)),
        reward_slopes=st.tuples(st.floats(0, 1), st.floats(0, 1)),
        reward_peaks=st.tuples(in_reach, in_reach),
        design_slopes=st.tuples(either_sign, either_sign),
        design_kinks=st.tuples(in_reach, in_reach),
    )
)
@settings(max_examples=60, deadline=None)
def test_no_value_is_off_by_more_than_the_corrected_bound(world: LinearWorld) -> None:
    solution = world.solve()
    assert solution.bias <= value_bound(world, solution) * (1 + TOLERANCE_VALUE) + 1e-9

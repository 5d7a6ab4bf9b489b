"""The bounds of `studies.paper.bias` against functions whose bias is known."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from nopg._typing import FloatArray
from studies.paper.bias import regression_bias_bound, value_bias_bound

# Nodes of the trapezoid rule reach so many bandwidths to each side: L_β h ≤ 3, so they end eight standard
# deviations beyond the farthest peak of the weights.
REACH = 11.0
# Trapezoid rule with spacing δ: a kink of slope ±L_f under a weight of height .4/h errs by at most
# δ²/12 · 2L_f · .4/h, that is .067 L_f h (δ/h)², against a bound of at least .8 L_f h; a kink of the
# density errs by L_β h times that, and L_β h ≤ 3. Kinks are at most six.
TOLERANCE_1D = 1e-3  # δ = h/100: 6 · 4 · .084 · 10⁻⁴ = 2·10⁻⁴
# A constant function has a bound of 0; its mean rounds in the sixteenth digit of values of order 1.
ROUNDING = 1e-14

# Regression


@dataclass(frozen=True, slots=True)
class Ridges:
    """A sum of terms w|kx − c| and w sin(kx − c), a regression function or a log-density on a line."""

    terms: list[tuple[float, float, float, bool]]  # w, k, c and whether it is a sine

    def __call__(self, x: FloatArray) -> FloatArray:
        parts = [w * (np.sin if sine else np.abs)(k * x - c) for w, k, c, sine in self.terms]
        return np.asarray(sum(parts))

    @property
    def lipschitz(self) -> float:
        return sum(abs(w * k) for w, k, _, _ in self.terms)


def ridges(greatest_slope: float) -> st.SearchStrategy[Ridges]:
    within_one, weight = st.floats(-1, 1), st.floats(-greatest_slope / 3, greatest_slope / 3)
    term = st.tuples(weight, within_one, within_one, st.booleans())
    return st.lists(term, min_size=1, max_size=3).map(Ridges)


def kink(slope: float) -> Ridges:
    return Ridges([(slope, 1.0, 0.0, False)])


def regression_bias(
    function: Ridges,
    log_density: Ridges,
    h: float,
    query: float = 0.0,
    room: tuple[float, float] = (REACH, REACH),
) -> float:
    """Compute ∫ f K β / ∫ K β − f(query), the bias of Nadaraya-Watson regression on infinitely many samples.

    The density ends `room` bandwidths below and above the query.
    """
    below, above = np.minimum(room, REACH)
    u = np.linspace(-below, above, 2 + math.ceil((below + above) * 100))
    x = query + h * u
    log_w = log_density(x) - 0.5 * u**2
    log_w[[0, -1]] += math.log(0.5)
    w = np.exp(log_w - log_w.max())
    return float(w @ (function(x) - function(np.array(query))) / w.sum())


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
    bias = regression_bias(kink(1.0), kink(0.0), 0.1)
    printed, ours = (regression_bias_bound(1.0, 0.0, [0.1], printed=each) for each in (True, False))
    # E|z| of a Gaussian with standard deviation .1; the rule errs by 10⁻⁴ of it at most.
    assert bias == pytest.approx(0.1 * math.sqrt(2 / math.pi), rel=1e-4)
    assert round(bias, 4) == 0.0798
    assert round(printed, 4) == 0.0399
    assert printed < bias <= ours * (1 + 1e-4)


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


@given(
    function=ridges(2.0),
    log_density=ridges(6.0),
    query=st.floats(-1, 1),
    h=st.floats(0.02, 0.5),
    room=st.tuples(st.floats(0, 12), st.floats(0.1, 12)),
)
@settings(max_examples=200, deadline=None)
def test_no_function_on_a_line_is_off_by_more_than_the_corrected_bound(
    function: Ridges, log_density: Ridges, query: float, h: float, room: tuple[float, float]
) -> None:
    bound = regression_bias_bound(function.lipschitz, log_density.lipschitz, [h])
    bias = regression_bias(function, log_density, h, query, room)
    assert abs(bias) <= bound * (1 + TOLERANCE_1D) + ROUNDING


@given(slope=st.floats(0, 6), h=st.floats(0.02, 0.5))
@settings(max_examples=50, deadline=None)
def test_the_worst_function_on_the_worst_design_keeps_our_bound_and_breaks_the_printed_one_if_nearly_uniform(
    slope: float, h: float
) -> None:
    bias = regression_bias(kink(1.0), kink(slope), h)
    assert bias <= regression_bias_bound(1.0, slope, [h]) * (1 + TOLERANCE_1D)
    if slope * h < 0.4:  # Φ(a) < 2Φ(−a): half of the bound is below the worst case
        assert bias > regression_bias_bound(1.0, slope, [h], printed=True)


# Values


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


@pytest.mark.parametrize("h_phi", [0.0, 0.1])
def test_steep_dynamics_break_the_printed_value_bound_and_keep_ours(h_phi: float) -> None:
    """The counter-example to theorem:ultimate: s′ = 10a, r = −|s|, π = 0, h = .1, γ = .9.

    The policy goes to 0 and stays, so V*(0) = 0. But actions within .1 of 0 lead to states within 1 of 0,
    and the kernel on actions averages over them.
    """
    h, gamma = 0.1, 0.9
    # z ~ N(s, h²) and b ~ N(0, h²) are independent on a uniform design. Wherever we are, the next state is
    # 10b + l ~ N(0, (10h)² + h_ϕ²), and what is seen there is smoothed by ψ once more. So every step but the
    # first costs E|N(0, (10h)² + h_ϕ² + h²)|, the first E|N(0, h²)|, and E|N(0, σ²)| = σ√(2/π).
    at_zero = -math.sqrt(2 / math.pi) * (h + gamma / (1 - gamma) * math.hypot(10 * h, h_phi, h))
    printed, ours = (
        value_bias_bound(
            discount=gamma,
            reward_lipschitz=1.0,
            value_lipschitz=1.0,  # V(s) = −E|s + N(0, h²)| + constant
            transition_lipschitz=10.0,
            log_lipschitz=0.0,
            state_action_bandwidth=[h, h],
            next_state_bandwidth=[h_phi],
            printed=each,
        )
        for each in (True, False)
    )
    assert printed < -at_zero < ours
    if h_phi == 0.0:
        assert at_zero == pytest.approx(-7.3, abs=0.02)
        assert printed == pytest.approx(0.798, abs=1e-3)
        assert ours == pytest.approx(15.96, abs=2e-2)

"""The cart-pole against its equations written out for one cart, its energy, and a balancing controller."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np
import pytest
import torch

from nopg._seeding import generator
from nopg.envs import CartPole, simulate
from nopg.errors import ArgumentError


class Pole(NamedTuple):
    """Mass and length of a pole, and a feedback that balances it.

    The feedback gives the acceleration of the cart in m/s² per unit of (position, angle, velocity,
    angular_velocity): the public simulator's for the short pole; for the long one the linear-quadratic
    regulator without friction, linearised about upright, with weights 1600, 10⁴, 100, 100 on the state and
    1 on the input, rounded.
    """

    mass: float
    length: float
    feedback: tuple[float, float, float, float]

    def cart_pole(self, **settings: Any) -> CartPole:
        return CartPole(pole_mass=self.mass, pole_length=self.length, **settings)


SHORT_POLE = Pole(0.127, 0.3365 / 2, (41.0, -200.0, 55.0, -16.0))
LONG_POLE = Pole(0.230, 0.3302, (40.0, -180.0, 38.0, -33.0))


def balancing_feedback(
    cart_pole: CartPole, pole: Pole = SHORT_POLE
) -> Callable[[torch.Tensor], torch.Tensor]:
    """A controller that balances the pole: the force of the feedback, with the back-EMF compensated."""
    gains = torch.tensor(pole.feedback, dtype=torch.float64)
    volts_per_acceleration = cart_pole.moving_mass / cart_pole.force_per_volt

    def voltages(states: torch.Tensor) -> torch.Tensor:
        volts = volts_per_acceleration * (states @ gains) + cart_pole.back_emf * states[:, 2]
        return volts[:, None]

    return voltages


def random_rows(count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """States over whole turns and voltages beyond the bounds."""
    rng = np.random.default_rng(seed)
    states = rng.uniform([-0.4, -4.0, -1.0, -3.0], [0.4, 4.0, 1.0, 3.0], size=(count, 4))
    return torch.as_tensor(states), torch.as_tensor(rng.uniform(-30.0, 30.0, size=(count, 1)))


def scalar_step(
    state: list[float], voltage: float, dt: float, pole: tuple[float, float], sign: float
) -> list[float]:
    """One semi-implicit Euler step in the Quanser convention, θ = π upright, by Cramer's rule."""
    position, theta, velocity, spin = state[0], state[1] + math.pi, state[2], state[3]
    m_p, length = pole
    k_g, j_m, r_mp, r_m, k_t = 3.71, 3.9e-7, 6.35e-3, 2.6, 0.00767
    j_eq, j_p = 0.37 + k_g**2 * j_m / r_mp**2, length**2 * m_p / 3

    voltage = max(-24.0, min(24.0, voltage))
    force = k_g * k_t / (r_m * r_mp) * (voltage - k_g * k_t * velocity / r_mp)
    a, b, d = m_p + j_eq, m_p * length * math.cos(theta), j_p + m_p * length**2
    e = force - 5.4 * velocity + sign * m_p * length * math.sin(theta) * spin**2
    f = -0.0024 * spin - m_p * length * 9.81 * math.sin(theta)
    acceleration, angular = (e * d - b * f) / (a * d - b * b), (a * f - b * e) / (a * d - b * b)

    velocity += dt * acceleration
    spin += dt * angular
    return [position + dt * velocity, theta + dt * spin - math.pi, velocity, spin]


@pytest.mark.parametrize("pole", [SHORT_POLE, LONG_POLE])
@pytest.mark.parametrize(
    ("rate", "substeps", "corrected"), [(50.0, 1, True), (500.0, 1, True), (50.0, 3, True), (50.0, 1, False)]
)
def test_ten_thousand_random_steps_equal_one_cart_at_a_time(
    pole: Pole, rate: float, substeps: int, corrected: bool
) -> None:
    cart_pole = pole.cart_pole(rate=rate, substeps=substeps, corrected=corrected)
    sign = 1.0 if corrected else -1.0
    states, actions = random_rows(10_000)
    next_states = cart_pole.step(states, actions)

    expected = []
    for row, voltage in zip(states.tolist(), actions[:, 0].tolist(), strict=True):
        state = row
        for _ in range(substeps):
            state = scalar_step(state, voltage, 1 / (rate * substeps), (pole.mass, pole.length), sign)
        expected.append(state)
    # Accelerations of order 10² over 0.02 s round below 10⁻¹³; adding π costs 10⁻¹⁵.
    np.testing.assert_allclose(next_states, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("steps", [2_000, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("pole", "rate"), [(SHORT_POLE, 50.0), (LONG_POLE, 500.0), (SHORT_POLE, 500.0), (LONG_POLE, 50.0)]
)
def test_feedback_balances_the_pole_for_so_many_steps(pole: Pole, rate: float, steps: int) -> None:
    cart_pole = pole.cart_pole(rate=rate)
    episodes = simulate(
        cart_pole, balancing_feedback(cart_pole, pole), steps=steps, num_episodes=20, rng=generator(0)
    )
    assert not bool(episodes.terminated.any())
    assert episodes.returns.min().item() >= 0.999 * steps


@pytest.mark.parametrize("pole", [SHORT_POLE, LONG_POLE])
@pytest.mark.parametrize("setting", [{"substeps": 10}, {"corrected": False}, {"max_voltage": 5.0}])
def test_feedback_balances_from_anywhere_inside_the_limit(pole: Pole, setting: dict[str, Any]) -> None:
    cart_pole = pole.cart_pole(**setting)
    starts = torch.zeros(21, 4, dtype=torch.float64)
    starts[:, 1] = torch.linspace(-0.99, 0.99, 21) * cart_pole.angle_limit
    episodes = simulate(cart_pole, balancing_feedback(cart_pole, pole), steps=500, initial_states=starts)
    assert not bool(episodes.terminated.any())
    assert episodes.states[-1].abs().max().item() < 1e-3  # at rest in the middle


def test_feedback_balances_under_the_public_simulators_limits() -> None:
    cart_pole = CartPole.public_simulator()
    starts = torch.zeros(2, 4, dtype=torch.float64)
    starts[:, 1] = torch.tensor([-0.1, 0.1])
    episodes = simulate(cart_pole, balancing_feedback(cart_pole), steps=2_000, initial_states=starts)
    assert not bool(episodes.terminated.any())


def test_without_control_the_pole_falls_soon() -> None:
    starts = torch.tensor([[0.0, 0.01, 0.0, 0.0]], dtype=torch.float64)
    episodes = simulate(
        CartPole(), lambda states: torch.zeros(len(states), 1), steps=500, initial_states=starts
    )
    assert bool(episodes.terminated.any())
    assert episodes.returns.item() < 50  # a second, at 50 Hz


def energy_gained(*, corrected: bool) -> float:
    """The energy that a free motion of 0.2 s gains, in J."""
    # A motor of vast resistance neither pulls nor brakes.
    p = CartPole(pole_damping=0.0, cart_damping=0.0, resistance=1e12, corrected=corrected)
    p = replace(p, rate=500.0, substeps=50)
    mass, length = p.pole_mass, p.pole_length
    state = torch.tensor([[0.0, 1.0, 0.3, -2.0]], dtype=torch.float64)

    def energy(row: torch.Tensor) -> float:
        _, angle, velocity, spin = cast(list[float], row.tolist())
        moment = mass * length
        kinetic = 0.5 * (mass + p.moving_mass) * velocity**2 - moment * math.cos(angle) * velocity * spin
        kinetic += 0.5 * (mass * length**2 / 3 + moment * length) * spin**2
        return kinetic + moment * p.gravity * math.cos(angle)

    before = energy(state[0])
    for _ in range(100):
        state = p.step(state, torch.zeros(1, 1, dtype=torch.float64))
    return energy(state[0]) - before


def test_only_the_corrected_equations_keep_the_energy_without_friction_and_motor() -> None:
    # Semi-implicit Euler, which is of first order, with steps of 4·10⁻⁵ s misses 2·10⁻⁵ of the 0.16 J.
    assert abs(energy_gained(corrected=True)) < 4e-5
    assert abs(energy_gained(corrected=False)) > 0.01


def test_within_the_limits_the_correction_does_not_matter() -> None:
    cart_pole, corrected = (CartPole(corrected=choice) for choice in (False, True))
    corner = cart_pole.state_high[None]
    actions = torch.zeros(1, 1, dtype=torch.float64)
    difference = cart_pole.step(corner, actions) - corrected.step(corner, actions)
    assert difference.abs().max().item() < 5e-3


def test_substeps_tend_to_the_same_motion() -> None:
    states, actions = random_rows(50)
    coarse, fine, finest = (CartPole(substeps=count).step(states, actions) for count in (10, 100, 200))
    assert (fine - finest).abs().max() < (coarse - finest).abs().max() / 10


def test_the_paper_rewards_the_cosine_of_the_angle() -> None:
    states = torch.tensor([[0.1, 0.0, 0.0, 0.0], [0.0, math.pi / 3, 0.0, 0.0]], dtype=torch.float64)
    actions = torch.zeros(2, 1, dtype=torch.float64)
    rewards = CartPole().reward(states, actions, CartPole().step(states, actions))
    assert rewards.tolist() == pytest.approx([1.0, 0.5], abs=1e-15)


@pytest.mark.parametrize("cart_pole", [CartPole(), CartPole.public_simulator()])
def test_episodes_end_beyond_the_limits(cart_pole: CartPole) -> None:
    limit = cart_pole.angle_limit
    states = torch.tensor(
        [[0.3, 0.99 * limit, 9.0, 9.0], [0.0, 1.01 * limit, 0.0, 0.0], [-0.308, 0.0, 0.0, 0.0]],
        dtype=torch.float64,
    )
    assert cart_pole.terminal(states).tolist() == [False, True, True]


def test_the_papers_limit_is_three_degrees_and_starts_lie_within() -> None:
    cart_pole = CartPole()
    assert math.degrees(cart_pole.angle_limit) == pytest.approx(3.0)
    states = cart_pole.initial(1000, rng=generator(0))
    assert torch.equal(states, cart_pole.initial(1000, rng=generator(0)))
    assert not bool(cart_pole.terminal(states).any())
    # The largest of 1000 uniform draws misses the end by about a thousandth.
    assert states[:, 1].abs().max().item() == pytest.approx(math.radians(1.5), rel=0.01)
    assert states[:, [0, 2, 3]].abs().max().item() == 0.0


def test_a_fixed_start_needs_no_generator() -> None:
    assert CartPole(start_angle=0.0).initial(2).tolist() == [[0.0] * 4] * 2
    with pytest.raises(ArgumentError, match="pass rng or seed"):
        CartPole().initial(1)


def test_voltage_beyond_the_bounds_acts_as_the_bound() -> None:
    states, _ = random_rows(2)
    asked, bound = (torch.tensor([[a], [-a]], dtype=torch.float64) for a in (70.0, 24.0))
    assert torch.equal(CartPole().step(states, asked), CartPole().step(states, bound))


def test_whole_turns_change_nothing_but_the_angle() -> None:
    states, actions = random_rows(100)
    turned = states.clone()
    turned[:, 1] += 2 * math.pi
    difference = CartPole().step(turned, actions) - CartPole().step(states, actions)
    expected = torch.tensor([0.0, 2 * math.pi, 0.0, 0.0], dtype=torch.float64).expand(100, 4)
    # Adding 2π costs the angle about 10⁻¹⁵, times accelerations of order 10².
    torch.testing.assert_close(difference, expected, rtol=0, atol=1e-12)


def test_no_method_changes_its_inputs() -> None:
    states, actions = random_rows(20)
    before = states.clone(), actions.clone()
    CartPole().reward(states, actions, CartPole().step(states, actions))
    balancing_feedback(CartPole())(states)
    assert torch.equal(states, before[0])
    assert torch.equal(actions, before[1])


def test_the_description_names_every_dimension() -> None:
    cart_pole = CartPole()
    assert cart_pole.state_names == ("position", "angle", "velocity", "angular_velocity")
    assert cart_pole.action_names == ("voltage",)
    assert dict(cart_pole.angles) == {"angle": 2 * math.pi}
    assert cart_pole.state_high.tolist() == [0.307, math.radians(3.0), 1.0, 3.0]
    assert torch.equal(cart_pole.state_low, -cart_pole.state_high)
    assert (cart_pole.action_low.tolist(), cart_pole.action_high.tolist()) == ([-24.0], [24.0])


def test_the_moving_mass_is_the_known_one() -> None:
    assert CartPole().moving_mass == pytest.approx(0.50313, abs=5e-6)  # five decimals are given


@pytest.mark.parametrize(
    "name", ["pole_length", "rate", "cart_mass", "pinion_radius", "max_voltage", "angle_limit"]
)
@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_impossible_parameters_are_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(ArgumentError, match=name):
        CartPole(**cast(Any, {name: value}))


@pytest.mark.parametrize(
    "setting", [{"substeps": 0}, {"position_limit": 0.5}, {"start_angle": 0.06}, {"gravity": -1.0}]
)
def test_impossible_settings_are_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(setting))):
        CartPole(**setting)


def test_an_impossible_count_is_refused() -> None:
    with pytest.raises(ArgumentError, match="num_states"):
        CartPole().initial(0, rng=generator(0))

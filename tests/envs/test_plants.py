"""Every plant against a second implementation, by hand, and the promises that all plants make."""

import math
from typing import Any, cast

import gymnasium
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from nopg._seeding import generator
from nopg.envs import (
    LQR,
    CartPole,
    Environment,
    MountainCar,
    Pendulum,
    TwoTanks,
    check_environment,
)
from nopg.errors import ArgumentError

PLANTS = [Pendulum(start="random"), CartPole(), MountainCar(), LQR(), TwoTanks()]
CLIPPED = [plant for plant in PLANTS if not isinstance(plant, LQR)]

Tensor = torch.Tensor


def tensor(*rows: Any) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def drawn(low: list[float], high: list[float], count: int, seed: int = 0) -> Tensor:
    """Rows drawn uniformly from a box."""
    return torch.as_tensor(np.random.default_rng(seed).uniform(low, high, size=(count, len(low))))


# What all plants promise.


@pytest.mark.parametrize("plant", PLANTS)
def test_every_plant_keeps_the_contract(plant: Environment) -> None:
    check_environment(plant)


@pytest.mark.parametrize("plant", CLIPPED)
def test_actions_beyond_the_bounds_are_clipped(plant: Environment) -> None:
    assert torch.equal(plant.applied(plant.action_high[None] + 1.0), plant.action_high[None])


@pytest.mark.parametrize("plant", PLANTS)
def test_starts_lie_in_the_box_and_end_no_task(plant: Environment) -> None:
    starts = plant.initial(1000, rng=generator(0))
    assert starts.dtype == torch.float64
    assert starts.shape == (1000, len(plant.state_names))
    assert bool(((starts >= plant.state_low) & (starts <= plant.state_high)).all())
    assert not bool(plant.terminal(starts).any())
    assert torch.equal(starts, plant.initial(1000, rng=generator(0)))


@pytest.mark.parametrize("plant", PLANTS)
def test_impossible_starts_are_refused(plant: Environment) -> None:
    with pytest.raises(ArgumentError, match="num_states"):
        plant.initial(0, rng=generator(0))
    if not isinstance(plant, LQR):
        with pytest.raises(ArgumentError, match="pass rng"):
            plant.initial(1)


@given(turns=st.integers(-5, 5), angle=st.floats(-3.0, 3.0), speed=st.floats(-8.0, 8.0))
def test_whole_turns_change_nothing_but_the_angle(turns: int, angle: float, speed: float) -> None:
    turned = turns * 2 * math.pi
    for plant, rows in (
        (Pendulum(), tensor([angle, speed], [angle + turned, speed])),
        (CartPole(), tensor([0.1, angle, 0.2, speed], [0.1, angle + turned, 0.2, speed])),
    ):
        actions = torch.ones(2, 1, dtype=torch.float64)
        after = plant.step(rows, actions)
        rewards = plant.reward(rows, actions, after)
        moved = after[1] - after[0] - (rows[1] - rows[0])
        # Adding 5·2π costs the angle about 10⁻¹⁴, times accelerations of order 10².
        assert moved.abs().max().item() < 1e-12
        assert rewards[1].item() == pytest.approx(rewards[0].item(), abs=1e-12)


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
@pytest.mark.parametrize(
    ("plant", "name"),
    [(CartPole, "rate"), (CartPole, "max_voltage"), (TwoTanks, "pump_gain"), (LQR, "state_bound")],
)
def test_impossible_parameters_are_refused_by_name(plant: Any, name: str, value: float) -> None:
    with pytest.raises(ArgumentError, match=name):
        plant(**{name: value})


@pytest.mark.parametrize(
    ("plant", "settings", "message"),
    [
        (Pendulum, {"start": "sideways"}, "sideways"),
        (CartPole, {"start_angle": 0.06}, "start_angle"),
        (CartPole, {"start_angle": -0.01}, "start_angle"),
        (LQR, {"control": ((1.0, 2.0),)}, "control is"),
        (LQR, {"control": ((math.nan, 0.0), (0.0, 1.0))}, "control is"),
        (TwoTanks, {"set_points": (8.0, 6.0)}, "set_points"),
        (TwoTanks, {"set_points": (6.0, 25.0)}, "set_points"),
        (TwoTanks, {"pump_gain": 1.0}, "cannot be held: it needs 11.8 V"),
        (TwoTanks, {"upper_outlet": 0.05}, "28.2 cm in the upper tank"),
    ],
)
def test_impossible_settings_are_refused(plant: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        plant(**settings)


# The pendulum.


def test_ten_thousand_random_steps_of_the_pendulum_equal_gymnasiums() -> None:
    pendulum, env = Pendulum(), cast(Any, gymnasium.make("Pendulum-v1").unwrapped)
    states, actions = drawn([-20.0, -8.0], [20.0, 8.0], 10_000), drawn([-3.0], [3.0], 10_000, seed=1)
    next_states = pendulum.step(states, actions)
    rewards = pendulum.reward(states, actions, next_states)
    expected, paid = [], []
    for state, action in zip(states.numpy(), actions.numpy(), strict=True):
        env.state = state.copy()
        paid.append(env.step(action)[1])
        expected.append(env.state)  # the observation is float32, the state is not
    # Rounding of one step at |angle| ≤ 20 is below 10⁻¹⁴.
    np.testing.assert_allclose(next_states, np.array(expected), rtol=0, atol=1e-12)
    np.testing.assert_allclose(rewards, paid, rtol=0, atol=1e-12)
    assert not bool(pendulum.terminal(next_states).any())


def test_a_step_of_the_pendulum_by_hand() -> None:
    # sin(π/2) = 1: velocity 1 + (15 + 3·0.5)·0.05 = 1.825, angle π/2 + 1.825·0.05.
    states, actions = tensor([math.pi / 2, 1.0]), tensor([0.5])
    after = Pendulum().step(states, actions)
    assert after[0].tolist() == pytest.approx([math.pi / 2 + 0.09125, 1.825], abs=1e-14)
    reward = Pendulum().reward(states, actions, after).item()
    assert reward == pytest.approx(-(math.pi**2 / 4 + 0.1 + 0.00025), abs=1e-14)


def test_dynamics_are_differentiable_in_the_action() -> None:
    actions = torch.zeros(1, 1, dtype=torch.float64, requires_grad=True)
    velocity = Pendulum().step(Pendulum().initial(1), actions)[0, 1]
    (slope,) = torch.autograd.grad(velocity, actions)
    assert slope.item() == pytest.approx(0.15)  # 3/(ml²)·dt


# The cart-pole.


def cart_step(state: list[float], voltage: float, dt: float) -> list[float]:
    """One semi-implicit Euler step in the Quanser convention, θ = π upright, by Cramer's rule."""
    position, theta, velocity, spin = state[0], state[1] + math.pi, state[2], state[3]
    m_p, length, k_g, j_m, r_mp, r_m, k_t = 0.127, 0.3365 / 2, 3.71, 3.9e-7, 6.35e-3, 2.6, 0.00767
    j_eq, j_p = 0.37 + k_g**2 * j_m / r_mp**2, length**2 * m_p / 3

    voltage = max(-24.0, min(24.0, voltage))
    force = k_g * k_t / (r_m * r_mp) * (voltage - k_g * k_t * velocity / r_mp)
    a, b, d = m_p + j_eq, m_p * length * math.cos(theta), j_p + m_p * length**2
    e = force - 5.4 * velocity + m_p * length * math.sin(theta) * spin**2
    f = -0.0024 * spin - m_p * length * 9.81 * math.sin(theta)
    velocity += dt * (e * d - b * f) / (a * d - b * b)
    spin += dt * (a * f - b * e) / (a * d - b * b)
    return [position + dt * velocity, theta + dt * spin - math.pi, velocity, spin]


@pytest.mark.parametrize("rate", [50.0, 500.0])
def test_ten_thousand_random_steps_equal_one_cart_at_a_time(rate: float) -> None:
    states = drawn([-0.4, -4.0, -1.0, -3.0], [0.4, 4.0, 1.0, 3.0], 10_000)
    actions = drawn([-30.0], [30.0], 10_000, seed=1)
    rows = zip(states.tolist(), actions[:, 0].tolist(), strict=True)
    expected = [cart_step(row, voltage, 1 / rate) for row, voltage in rows]
    # Accelerations of order 10² over 0.02 s round below 10⁻¹³; adding π costs 10⁻¹⁵.
    np.testing.assert_allclose(CartPole(rate=rate).step(states, actions), expected, rtol=0, atol=1e-12)


def test_episodes_of_the_cart_end_beyond_the_limits_of_three_degrees_and_31_centimetres() -> None:
    cart_pole, limit = CartPole(), math.radians(3.0)
    rows = tensor([0.3, 0.99 * limit, 9.0, 9.0], [0.0, 1.01 * limit, 0.0, 0.0], [-0.308, 0.0, 0.0, 0.0])
    assert cart_pole.terminal(rows).tolist() == [False, True, True]
    rewards = cart_pole.reward(tensor([0.1, 0.0, 0.0, 0.0], [0.0, math.pi / 3, 0.0, 0.0]), rows, rows)
    assert rewards.tolist() == pytest.approx([1.0, 0.5], abs=1e-15)
    starts = cart_pole.initial(1000, rng=generator(0))
    # The largest of 1000 uniform draws misses the end by about a thousandth.
    assert starts[:, 1].abs().max().item() == pytest.approx(math.radians(1.5), rel=0.01)
    assert starts[:, [0, 2, 3]].abs().max().item() == 0.0
    assert CartPole(start_angle=0.0).initial(2).tolist() == [[0.0] * 4] * 2
    assert CartPole.moving_mass == pytest.approx(0.50313, abs=5e-6)  # five decimals are given


# The mountain car.


def test_ten_thousand_random_steps_of_the_car_equal_gymnasiums() -> None:
    env, car = cast(Any, gymnasium.make("MountainCarContinuous-v0").unwrapped), MountainCar()
    states = drawn([-1.25, -0.08], [0.65, 0.08], 10_000)  # the walls and the goal included
    actions = drawn([-1.5], [1.5], 10_000, seed=1)
    next_states = car.step(states, actions)
    # Gymnasium computes in float64 from a state in float64, then rounds its result to float32.
    expected, ends = [], []
    for state, action in zip(states.numpy(), actions.numpy(), strict=True):
        env.state = state.copy()
        ends.append(env.step(action)[2])
        expected.append(env.state)
    np.testing.assert_allclose(next_states.numpy().astype(np.float32), np.array(expected), rtol=0, atol=1e-12)
    assert car.terminal(next_states).tolist() == ends
    assert 0 < sum(ends) < 10_000


def test_the_wall_takes_all_speed_and_rolling_back_over_the_goal_is_not_arriving() -> None:
    car = MountainCar()
    assert car.step(tensor([-1.19, -0.05]), tensor([-1.0])).tolist() == [[-1.2, 0.0]]
    rows = tensor([0.45, 0.0], [0.45, -1e-9], [0.4499, 0.07], [0.6, 0.07])
    assert car.terminal(rows).tolist() == [True, False, False, True]
    assert car.reward(rows, rows[:, :1], rows).tolist() == [-1.0] * 4  # the last step costs as much


# The regulator.


def test_ten_thousand_random_steps_equal_the_supplements_numbers() -> None:
    states, actions = drawn([-3.0] * 2, [3.0] * 2, 10_000), drawn([-20.0] * 2, [20.0] * 2, 10_000, seed=1)
    next_states = LQR().step(states, actions)
    x, u = states.numpy(), actions.numpy()
    expected = np.stack([1.2 * x[:, 0] + 0.1 * u[:, 0], 1.1 * x[:, 1] + 0.2 * u[:, 1]], axis=1)
    paid = -0.25 * x[:, 0] ** 2 - 0.125 * x[:, 1] ** 2 - 0.005 * (u[:, 0] ** 2 + u[:, 1] ** 2)
    # Sums of four products of order 10 round below 10⁻¹⁴.
    np.testing.assert_allclose(next_states, expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(LQR().reward(states, actions, next_states), paid, rtol=0, atol=1e-12)
    assert LQR().initial(2).tolist() == [[1.0, 1.0]] * 2


# The tanks.


def integrated(p: TwoTanks, levels: list[float], voltage: float) -> list[float]:
    """Return the levels after a step by the equations written out for one plant, and scipy."""

    def rates(_: float, h: Any) -> list[float]:
        through = p.upper_outlet * math.sqrt(2 * p.gravity * h[0])
        out = p.lower_outlet * math.sqrt(2 * p.gravity * h[1])
        return [(p.pump_gain * voltage - through) / p.upper_area, (through - out) / p.lower_area]

    solution = solve_ivp(rates, (0.0, p.time_step), levels, method="DOP853", rtol=1e-11, atol=1e-11)
    result: list[float] = solution.y[:, -1].tolist()
    return result


@pytest.mark.parametrize("tanks", [TwoTanks(), TwoTanks(upper_area=20.0, lower_outlet=0.06, pump_gain=2.5)])
def test_three_hundred_random_steps_equal_scipys(tanks: TwoTanks) -> None:
    states = drawn([6.0, 4.0, 6.0], [12.0, 16.0, 14.0], 300)  # no voltage empties or fills a tank in a step
    actions = drawn([-1.0], [8.0], 300, seed=1)
    after = tanks.step(states, actions)
    rows = zip(states[:, :2].tolist(), tanks.applied(actions)[:, 0].tolist(), strict=True)
    expected = [integrated(tanks, levels, voltage) for levels, voltage in rows]
    # Four substeps err by a few millionths of a centimetre, a thousandth of what a sensor reads.
    np.testing.assert_allclose(after[:, :2], expected, rtol=0, atol=1e-5)
    assert torch.equal(after[:, 2], states[:, 2])


def test_three_volts_hold_ten_centimetres_by_hand_and_starts_are_at_rest() -> None:
    # In: 3.35·3 = 10.05 cm³/s. Out at h: .071·√(1962 h), so h = (10.05/.071)²/1962 = 10.2123.
    after = TwoTanks().step(tensor([10.2123, 10.2123, 8.0]), tensor([3.0]))
    np.testing.assert_allclose(after[0, :2], [10.2123, 10.2123], rtol=0, atol=1e-4)
    tanks = TwoTanks(upper_outlet=0.08)
    for row in tanks.initial(5, rng=generator(0)):
        held = tanks.step(row[None], tensor([tanks.voltage_at(float(row[1]))]))
        np.testing.assert_allclose(held[0], row, rtol=0, atol=1e-12)  # one ulp of the flow per substep


def test_an_empty_tank_stays_empty_and_a_full_one_spills() -> None:
    tanks = TwoTanks()
    assert tanks.step(tensor([0.0, 0.0, 10.0]), tensor([0.0])).tolist() == [[0.0, 0.0, 10.0]]
    full, less = (tanks.step(tensor([20.0, 10.0, 10.0]), tensor([volts])) for volts in (10.0, 6.0))
    assert full[0, 0].item() == 20.0
    # What spills is lost: the lower tank gets what 20 cm of water press through the hole, no more.
    assert full[0, 1].item() == pytest.approx(less[0, 1].item(), abs=1e-9)


def test_the_reward_of_the_tanks_by_hand() -> None:
    states = tensor([3.0, 9.0, 12.0], [3.0, 12.5, 12.0], [0.0, 7.0, 7.0])
    rewards = TwoTanks().reward(states, tensor([2.0], [12.0], [-1.0]), states)
    # −(9 + .01·4); −(.25 + .01·100) with the voltage clipped to 10; nothing at the set point without pump.
    np.testing.assert_allclose(rewards, [-9.04, -1.25, 0.0], rtol=0, atol=1e-12)

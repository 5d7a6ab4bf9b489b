"""The two tanks against scipy's integration of their equations, their balance of water, and by hand."""

import math
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from nopg._seeding import generator
from nopg.envs import TwoTanks, level_controller, simulate
from nopg.errors import ArgumentError


def states_of(*rows: tuple[float, float, float]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def volts(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)[:, None]


def random_rows(count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """States from which no voltage empties or fills a tank within a step, and voltages beyond the bounds."""
    rng = np.random.default_rng(seed)
    states = rng.uniform([4.0, 4.0, 6.0], [12.0, 16.0, 14.0], size=(count, 3))
    return torch.as_tensor(states), torch.as_tensor(rng.uniform(-1.0, 8.0, size=(count, 1)))


def integrated(p: TwoTanks, levels: list[float], voltage: float) -> list[float]:
    """Return the levels after a step by the equations written out for one plant, and scipy."""

    def rates(_: float, h: Any) -> list[float]:
        through = p.upper_outlet * math.sqrt(2 * p.gravity * h[0])
        out = p.lower_outlet * math.sqrt(2 * p.gravity * h[1])
        return [(p.pump_gain * voltage - through) / p.upper_area, (through - out) / p.lower_area]

    solution = solve_ivp(rates, (0.0, p.time_step), levels, method="DOP853", rtol=1e-11, atol=1e-11)
    result: list[float] = solution.y[:, -1].tolist()
    return result


UNLIKE = {"upper_area": 20.0, "lower_outlet": 0.06, "pump_gain": 2.5, "time_step": 7.0}


# Four substeps err by a few millionths of a centimetre, a thousandth of what a sensor reads; the error falls
# with the fourth power of their length (below).
@pytest.mark.parametrize(("substeps", "error"), [(4, 1e-5), (64, 1e-9)])
@pytest.mark.parametrize("settings", [{}, UNLIKE])
def test_three_hundred_random_steps_equal_scipys(
    settings: dict[str, Any], substeps: int, error: float
) -> None:
    tanks = TwoTanks(**settings, substeps=substeps)
    states, actions = random_rows(300)
    next_states = tanks.step(states, actions)
    rows = zip(states[:, :2].tolist(), tanks.applied(actions)[:, 0].tolist(), strict=True)
    expected = [integrated(tanks, levels, voltage) for levels, voltage in rows]
    np.testing.assert_allclose(next_states[:, :2], expected, rtol=0, atol=error)
    assert torch.equal(next_states[:, 2], states[:, 2])


def test_finer_integration_falls_with_the_fourth_power_of_the_step() -> None:
    states, actions = random_rows(300, seed=1)
    exact = TwoTanks(substeps=64).step(states, actions)
    coarse, fine = ((TwoTanks(substeps=n).step(states, actions) - exact).abs().max().item() for n in (1, 2))
    assert 10 < coarse / fine < 30  # 16 in the limit


def test_what_the_tanks_gain_is_what_was_pumped_less_what_ran_out() -> None:
    """Water is kept: with the lower hole all but closed, both tanks hold what the pump has given."""
    closed = TwoTanks(lower_outlet=1e-9)
    states, actions = random_rows(200, seed=2)
    after = closed.step(states, actions)
    gained = 28.0 * (after[:, :2] - states[:, :2]).sum(dim=1)
    pumped = 3.35 * closed.applied(actions)[:, 0] * 10.0
    # Runge and Kutta's steps keep the sum of the levels exactly; the hole loses 10⁻⁶ cm³.
    np.testing.assert_allclose(gained, pumped, rtol=0, atol=1e-5)


@pytest.mark.parametrize("level", [6.0, 10.0, 14.0])
def test_the_steady_voltage_holds_both_levels(level: float) -> None:
    p = TwoTanks(upper_outlet=0.08)
    state = states_of((p.upper_level_at(level), level, level))
    after = p.step(state, volts(p.voltage_at(level)))
    # One ulp of a flow of 10 cm³/s per substep.
    np.testing.assert_allclose(after, state, rtol=0, atol=1e-12)


def test_three_volts_hold_ten_centimetres_by_hand() -> None:
    # In: 3.35·3 = 10.05 cm³/s. Out at h: .071·√(1962 h), so h = (10.05/.071)²/1962 = 10.2123.
    after = TwoTanks().step(states_of((10.2123, 10.2123, 8.0)), volts(3.0))
    np.testing.assert_allclose(after[0, :2], [10.2123, 10.2123], rtol=0, atol=1e-4)
    # T = 28/.071·√(20/981) = 56.31 s for both tanks at 10 cm.
    assert TwoTanks().time_constants_at(10.0) == pytest.approx((56.309, 56.309), abs=1e-3)


def test_near_rest_the_plant_is_two_lags_in_a_row() -> None:
    """A small step of the voltage follows the textbook's response of K/(Ts+1)²."""
    p = TwoTanks()
    V, T, size = p.voltage_at(10.0), p.time_constants_at(10.0)[0], 1e-3
    run = simulate(
        TwoTanks(), lambda s: volts(V + size), steps=40, initial_states=states_of((10.0, 10.0, 10.0))
    )
    t = 10.0 * torch.arange(41, dtype=torch.float64)
    gain = 2 * 10.0 / V
    expected = 10.0 + size * gain * (1 - (1 + t / T) * torch.exp(-t / T))
    # What the linear response leaves out is of second order: size² times the curvature, about 1 cm/V².
    np.testing.assert_allclose(run.states[:, 0, 1], expected, rtol=0, atol=5e-6)


def test_an_empty_tank_stays_empty_and_a_full_one_spills() -> None:
    tanks = TwoTanks()
    empty = tanks.step(states_of((0.0, 0.0, 10.0), (1e-4, 0.3, 10.0)), volts(0.0, 0.0))
    assert empty[0].tolist() == [0.0, 0.0, 10.0]
    assert empty[1, 0].item() == 0.0
    full = tanks.step(states_of((20.0, 10.0, 10.0)), volts(10.0))
    assert full[0, 0].item() == 20.0
    # What spills is lost: the lower tank gets what 20 cm of water press through the hole, no more.
    again = tanks.step(states_of((20.0, 10.0, 10.0)), volts(6.0))
    assert full[0, 1].item() == pytest.approx(again[0, 1].item(), abs=1e-9)


@given(
    upper=st.floats(0.0, 20.0),
    lower=st.floats(0.0, 20.0),
    voltage=st.floats(-50.0, 50.0),
)
def test_levels_stay_in_the_tanks(upper: float, lower: float, voltage: float) -> None:
    after = TwoTanks().step(states_of((upper, lower, 10.0)), volts(voltage))
    assert bool((after[:, :2] >= 0).all())
    assert bool((after[:, :2] <= 20).all())


@given(upper=st.floats(1.0, 15.0), lower=st.floats(1.0, 15.0), voltage=st.floats(0.0, 5.0))
def test_more_voltage_never_gives_less_water(upper: float, lower: float, voltage: float) -> None:
    state = states_of((upper, lower, 10.0), (upper, lower, 10.0))
    less, more = TwoTanks().step(state, volts(voltage, voltage + 0.5))
    assert bool((more >= less).all())


def test_the_reward_by_hand() -> None:
    tanks = TwoTanks(effort=0.1)
    states = states_of((3.0, 9.0, 12.0), (3.0, 12.5, 12.0), (0.0, 7.0, 7.0))
    rewards = tanks.reward(states, volts(2.0, 12.0, -1.0), torch.zeros(3, 3))
    # −(9 + .1·4), −(.25 + .1·100) with the voltage clipped to 10, and nothing at the set point without pump.
    np.testing.assert_allclose(rewards, [-9.4, -10.25, 0.0], rtol=0, atol=1e-12)


def test_starts_are_at_rest_and_repeat_with_their_generator() -> None:
    tanks = TwoTanks(upper_outlet=0.08)
    states = tanks.initial(1000, rng=generator(0))
    assert torch.equal(states, tanks.initial(1000, rng=generator(0)))
    assert states.dtype == torch.float64
    for row in states[:5].tolist():
        held = tanks.step(states_of((row[0], row[1], row[2])), volts(tanks.voltage_at(row[1])))
        np.testing.assert_allclose(held[0], row, rtol=0, atol=1e-12)
    # The extremes of 1000 uniform draws miss the ends by about a thousandth of the range.
    np.testing.assert_allclose(states[:, 1:].amin(dim=0), [6.0, 6.0], rtol=0, atol=0.05)
    np.testing.assert_allclose(states[:, 1:].amax(dim=0), [14.0, 14.0], rtol=0, atol=0.05)


def test_no_method_changes_its_inputs_and_nothing_is_terminal() -> None:
    tanks = TwoTanks()
    states, actions = random_rows(20)
    before = states.clone(), actions.clone()
    next_states = tanks.step(states, actions)
    tanks.reward(states, actions, next_states)
    assert torch.equal(states, before[0])
    assert torch.equal(actions, before[1])
    assert tanks.terminal(next_states).tolist() == [False] * 20


def test_the_description_names_every_dimension() -> None:
    tanks = TwoTanks()
    assert (tanks.state_names, tanks.action_names) == (("upper", "lower", "set_point"), ("voltage",))
    assert dict(tanks.angles) == {}
    assert (tanks.state_low.tolist(), tanks.state_high.tolist()) == ([0.0, 0.0, 6.0], [20.0, 20.0, 14.0])
    assert (tanks.action_low.tolist(), tanks.action_high.tolist()) == ([0.0], [10.0])


# The controller.


def test_the_controllers_first_voltages_by_hand() -> None:
    # At 10 cm: V = 2.96868, gain 20/V = 6.73700, T₁ = T₂ = 56.3093. τ = 84.4640, θ = 33.1547.
    # K = 84.4640/(6.73700·66.3093) = .189073, T = min(84.46, 265.2). e = 2.
    controller = level_controller(TwoTanks())
    state = states_of((10.0, 10.0, 12.0))
    expected = [2.96868 + 2 * 0.189073 * (1 + k * 10 / 84.4640) for k in range(3)]
    assert [controller(state).item() for _ in range(3)] == pytest.approx(expected, abs=1e-5)
    # A slower loop: τ_c = 100, K = 84.4640/(6.73700·133.1547) = .0941557.
    slow = level_controller(TwoTanks(), closed_loop_time=100.0)
    assert slow(state).item() == pytest.approx(2.96868 + 2 * 0.0941557, abs=1e-5)


def test_the_controller_reaches_every_set_point_without_offset() -> None:
    tanks = TwoTanks()
    run = simulate(tanks, level_controller(tanks), steps=150, num_episodes=100, rng=generator(0))
    assert (run.states[-1, :, 1] - run.states[-1, :, 2]).abs().max().item() < 1e-3
    # SIMC is meant to be smooth: no more than a quarter of the change of set point beyond it.
    change = run.states[0, :, 2] - run.states[0, :, 1]
    beyond = (run.states[:, :, 1] - run.states[0, :, 2]) * change.sign()
    assert bool((beyond.amax(dim=0) <= 0.25 * change.abs()).all())


def test_the_controller_does_not_wind_up_at_a_bound() -> None:
    weak = TwoTanks(max_voltage=3.55)  # 14 cm take 3.51 V
    run = simulate(weak, level_controller(weak), steps=200, initial_states=states_of((6.0, 6.0, 14.0)))
    lower, voltage = run.states[:, 0, 1], run.actions[:, 0, 0]
    assert voltage.max().item() <= 3.55
    assert int((voltage == 3.55).sum()) > 5  # the bound was met
    assert lower.max().item() < 14.2


@pytest.mark.parametrize("name", ["upper_area", "lower_outlet", "pump_gain", "max_voltage", "time_step"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_impossible_parameters_are_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(ArgumentError, match=name):
        TwoTanks(**cast(Any, {name: value}))


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"effort": -1.0}, "effort"),
        ({"substeps": 0}, "substeps"),
        ({"set_points": (8.0, 6.0)}, "set_points"),
        ({"set_points": (6.0, 25.0)}, "set_points"),
        ({"max_voltage": 3.0}, "cannot be held: it needs 3.51 V"),
        ({"upper_outlet": 0.05}, "28.2 cm in the upper tank"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], match: str) -> None:
    with pytest.raises(ArgumentError, match=match):
        TwoTanks(**settings)


def test_impossible_requests_are_refused() -> None:
    with pytest.raises(ArgumentError, match="num_states"):
        TwoTanks().initial(0, rng=generator(0))
    with pytest.raises(ArgumentError, match="pass rng or seed"):
        TwoTanks().initial(1)
    with pytest.raises(ArgumentError, match="tuned_at"):
        level_controller(TwoTanks(), tuned_at=25.0)
    with pytest.raises(ArgumentError, match="closed_loop_time"):
        level_controller(TwoTanks(), closed_loop_time=0.0)

"""The mountain car against Gymnasium's and against its equations written out for one car."""

import math
from typing import Any, cast

import gymnasium
import numpy as np
import pytest
import torch

from nopg._seeding import generator
from nopg.envs import MountainCar, simulate
from nopg.errors import ArgumentError


def random_rows(count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """States over the whole road, the walls and the goal included, and throttles beyond the bounds."""
    rng = np.random.default_rng(seed)
    states = rng.uniform([-1.25, -0.08], [0.65, 0.08], size=(count, 2))
    return torch.as_tensor(states), torch.as_tensor(rng.uniform(-1.5, 1.5, size=(count, 1)))


def scalar_step(position: float, velocity: float, throttle: float) -> tuple[list[float], bool]:
    force = max(-1.0, min(1.0, throttle))
    velocity += force * 0.0015 - 0.0025 * math.cos(3 * position)
    velocity = max(-0.07, min(0.07, velocity))
    position = max(-1.2, min(0.6, position + velocity))
    if position == -1.2 and velocity < 0:
        velocity = 0.0
    return [position, velocity], position >= 0.45 and velocity >= 0


def test_ten_thousand_random_steps_equal_gymnasiums() -> None:
    env = cast(Any, gymnasium.make("MountainCarContinuous-v0").unwrapped)
    car = MountainCar(rewards="gymnasium")
    states, actions = random_rows(10_000)
    next_states = car.step(states, actions)
    terminal = car.terminal(next_states)

    # Gymnasium computes in float64 from a state in float64, then rounds its result to float32.
    expected, ends = [], []
    for state, action in zip(states.numpy(), actions.numpy(), strict=True):
        env.state = state.copy()
        _, _, terminated, _, _ = env.step(action)
        expected.append(env.state)
        ends.append(terminated)
    rounded = next_states.numpy().astype(np.float32)
    np.testing.assert_allclose(rounded, np.array(expected), rtol=0, atol=1e-12)
    assert terminal.tolist() == ends
    assert 0 < sum(ends) < 10_000


def test_gymnasiums_rewards_are_an_option() -> None:
    env = cast(Any, gymnasium.make("MountainCarContinuous-v0").unwrapped)
    car = MountainCar(rewards="gymnasium")
    states, actions = random_rows(10_000)
    actions = car.applied(actions)  # beyond the bounds Gymnasium charges what was asked
    rewards = car.reward(states, actions, car.step(states, actions))

    expected = []
    for state, action in zip(states.numpy(), actions.numpy(), strict=True):
        env.state = state.copy()
        expected.append(env.step(action)[1])
    np.testing.assert_allclose(rewards, expected, rtol=0, atol=1e-12)


def test_ten_thousand_random_steps_equal_one_car_at_a_time() -> None:
    car = MountainCar()
    states, actions = random_rows(10_000, seed=1)
    next_states = car.step(states, actions)

    rows = zip(states.tolist(), actions[:, 0].tolist(), strict=True)
    expected = [scalar_step(state[0], state[1], throttle) for state, throttle in rows]
    # Numbers of order 1 round below 10⁻¹⁵.
    np.testing.assert_allclose(next_states, [state for state, _ in expected], rtol=0, atol=1e-12)
    assert car.terminal(next_states).tolist() == [end for _, end in expected]


def test_the_wall_takes_all_speed() -> None:
    states = torch.tensor([[-1.19, -0.05]], dtype=torch.float64)
    assert MountainCar().step(states, -torch.ones(1, 1, dtype=torch.float64)).tolist() == [[-1.2, 0.0]]


def test_every_step_costs_one_and_the_last_one_too() -> None:
    states = torch.tensor([[-0.5, 0.0], [0.44, 0.07]], dtype=torch.float64)
    actions = torch.ones(2, 1, dtype=torch.float64)
    next_states = MountainCar().step(states, actions)
    assert MountainCar().terminal(next_states).tolist() == [False, True]
    assert MountainCar().reward(states, actions, next_states).tolist() == [-1.0, -1.0]


def test_rolling_back_over_the_goal_is_not_arriving() -> None:
    states = torch.tensor([[0.45, 0.0], [0.45, -1e-9], [0.4499, 0.07], [0.6, 0.07]], dtype=torch.float64)
    assert MountainCar().terminal(states).tolist() == [True, False, False, True]


def test_swinging_reaches_the_goal_and_full_throttle_does_not() -> None:
    swing = simulate(
        MountainCar(), lambda states: states[:, 1:].sign(), steps=500, num_episodes=20, rng=generator(0)
    )
    push = simulate(
        MountainCar(), lambda states: torch.ones(len(states), 1), steps=500, num_episodes=20, rng=generator(0)
    )
    assert bool(swing.terminated.any(0).all())
    assert bool((swing.returns > -130).all())  # an arrival within 130 steps from anywhere in the valley
    assert push.returns.tolist() == [-500.0] * 20


def test_starts_rest_in_the_valley_and_repeat_with_their_generator() -> None:
    states = MountainCar().initial(1000, rng=generator(0))
    assert torch.equal(states, MountainCar().initial(1000, rng=generator(0)))
    assert states.dtype == torch.float64
    assert states[:, 1].abs().max().item() == 0.0
    # The extremes of 1000 uniform draws miss the ends by about a thousandth of the range.
    assert states[:, 0].min().item() == pytest.approx(-0.6, abs=0.005)
    assert states[:, 0].max().item() == pytest.approx(-0.4, abs=0.005)


def test_no_method_changes_its_inputs() -> None:
    car = MountainCar(rewards="gymnasium")
    states, actions = random_rows(20)
    before = states.clone(), actions.clone()
    car.reward(states, actions, car.step(states, actions))
    assert torch.equal(states, before[0])
    assert torch.equal(actions, before[1])


def test_the_description_names_every_dimension() -> None:
    car = MountainCar()
    assert (car.state_names, car.action_names) == (("position", "velocity"), ("throttle",))
    assert dict(car.angles) == {}
    assert car.state_low.tolist() == [-1.2, -0.07]
    assert car.state_high.tolist() == [0.6, 0.07]
    assert (car.action_low.tolist(), car.action_high.tolist()) == ([-1.0], [1.0])


@pytest.mark.parametrize("name", ["power", "gravity", "max_speed"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_impossible_parameters_are_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(ArgumentError, match=name):
        MountainCar(**cast(Any, {name: value}))


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(ArgumentError, match="goal_position"):
        MountainCar(goal_position=0.7)
    with pytest.raises(ArgumentError, match="goal_velocity"):
        MountainCar(goal_velocity=math.nan)
    with pytest.raises(ArgumentError, match="rewards must be one of step, gymnasium"):
        MountainCar(rewards=cast(Any, "free"))
    with pytest.raises(ArgumentError, match="num_states"):
        MountainCar().initial(0, rng=generator(0))
    with pytest.raises(ArgumentError, match="pass rng or seed"):
        MountainCar().initial(1)

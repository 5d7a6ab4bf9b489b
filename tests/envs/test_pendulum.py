"""The pendulum against Gymnasium's, and the promises every environment makes."""

import math
from typing import Any, cast

import gymnasium
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nopg._seeding import generator
from nopg.envs import Environment, Pendulum
from nopg.errors import ArgumentError
from studies.paper_data import PENDULUM_GRIDS


def random_rows(count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """States over several turns and torques beyond the bounds."""
    rng = np.random.default_rng(seed)
    states = rng.uniform([-20.0, -8.0], [20.0, 8.0], size=(count, 2))
    return torch.as_tensor(states), torch.as_tensor(rng.uniform(-3.0, 3.0, size=(count, 1)))


def gymnasium_steps(states: torch.Tensor, actions: torch.Tensor, gravity: float = 10.0) -> tuple[Any, Any]:
    """Next states and rewards of Gymnasium, from each state on its own."""
    env = cast(Any, gymnasium.make("Pendulum-v1", g=gravity).unwrapped)
    next_states, rewards = [], []
    for state, action in zip(states.numpy(), actions.numpy(), strict=True):
        env.state = state.copy()
        _, reward, terminated, truncated, _ = env.step(action)
        next_states.append(env.state)  # the observation is float32, the state is not
        rewards.append(reward)
        assert (terminated, truncated) == (False, False)
    return np.array(next_states), np.array(rewards)


def test_ten_thousand_random_steps_equal_gymnasiums() -> None:
    pendulum = Pendulum()
    states, actions = random_rows(10_000)

    next_states = pendulum.step(states, actions)
    rewards = pendulum.reward(states, actions, next_states)

    expected_states, expected_rewards = gymnasium_steps(states, actions)
    # Rounding of one step at |angle| ≤ 20 is below 10⁻¹⁴.
    np.testing.assert_allclose(next_states.numpy(), expected_states, rtol=0, atol=1e-12)
    np.testing.assert_allclose(rewards.numpy(), expected_rewards, rtol=0, atol=1e-12)


def test_another_gravity_equals_gymnasiums() -> None:
    states, actions = random_rows(100)
    next_states = Pendulum(gravity=9.81).step(states, actions)
    expected, _ = gymnasium_steps(states, actions, gravity=9.81)
    np.testing.assert_allclose(next_states.numpy(), expected, rtol=0, atol=1e-12)


def test_a_step_computed_by_hand() -> None:
    # sin(π/2) = 1: velocity 1 + (15 + 3·0.5)·0.05 = 1.825, angle π/2 + 1.825·0.05.
    states = torch.tensor([[math.pi / 2, 1.0]], dtype=torch.float64)
    actions = torch.tensor([[0.5]], dtype=torch.float64)

    next_states = Pendulum().step(states, actions)
    reward = Pendulum().reward(states, actions, next_states)

    assert next_states[0].tolist() == pytest.approx([math.pi / 2 + 0.09125, 1.825], abs=1e-14)
    assert reward.item() == pytest.approx(-(math.pi**2 / 4 + 0.1 + 0.00025), abs=1e-14)


def test_mass_and_length_scale_the_acceleration() -> None:
    # sin(π/2) = 1, g = 9, m = 2, l = 3: 3·9/(2·3) + 3/(2·9)·1 = 4.5 + 1/6, over 0.1 s.
    pendulum = Pendulum(gravity=9.0, mass=2.0, length=3.0, time_step=0.1)
    states = torch.tensor([[math.pi / 2, 0.0]], dtype=torch.float64)
    next_states = pendulum.step(states, torch.ones(1, 1, dtype=torch.float64))
    assert next_states[0, 1].item() == pytest.approx(0.45 + 0.1 / 6, abs=1e-14)


def test_a_batch_equals_its_rows_one_by_one() -> None:
    pendulum = Pendulum()
    states, actions = random_rows(50)
    next_states = pendulum.step(states, actions)
    rewards = pendulum.reward(states, actions, next_states)

    for i in range(50):
        row = slice(i, i + 1)
        # One unit in the last place: vectorised sines may round differently.
        torch.testing.assert_close(
            pendulum.step(states[row], actions[row]), next_states[row], rtol=1e-15, atol=0
        )
        one = pendulum.reward(states[row], actions[row], next_states[row])
        torch.testing.assert_close(one, rewards[row], rtol=1e-15, atol=0)


def test_no_method_changes_its_inputs() -> None:
    pendulum = Pendulum()
    states, actions = random_rows(20)
    before = states.clone(), actions.clone()

    next_states = pendulum.step(states, actions)
    after = next_states.clone()
    pendulum.reward(states, actions, next_states)
    pendulum.terminal(next_states)
    pendulum.applied(actions)

    assert torch.equal(states, before[0])
    assert torch.equal(actions, before[1])
    assert torch.equal(next_states, after)


def test_changing_a_returned_bound_does_not_change_the_environment() -> None:
    pendulum = Pendulum()
    pendulum.action_high.zero_()
    assert pendulum.action_high.tolist() == [2.0]


def test_the_same_call_gives_the_same_answer() -> None:
    pendulum = Pendulum()
    states, actions = random_rows(20)
    assert torch.equal(pendulum.step(states, actions), pendulum.step(states, actions))


def test_torque_beyond_the_bounds_acts_as_the_bound() -> None:
    pendulum = Pendulum()
    states, _ = random_rows(2)
    asked = torch.tensor([[7.0], [-2.5]], dtype=torch.float64)
    bound = torch.tensor([[2.0], [-2.0]], dtype=torch.float64)

    next_states = pendulum.step(states, asked)

    assert torch.equal(pendulum.applied(asked), bound)
    assert torch.equal(next_states, pendulum.step(states, bound))
    rewards = pendulum.reward(states, asked, next_states)
    assert torch.equal(rewards, pendulum.reward(states, bound, next_states))


def test_velocity_never_exceeds_its_bound() -> None:
    states = torch.tensor([[math.pi / 2, 8.0], [-math.pi / 2, -8.0]], dtype=torch.float64)
    actions = torch.tensor([[2.0], [-2.0]], dtype=torch.float64)
    assert Pendulum().step(states, actions)[:, 1].tolist() == [8.0, -8.0]


def test_the_angle_is_not_wrapped_in_the_state() -> None:
    states = torch.tensor([[3.1, 8.0]], dtype=torch.float64)
    assert Pendulum().step(states, torch.zeros(1, 1, dtype=torch.float64))[0, 0].item() > math.pi


@given(
    angle=st.floats(-3.0, 3.0),
    velocity=st.floats(-8.0, 8.0),
    torque=st.floats(-2.0, 2.0),
    turns=st.integers(-5, 5),
)
def test_whole_turns_change_nothing_but_the_angle(
    angle: float, velocity: float, torque: float, turns: int
) -> None:
    pendulum = Pendulum()
    period = pendulum.angles["angle"]
    states = torch.tensor([[angle, velocity], [angle + turns * period, velocity]], dtype=torch.float64)
    actions = torch.full((2, 1), torque, dtype=torch.float64)

    next_states = pendulum.step(states, actions)
    rewards = pendulum.reward(states, actions, next_states)

    # Adding 5·2π costs the angle about 10⁻¹⁴.
    assert rewards[1].item() == pytest.approx(rewards[0].item(), abs=1e-12)
    assert next_states[1, 1].item() == pytest.approx(next_states[0, 1].item(), abs=1e-12)
    assert (next_states[1, 0] - next_states[0, 0]).item() == pytest.approx(turns * period, abs=1e-12)


def test_no_state_is_terminal() -> None:
    states, _ = random_rows(5)
    terminal = Pendulum().terminal(states)
    assert terminal.dtype == torch.bool
    assert terminal.tolist() == [False] * 5


def test_fixed_starts_hang_or_stand_still() -> None:
    assert Pendulum().initial(2).tolist() == [[math.pi, 0.0]] * 2
    assert Pendulum(start="upright").initial(1).tolist() == [[0.0, 0.0]]


def test_random_starts_fill_gymnasiums_box() -> None:
    states = Pendulum(start="random").initial(2000, rng=generator(0))
    assert states.shape == (2000, 2)
    assert states.dtype == torch.float64
    # The extremes of 2000 uniform draws miss the ends by a few thousandths of the range.
    assert states.amax(0).tolist() == pytest.approx([math.pi, 1.0], rel=0.01)
    assert states.amin(0).tolist() == pytest.approx([-math.pi, -1.0], rel=0.01)


def test_random_starts_repeat_with_their_generator() -> None:
    pendulum = Pendulum(start="random")
    assert torch.equal(pendulum.initial(3, rng=generator(1)), pendulum.initial(3, rng=generator(1)))
    assert not torch.equal(pendulum.initial(3, rng=generator(1)), pendulum.initial(3, rng=generator(2)))


def test_random_starts_ask_for_a_generator() -> None:
    with pytest.raises(ArgumentError, match="pass rng or seed"):
        Pendulum(start="random").initial(1)


def test_dynamics_are_differentiable_in_the_action() -> None:
    actions = torch.zeros(1, 1, dtype=torch.float64, requires_grad=True)
    velocity = Pendulum().step(Pendulum().initial(1), actions)[0, 1]
    (slope,) = torch.autograd.grad(velocity, actions)
    assert slope.item() == pytest.approx(0.15)  # 3/(ml²)·dt


def test_the_description_names_every_dimension() -> None:
    pendulum = Pendulum()
    assert pendulum.state_names == ("angle", "velocity")
    assert pendulum.action_names == ("torque",)
    assert dict(pendulum.angles) == {"angle": 2 * math.pi}
    assert pendulum.state_low.tolist() == [-math.pi, -8.0]
    assert pendulum.state_high.tolist() == [math.pi, 8.0]
    assert pendulum.action_low.tolist() == [-2.0]
    assert pendulum.action_high.tolist() == [2.0]


def test_one_number_per_row_is_asked_for_as_action() -> None:
    states, _ = random_rows(3)
    with pytest.raises(ValueError, match="unpack"):
        Pendulum().step(states, torch.zeros(3, dtype=torch.float64))


@pytest.mark.parametrize("name", ["mass", "length", "time_step", "max_speed", "max_torque"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_impossible_parameters_are_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(ArgumentError, match=name):
        Pendulum(**cast(Any, {name: value}))


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(ArgumentError, match="gravity"):
        Pendulum(gravity=math.nan)
    with pytest.raises(ArgumentError, match="sideways"):
        Pendulum(start=cast(Any, "sideways"))
    with pytest.raises(ArgumentError, match="num_states"):
        Pendulum().initial(0)


def test_an_environment_is_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        cast(Any, Environment)()


def test_each_paper_grid_has_the_size_it_is_named_by() -> None:
    assert list(PENDULUM_GRIDS) == [200, 450, 800, 1250, 1800, 3200]
    assert all(math.prod(points) == size for size, points in PENDULUM_GRIDS.items())

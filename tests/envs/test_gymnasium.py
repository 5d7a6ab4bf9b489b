"""The adapter under Gymnasium's own checker, its seeds, its ends and its pictures."""

from typing import Any, cast

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env

from nopg.envs import LQR, Pendulum
from nopg.envs.gymnasium import GymnasiumEnvironment
from nopg.errors import ArgumentError

NAMES = [f"nopg/{name}-v0" for name in ("CartPole", "LQR", "MountainCar", "Pendulum", "TwoTanks")]


def make(name: str, **settings: Any) -> Any:
    return cast(Any, gymnasium.make(name, **settings))


@pytest.mark.parametrize("name", NAMES)
# The checker warns of every unbounded observation and of every action outside [−1, 1]; ours have units.
@pytest.mark.filterwarnings("ignore:.*Box observation space (minimum|maximum) value is -?infinity")
@pytest.mark.filterwarnings("ignore:.*we recommend using a symmetric and normalized space")
def test_gymnasiums_checker_is_content(name: str) -> None:
    check_env(make(name).unwrapped)


def test_exactly_these_names_are_registered() -> None:
    ours = sorted(name for name in gymnasium.registry if name.startswith("nopg/"))
    assert ours == NAMES


def test_the_observation_is_the_raw_state() -> None:
    env = GymnasiumEnvironment(Pendulum())
    observation, info = env.reset(seed=0)
    assert observation.dtype == np.dtype(np.float64)
    assert (observation.tolist(), info) == ([np.pi, 0.0], {})

    states, actions = torch.tensor(observation)[None], torch.tensor([[1.5]], dtype=torch.float64)
    after, reward, *_ = env.step(np.array([1.5]))
    next_states = Pendulum().step(states, actions)
    assert after.tolist() == next_states[0].tolist()
    assert reward == Pendulum().reward(states, actions, next_states).item()


def test_info_holds_the_action_that_the_plant_received() -> None:
    env = GymnasiumEnvironment(Pendulum())
    env.reset(seed=0)
    assert env.step(np.array([7.0]))[4]["applied_action"].tolist() == [2.0]
    linear = GymnasiumEnvironment(LQR())
    linear.reset(seed=0)
    assert linear.step(np.array([700.0, 0.0]))[4]["applied_action"].tolist() == [700.0, 0.0]


def test_arriving_terminates_and_does_not_truncate() -> None:
    env = make("nopg/MountainCar-v0")
    env.reset(options={"state": [0.44, 0.05]})
    _, reward, terminated, truncated, _ = env.step(np.array([1.0]))
    assert (reward, terminated, truncated) == (-1.0, True, False)


def test_the_time_limit_truncates_and_does_not_terminate() -> None:
    env = make("nopg/Pendulum-v0", max_episode_steps=3)
    env.reset(seed=0)
    ends = [env.step(np.array([0.0]))[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]


def test_a_step_asks_for_a_reset_first() -> None:
    env = GymnasiumEnvironment(Pendulum())
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.zeros(1))


def test_impossible_requests_are_refused() -> None:
    env = GymnasiumEnvironment(Pendulum())
    with pytest.raises(ArgumentError, match="state to start in"):
        env.reset(options={"state": [1.0]})
    env.reset(seed=0)
    for action in ([np.nan], [1.0, 2.0]):
        with pytest.raises(ArgumentError, match="give finite torque"):
            env.step(np.array(action))

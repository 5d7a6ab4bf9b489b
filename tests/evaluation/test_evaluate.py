"""Everything that acts goes into one function, and ours goes into another library's."""

import math
from typing import Any

import d3rlpy
import gymnasium
import numpy as np
import pytest
import stable_baselines3
import torch
from hypothesis import given
from hypothesis import strategies as st

import nopg
from nopg.baselines._d3rlpy import to_d3rlpy
from nopg.data import Schema
from nopg.envs import CartPole, Pendulum, collect_grid, simulate
from nopg.envs.gymnasium import GymnasiumEnvironment
from nopg.errors import ArgumentError
from nopg.evaluation import control_law, evaluate
from nopg.policies import LinearPolicy

PENDULUM = Schema(Pendulum().state_names, Pendulum().action_names, dict(Pendulum().angles))


def swing(states: torch.Tensor) -> torch.Tensor:
    return 2 * states[:, 1:].sign()


@pytest.fixture(scope="module")
def result() -> nopg.TrainingResult:
    return nopg.optimize(
        collect_grid(Pendulum(), (8, 8, 2)),
        0.9,
        model="paper",
        config=nopg.TrainingConfig(updates=5, progress=False),
    )


def test_a_function_returns_what_its_simulation_returns() -> None:
    found = evaluate(swing, Pendulum(), episodes=1, steps=200, seed=0)
    runs = simulate(Pendulum(), swing, steps=200)
    assert found.mean == pytest.approx(float(runs.returns[0]))
    assert found.discounted(0.97) == pytest.approx(float(runs.discounted_returns(0.97)[0]))
    assert found.lengths.tolist() == [200]


def test_episodes_that_end_count_until_then() -> None:
    found = evaluate(lambda s: 5 * torch.ones(len(s), 1), CartPole(), episodes=4, steps=1_000, seed=0)
    assert bool((found.lengths < 1_000).all())
    assert found.returns.tolist() == pytest.approx(found.rewards.sum(dim=0).tolist())
    again = evaluate(lambda s: 5 * torch.ones(len(s), 1), CartPole(), episodes=4, steps=1_000, seed=0)
    other = evaluate(lambda s: 5 * torch.ones(len(s), 1), CartPole(), episodes=4, steps=1_000, seed=1)
    assert found.returns.tolist() == again.returns.tolist() != other.returns.tolist()


def test_a_policy_of_ours_sees_features() -> None:
    gain = LinearPolicy([[0.0, 3.0, -1.0]])
    found = evaluate(gain, Pendulum(), episodes=1, steps=50, seed=0)
    same = evaluate(lambda s: 3.0 * s[:, :1].sin() - s[:, 1:], Pendulum(), episodes=1, steps=50, seed=0)
    assert found.mean == pytest.approx(same.mean, rel=1e-12)


def test_an_environment_of_gymnasium_is_run_by_its_own_rules() -> None:
    env = gymnasium.make("Pendulum-v1")
    asked: list[tuple[int, ...]] = []

    def act(states: torch.Tensor) -> torch.Tensor:
        asked.append(tuple(states.shape))
        return torch.zeros(len(states), 1)

    found = evaluate(act, env, episodes=2, steps=1_000, seed=0)
    assert found.lengths.tolist() == [200, 200]  # its own time limit
    assert set(asked) == {(1, 3)}
    assert bool((found.returns < 0).all())


def test_what_is_no_environment_is_refused() -> None:
    with pytest.raises(ArgumentError, match="str is no environment"):
        evaluate(swing, "Pendulum-v1", episodes=1, steps=10, seed=0)
    with pytest.raises(ArgumentError, match="both must be vectors"):
        evaluate(swing, gymnasium.make("CartPole-v1"), episodes=1, steps=10, seed=0)
    with pytest.raises(ArgumentError, match="give at least 1 of both"):
        evaluate(swing, Pendulum(), episodes=0, steps=10, seed=0)


@pytest.mark.filterwarnings("ignore::UserWarning:stable_baselines3")
def test_a_model_of_stable_baselines3_goes_in() -> None:
    model = stable_baselines3.DDPG("MlpPolicy", GymnasiumEnvironment(Pendulum()), seed=0)
    found = evaluate(model, Pendulum(), episodes=1, steps=20, seed=0)
    states = simulate(Pendulum(), control_law(model, PENDULUM), steps=20).states[:-1, 0]
    wanted, _ = model.predict(states.numpy().astype(np.float32), deterministic=True)
    given = control_law(model, PENDULUM)(states)
    assert np.allclose(given, wanted)
    assert -20 * 17 < found.mean < 0


def test_a_model_of_d3rlpy_goes_in_and_sees_features() -> None:
    data = collect_grid(Pendulum(), (4, 4, 2))
    model = d3rlpy.algos.BCConfig().create()
    model.build_with_dataset(to_d3rlpy(data))
    found = evaluate(model, Pendulum(), episodes=1, steps=20, seed=0)
    wanted = model.predict(data.features.numpy().astype(np.float32))
    assert np.allclose(control_law(model, PENDULUM)(data.states), wanted)
    assert found.mean < 0

    raw = d3rlpy.algos.BCConfig().create()
    raw.create_impl((2,), 1)
    assert np.allclose(
        control_law(raw, PENDULUM)(data.states), raw.predict(data.states.numpy().astype(np.float32))
    )


def test_what_cannot_act_is_refused() -> None:
    with pytest.raises(ArgumentError, match="int cannot act"):
        control_law(3, PENDULUM)
    unbuilt: Any = type("Model", (), {"observation_shape": (7,), "predict": None})()
    with pytest.raises(ArgumentError, match=r"observations of shape \(7,\)"):
        control_law(unbuilt, PENDULUM)


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=2))
def test_decoding_turns_features_back_into_states(state: list[float]) -> None:
    raw = torch.tensor([state], dtype=torch.float64)
    decoded = PENDULUM.decode(PENDULUM.encode(raw))
    assert torch.allclose(PENDULUM.encode(decoded), PENDULUM.encode(raw), atol=1e-9)
    assert abs(float(decoded[0, 0])) <= math.pi + 1e-12
    assert float(decoded[0, 1]) == state[1]

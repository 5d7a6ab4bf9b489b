"""Models of other libraries act as functions of raw states."""

import math
from typing import Any

import d3rlpy
import numpy as np
import pytest
import stable_baselines3
import torch
from hypothesis import given
from hypothesis import strategies as st

from nopg.baselines._d3rlpy import to_d3rlpy
from nopg.data import Schema
from nopg.envs import Pendulum, collect_grid, simulate
from nopg.envs.gymnasium import GymnasiumEnvironment
from nopg.errors import ArgumentError
from nopg.evaluation import control_law

PENDULUM = Schema(Pendulum().state_names, Pendulum().action_names, dict(Pendulum().angles))


@pytest.mark.filterwarnings("ignore::UserWarning:stable_baselines3")
def test_a_model_of_stable_baselines3_goes_in() -> None:
    model = stable_baselines3.DDPG("MlpPolicy", GymnasiumEnvironment(Pendulum()), seed=0)
    states = simulate(Pendulum(), control_law(model, PENDULUM), steps=20).states[:-1, 0]
    wanted, _ = model.predict(states.numpy().astype(np.float32), deterministic=True)
    given = control_law(model, PENDULUM)(states)
    assert np.allclose(given, wanted)


def test_a_model_of_d3rlpy_goes_in_and_sees_features() -> None:
    data = collect_grid(Pendulum(), (4, 4, 2))
    model = d3rlpy.algos.BCConfig().create()
    model.build_with_dataset(to_d3rlpy(data))
    wanted = model.predict(data.features.numpy().astype(np.float32))
    assert np.allclose(control_law(model, PENDULUM)(data.states), wanted)

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

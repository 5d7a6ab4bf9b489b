"""Controllers with derived columns in environments: what they see, and what they are told was applied."""

from __future__ import annotations

import pytest
import torch

from nopg._columns import Derived
from nopg.data import Schema
from nopg.envs import LQR, Pendulum, simulate
from nopg.errors import ObservationError
from nopg.policies import LinearPolicy
from nopg.training import Controller


def late(measured: tuple[str, ...] = ("angle", "velocity"), gain: float = 3.0) -> Controller:
    """Return torque = gain·velocity − ½·angle_lag1 − 0.2·torque_lag1 − 0.1·torque_lag2 on some columns."""
    derived = {
        "angle_lag1": Derived("angle", "angle"),
        "torque_lag1": Derived("0.25", "torque"),
        "torque_lag2": Derived("0.25", "torque_lag1"),
    }
    schema = Schema((*measured, *derived), ("torque",), derived=derived)
    weights = {"velocity": gain, "angle_lag1": -0.5, "torque_lag1": -0.2, "torque_lag2": -0.1}
    return Controller(LinearPolicy([[weights.get(name, 0.0) for name in schema.states]]), schema)


def test_a_simulation_feeds_measured_columns_and_the_clipped_actions_through_the_memory() -> None:
    controller, plant = late(), Pendulum()
    starts = torch.tensor([[0.1, 0.0], [3.0, 1.0], [-1.0, 2.0]], dtype=torch.float64)
    runs = simulate(plant, controller, steps=40, initial_states=starts)
    assert bool((runs.actions.abs() == 2.0).any())  # clipped, so that the memory has to know
    s, a = runs.states, runs.actions[..., 0]
    for t in range(40):
        angle = s[max(t - 1, 0), :, 0]
        one = a[t - 1] if t >= 1 else torch.full((3,), 0.25, dtype=torch.float64)
        two = a[t - 2] if t >= 2 else torch.full((3,), 0.25, dtype=torch.float64)
        wanted = 3.0 * s[t, :, 1] - 0.5 * angle - 0.2 * one - 0.1 * two
        torch.testing.assert_close(a[t], wanted.clamp(-2.0, 2.0), rtol=0, atol=1e-12)


def test_every_simulation_begins_with_an_empty_memory() -> None:
    controller = late()
    runs = [simulate(Pendulum(), controller, steps=20).actions for _ in range(2)]
    assert torch.equal(*runs)


def test_a_plant_may_have_more_columns_than_the_controller_measures() -> None:
    controller = late(("angle",), gain=0.0)
    runs = simulate(Pendulum(), controller, steps=10, initial_states=[[0.5, 1.0]])
    assert float(runs.actions[1, 0, 0]) == pytest.approx(
        -0.5 * 0.5 - 0.2 * float(runs.actions[0, 0, 0]) - 0.1 * 0.25
    )
    with pytest.raises(ObservationError, match=r"3 numbers \(angle, velocity, speed\) for each of 1 plants"):
        simulate(LQR(), late(("angle", "velocity", "speed")), steps=3)

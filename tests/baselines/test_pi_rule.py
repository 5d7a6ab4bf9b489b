"""First-order plants with delays from a log, and the PI controller of the rule."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

from nopg.baselines import baseline
from nopg.baselines._pi_rule import FirstOrderPlant, simc
from nopg.data import Transitions
from nopg.errors import DataError
from nopg.evaluation import OfflineEvaluator

GAIN, TIME, REST = 2.0, 12.0, 5.0


def log(delay: int, rows: int = 600, noise: float = 0.01, **settings: Any) -> Transitions:
    """Return a first-order plant under a noisy P controller with a moving set point."""
    rng = np.random.default_rng(0)
    decay = 1 - np.exp(-1 / TIME)
    y, point, past = 9.0, 8.0, [2.0] * (delay + 1)
    states, actions = [], []
    for _ in range(rows + 1):
        states.append([y, point])
        u = float(np.clip(1.5 + 0.3 * (point - y) + 0.5 * rng.normal(), 0.0, 5.0))
        actions.append([u])
        past = [u, *past[:-1]]
        y += decay * (GAIN * past[-1] + REST - y) + noise * rng.normal()
        point = rng.uniform(6.0, 12.0) if rng.random() < 0.02 else point
    s, a = np.array(states), np.array(actions)
    return Transitions.from_arrays(
        s[:-1],
        a[:-1],
        -np.square(s[:-1, 0] - s[:-1, 1]),
        s[1:],
        episodes=np.zeros(rows, dtype=int),
        state_names=["level", "setpoint"],
        action_names=["pump"],
        bounds={"pump": (0.0, 5.0)},
        **settings,
    )


def constant_target(target: float) -> Transitions:
    """Return a level under random pumping, beside a column that nothing pays for."""
    rng = np.random.default_rng(1)
    decay, level, drift = 1 - np.exp(-1 / TIME), [9.0], [0.0]
    u = np.repeat(rng.uniform(0.0, 5.0, 120), 5)
    for action in u:
        level.append(level[-1] + decay * (GAIN * action + REST - level[-1]) + 0.01 * rng.normal())
        drift.append(0.9 * drift[-1] + rng.normal())
    s = np.stack([drift, level], axis=1)
    rewards = -np.square(s[:-1, 1] - target) - 0.01 * np.square(u)
    return Transitions.from_arrays(
        s[:-1],
        u[:, None],
        rewards,
        s[1:],
        episodes=np.zeros(len(u), dtype=int),
        state_names=["drift", "level"],
        action_names=["pump"],
    )


@pytest.mark.parametrize("delay", [0, 3, 11])
def test_the_plant_is_found(delay: int) -> None:
    found = FirstOrderPlant.of(log(delay), "level", "pump")
    assert found.delay == delay
    assert found.gain == pytest.approx(GAIN, rel=0.05)
    assert found.time_constant == pytest.approx(TIME, rel=0.05)


def test_the_gains_are_those_of_the_rule() -> None:
    data = log(3).derive(lags={"level": 1, "setpoint": 1, "pump": 1})
    gains = simc(data, output="level", set_point="setpoint").gains
    assert gains["kp"] == pytest.approx(TIME / (2 * GAIN * 3.5), rel=0.05)
    assert gains["kp"] / gains["ki"] == pytest.approx(TIME, rel=0.05)  # below 8 · 3.5


def test_the_controller_settles_at_its_set_point_and_does_not_wind_up() -> None:
    data = log(2).derive(lags={"level": 1, "setpoint": 1, "pump": 1})
    rule = simc(data, output="level", set_point="setpoint")
    assert data.schema.states == ("level", "setpoint", "level_lag1", "setpoint_lag1", "pump_lag1")
    decay = 1 - np.exp(-1 / TIME)

    def settle(levels: list[float]) -> tuple[list[float], list[float]]:
        y, late, point, last, past, seen, applied = 9.0, 9.0, levels[0], 2.0, [2.0] * 3, [], []
        for target in levels:
            state = torch.tensor([[y, target, late, point, last]], dtype=torch.float64)
            last, late, point = float(rule.mode(state).detach()), y, target
            past = [last, *past[:-1]]
            y += decay * (GAIN * past[-1] + REST - y)
            seen.append(y)
            applied.append(last)
        return seen, applied

    seen, _ = settle([11.0] * 120)
    assert seen[-1] == pytest.approx(11.0, abs=0.01)
    # 30 is out of reach: 5 · 2 + 5 = 15. Back within reach the action leaves its bound at once.
    _, applied = settle([30.0] * 100 + [8.0] * 20)
    assert applied[99] == 5.0
    assert applied[100] < 5.0


def test_what_is_missing_is_named() -> None:
    how = r"derive\(.*\), or nopg fit … --set 'lags.\"level\"=1' --set 'lags.\"setpoint\"=1' --set"
    with pytest.raises(DataError, match=rf"pump_lag1, setpoint_lag1, level_lag1; add them with data\.{how}"):
        simc(log(0), output="level", set_point="setpoint")
    two = Transitions.from_arrays(np.zeros((3, 1)), np.zeros((3, 2)), np.zeros(3), np.zeros((3, 1)))
    with pytest.raises(DataError, match="there are 2 actions"):
        simc(two, output="s0", set_point=1.0)


def test_by_name_the_only_column_that_moves_follows_the_only_exogenous_one() -> None:
    lags = {"level": 1, "setpoint": 1, "pump": 1}
    data = log(2, exogenous=["setpoint"]).derive(lags=lags)
    rule = baseline("simc", data, 0.9)
    assert "(setpoint - level)" in rule.law.to_dict()["formulas"]["pump"]
    found = OfflineEvaluator(data, 0.9).compare({}, baselines=["simc"])
    assert found.gains["simc"].mean > 0  # the log is of a noisy P controller with an offset


def test_without_exogenous_columns_the_set_point_is_where_the_reward_is_highest() -> None:
    data = constant_target(11.0).derive(lags={"level": 1, "pump": 1})

    def set_point(**settings: Any) -> float:
        law = baseline("simc", data, 0.97, **settings).law.to_dict()["formulas"]["pump"]
        return float(re.findall(r"\(([\d.]+) - level\)", law)[-1])

    # Pumping costs a little; the dearest level is 5 away.
    assert set_point() == pytest.approx(11.0, abs=0.3)
    assert set_point(set_point=9.0) == 9.0

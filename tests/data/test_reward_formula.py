"""Rewards that are formulas of the columns."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from nopg import Transitions
from nopg.data.io import from_dataframe, read_csv, read_parquet, write_parquet
from nopg.errors import DataError
from nopg.evaluation import OfflineEvaluator
from nopg.models import LocalModel

FORMULA = "-(level - 1) ** 2 - 0.1 * valve ** 2"


def tank(rows: int = 200, seed: int = 0, reward: str = FORMULA) -> Transitions:
    """Return rows of a tank whose valve moves at random."""
    rng = np.random.default_rng(seed)
    level, valve = rng.uniform(0.0, 2.0, (rows, 1)), rng.uniform(-1.0, 1.0, (rows, 1))
    after = 0.9 * level + 0.3 * valve
    return Transitions.from_arrays(
        level, valve, reward, after, state_names=["level"], action_names=["valve"], initial_states=[[0.2]]
    )


def test_the_reward_of_each_row_is_that_of_the_formula() -> None:
    data = tank()
    wanted = -((data.states[:, 0] - 1) ** 2) - 0.1 * data.actions[:, 0] ** 2
    assert torch.allclose(data.rewards, wanted, rtol=0, atol=1e-15)
    assert data.schema.reward == FORMULA


def test_next_is_where_a_step_led_and_diff_the_short_way_round() -> None:
    data = Transitions.from_arrays(
        [[6.0]], [[0.0]], "next(angle) + 100 * diff(angle)", [[0.2]], state_names=["angle"], angles=["angle"]
    )
    assert float(data.rewards[0]) == pytest.approx(0.2 + 100 * (0.2 - 6.0 + 2 * math.pi))


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("-pressure ** 2", "'pressure' in the reward .* is neither a state nor an action"),
        ("-diff(valve) ** 2", "no row has 1 rows before it"),
        ("log(level - 5)", "is nan at row 0"),
    ],
)
def test_a_formula_that_cannot_be_computed_in_every_row_is_refused(formula: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        tank(reward=formula)


def test_the_model_computes_the_reward_and_does_not_learn_it() -> None:
    kinked = tank(120, reward="-abs(level - 1) ** 0.5 - 5 * (valve > 0.5)")
    evaluator = OfflineEvaluator(kinked, 0.9)
    assert evaluator.model.reward_function is not None
    paths = evaluator.assess(lambda levels: 0 * levels).paths
    part = paths.returns.shape[1]
    level = paths.states[:, :part, 0]
    assert torch.allclose(paths.rewards[:, :part], -((level - 1).abs() ** 0.5), atol=1e-12)
    learned = LocalModel(
        Transitions.from_arrays(kinked.states, kinked.actions, kinked.rewards, kinked.next_states)
    )
    assert learned.reward_function is None


def test_readers_take_a_formula_where_no_column_has_that_name(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"level [m]": rng.uniform(size=30), "valve": rng.uniform(size=30)})
    roles: Any = {"states": ["level [m]"], "actions": ["valve"], "reward": "-`level [m]` ** 2"}
    data = from_dataframe(frame, **roles)
    assert torch.equal(data.rewards, -(data.states[:, 0] ** 2))
    frame.to_csv(tmp_path / "tank.csv", index=False, float_format="%.17g")
    assert torch.equal(read_csv(tmp_path / "tank.csv", **roles).rewards, data.rewards)
    with pytest.raises(DataError, match="there is no column 'gain'"):
        from_dataframe(frame, **roles | {"reward": "gain"})


def moving_tank(reward: str, **settings: Any) -> Transitions:
    """Return two episodes of a tank, row after row."""
    rng = np.random.default_rng(3)
    valve, level = rng.uniform(-1.0, 1.0, 60), np.empty(61)
    level[0] = 0.2
    for k in range(60):
        level[k + 1] = 0.9 * level[k] + 0.3 * valve[k]
    return Transitions.from_arrays(
        level[:-1],
        valve,
        reward,
        level[1:],
        episodes=[0] * 30 + [1] * 30,
        state_names=["level"],
        action_names=["valve"],
        **settings,
    )


def test_diff_of_an_action_is_its_change_since_the_row_before_in_the_episode() -> None:
    data = moving_tank("-(level ** 2) - diff(valve) ** 2")
    logged = moving_tank("-(level ** 2)")
    assert data.schema.states == ("level", "valve_lag1")
    rows = torch.tensor([k for k in range(60) if k % 30])
    change = logged.actions[rows, 0] - logged.actions[rows - 1, 0]
    wanted = -(logged.states[rows, 0] ** 2) - change**2
    assert torch.allclose(data.rewards, wanted, rtol=0, atol=1e-14)  # the last bit of a power


def test_the_change_of_an_action_survives_a_file_and_declared_starts(tmp_path: Path) -> None:
    data = moving_tank("-diff(valve) ** 2", initial_states=[[0.5]])
    mean = float(moving_tank("level * 1").actions.mean())
    assert data.starts.tolist() == [[0.5, pytest.approx(mean)]]
    write_parquet(data, tmp_path / "tank.parquet")
    again = read_parquet(tmp_path / "tank.parquet")
    assert again.schema == data.schema
    assert torch.equal(again.rewards, data.rewards)
    frame = pd.DataFrame({"level": np.arange(5.0), "valve": [0.0, 1.0, 3.0, 6.0, 10.0]})
    read = from_dataframe(
        frame, states=["level"], actions=["valve"], reward="-diff(valve)**1", initial_states=[[2.0]]
    )
    assert read.rewards.tolist() == [-1.0, -2.0, -3.0]
    assert read.starts.shape == (1, 2)

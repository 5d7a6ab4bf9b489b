"""Actions with levels: declared, checked, kept by the controller wherever it acts, and chosen well."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

import nopg
from nopg import TrainingConfig, Transitions
from nopg._columns import Columns
from nopg._seeding import generator
from nopg.bellman._held_actions import action_candidates
from nopg.cli._app import app
from nopg.data import Schema
from nopg.data.io import from_dataframe, read_parquet, write_parquet
from nopg.deploy import GuardedController, GuardRules, load, to_onnx
from nopg.errors import ArgumentError, DataError, SupportWarning
from nopg.evaluation import OfflineEvaluator
from nopg.evaluation._comparison import cautious_return
from nopg.inspect import describe
from nopg.policies import LinearPolicy, MLPPolicy, QuantizedPolicy
from nopg.policies._description import describe_policy, policy_from
from nopg.training import Controller, TrainingResult
from nopg.training._improve import best_candidates, improve_by_candidates
from nopg.training._proposals import PARTS

LEVELS = (-1.0, 0.0, 1.0)


def tank(levels: Any = LEVELS, rows: int = 240) -> Transitions:
    """Return eight episodes of a tank whose pump is off or on in both directions, at random."""
    rng = np.random.default_rng(1)
    pump, level = rng.choice(LEVELS, size=rows), np.empty(rows)
    for k in range(rows):
        level[k] = rng.uniform(-2, 2) if k % 30 == 0 else 0.9 * level[k - 1] + 0.4 * pump[k - 1]
    return Transitions.from_arrays(
        level,
        pump,
        "-(level - 1)**2",
        0.9 * level + 0.4 * pump,
        episodes=np.arange(rows) // 30,
        state_names=["level"],
        action_names=["pump"],
        levels=levels and {"pump": levels},
    )


@pytest.fixture(scope="module")
def result() -> TrainingResult:
    with warnings.catch_warnings():  # eight starts of a random log hardly tell a gain
        warnings.simplefilter("ignore", SupportWarning)
        return nopg.optimize(tank(), 0.9, config=TrainingConfig(updates=5, seed=0, progress=False))


def test_logged_actions_must_be_among_the_levels() -> None:
    with pytest.raises(DataError, match=r"levels of 'pump' are 0, 1, but \d+ of 240 logged rows hold others"):
        tank((0.0, 1.0))
    frame = pd.DataFrame({"level": np.arange(4.0), "pump": [0.0, 1.0, 0.5, 0.0]})
    roles: Any = {"states": ["level"], "actions": ["pump"], "reward": "-level * 1"}
    with pytest.raises(DataError, match=r"row 2 has 0.5"):
        from_dataframe(frame, **roles, levels={"pump": (1, 0)})
    read = from_dataframe(frame, **roles, levels={"pump": (1, 0, 0.5)})
    assert read.schema.levels == {"pump": (0.0, 0.5, 1.0)}


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ({"level": (0.0, 1.0)}, "the actions are"),
        ({"pump": (0.0,)}, "two or more"),
        ({"pump": (1.0, 0.0)}, "rising"),
        ({"pump": (0.0, np.inf)}, "finite"),
        ({"pump": (0.0, 3.0)}, r"its bounds \[0, 2\]"),
    ],
)
def test_levels_that_cannot_be_are_refused(levels: dict[str, tuple[float, ...]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Schema(("level",), ("pump",), bounds={"pump": (0.0, 2.0)}, levels=levels)


def test_levels_go_with_a_file_of_ours(tmp_path: Path) -> None:
    write_parquet(tank(), tmp_path / "tank.parquet")
    assert read_parquet(tmp_path / "tank.parquet").schema == tank().schema


def test_describe_names_levels_that_are_not_declared_and_what_is_assumed() -> None:
    (found,) = [one for one in describe(tank(None)).findings if one.topic == "levels of actions"]
    assert found.grade == "warning"
    assert "pump takes -1, 0, 1 only; intermediate values are assumed to be possible" in found.what
    assert "levels = {pump = [-1, 0, 1]}" in found.advice
    (declared,) = [one for one in describe(tank()).findings if one.topic == "levels of actions"]
    assert declared.grade == "ok"


def test_a_quantized_policy_takes_the_nearest_level_with_the_gradient_of_its_network() -> None:
    rng = generator(0, "test")
    features, actions = torch.randn(80, 2, generator=rng).double(), torch.randn(80, 2, generator=rng).double()
    network = MLPPolicy.from_data(features, actions, rng=rng)
    nan = torch.nan
    policy = QuantizedPolicy(network, [[-1.0, 0.0, 0.0], [nan, nan, nan]])
    asked, found = network.mode(features), policy.mode(features)
    assert torch.equal(found[:, 0], torch.where(asked[:, 0] > -0.5, 0.0, -1.0).double())
    assert torch.equal(found[:, 1], asked[:, 1])
    weight = network.network.output.weight
    own, inner = (torch.autograd.grad(one.sum(), weight)[0] for one in (found, asked))
    assert torch.equal(own, inner)
    columns = Columns(("level",), ("pump", "valve"), levels={"pump": (-1.0, 0.0)})
    again = policy_from(describe_policy(policy), policy.state_dict(), columns)
    assert torch.equal(again.mode(features), found)


def test_candidates_are_the_levels_within_the_log() -> None:
    schema = Schema(("level",), ("pump", "valve"), levels={"pump": (-1.0, 0.0, 1.0, 9.0)})
    actions = torch.tensor([[-1.0, 0.0], [1.0, 4.0]], dtype=torch.float64)
    model = SimpleNamespace(data=SimpleNamespace(schema=schema), action_limits=actions)
    found = action_candidates(cast(Any, model))
    assert found[:, 0].unique().tolist() == [-1.0, 0.0, 1.0]
    assert found[:, 1].unique().tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_a_controller_takes_the_declared_levels_alone_and_is_evaluated_so(
    result: TrainingResult, tmp_path: Path
) -> None:
    states = np.linspace(-2, 2, 401)[:, None]
    chosen = np.asarray(result.policy(states))
    assert set(np.unique(chosen)) <= set(LEVELS)
    assert chosen[0] == 1.0  # far below the set point
    assert set(result.evaluation.paths.actions.unique().tolist()) <= set(LEVELS)
    robot = load(result.save(tmp_path / "run"))
    assert np.array_equal(robot(states), chosen)
    again = nopg.load(tmp_path / "run")
    assert again.policy.schema.levels == {"pump": LEVELS}
    assert np.array_equal(np.asarray(again.policy(states)), chosen)
    with pytest.raises(ArgumentError, match="cannot change by less"):
        GuardedController(robot, rules=GuardRules(max_change=0.5))


def test_an_exported_graph_takes_the_same_levels(result: TrainingResult, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    to_onnx(load(result.save(tmp_path / "pump", data=False)), tmp_path / "pump.onnx")
    states = np.linspace(-2, 2, 401)[:, None]
    (actions, *_) = onnxruntime.InferenceSession(tmp_path / "pump.onnx").run(None, {"observation": states})
    assert np.array_equal(actions, np.asarray(result.policy(states)))


def test_policy_iteration_over_the_levels_improves_a_policy_that_never_acts() -> None:
    data = tank()
    evaluator = OfflineEvaluator(data, 0.9)
    problem = evaluator.problem
    network = MLPPolicy.from_data(data.features, data.actions, rng=generator(0, "idle"))
    with torch.no_grad():
        for parameter in network.network.output.parameters():
            parameter.zero_()
    policy = QuantizedPolicy(network, [LEVELS])
    idle = cautious_return(evaluator.assess(policy, parts=PARTS).paths)
    assert not policy.mode(data.features).any()
    wanted = best_candidates(policy, problem, torch.tensor([[-2.0], [2.0]], dtype=torch.float64))
    assert wanted.tolist() == [[1.0], [-1.0]]
    assert improve_by_candidates(policy, evaluator, problem) >= 1
    assert cautious_return(evaluator.assess(policy, parts=PARTS).paths) > idle


def test_any_control_law_is_judged_at_the_nearest_level() -> None:
    evaluator = OfflineEvaluator(tank(), 0.9)
    asked = evaluator.assess(lambda states: 0.6 + 0 * states)
    full = evaluator.assess(lambda states: 1.0 + 0 * states)
    assert asked.expected_return == full.expected_return


def test_policies_that_do_not_keep_the_levels_are_refused(result: TrainingResult, tmp_path: Path) -> None:
    data = tank()
    for settings in ({"policy": "gaussian"}, {"model": "paper"}, {"policy": LinearPolicy([[1.0]])}):
        with pytest.raises(ArgumentError, match="levels"):
            nopg.optimize(data, 0.9, **settings)
    network = MLPPolicy.from_data(data.features, data.actions, rng=generator(0, "other"))
    with pytest.raises(ArgumentError, match="must be the same"):
        nopg.optimize(data, 0.9, policy=QuantizedPolicy(network, [[-1.0, 1.0]]))
    with pytest.raises(ArgumentError, match="does not keep them"):
        replace(result, policy=Controller(network, data.schema)).save(tmp_path / "other")


def test_the_command_line_takes_levels(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    pd.DataFrame({"level": np.arange(12.0) % 5, "pump": [0, 1] * 6}).to_csv(log, index=False)
    roles = ["describe", str(log), "--state", "level", "--action", "pump"]
    for levels, words in (
        ("[0, 1]", "declared: pump takes 0, 1 only"),
        ("'0;1'", "levels is {'pump': '0;1'}"),
    ):
        (tmp_path / "nopg.toml").write_text(f"levels = {{pump = {levels}}}")
        done = CliRunner().invoke(app, [*roles, "--json", "--config", str(tmp_path / "nopg.toml")])
        assert words in " ".join(done.output.split())

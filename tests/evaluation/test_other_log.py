"""A trained controller by another log of its plant: same units, own actions, as predicted."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import nopg
from nopg.data import Transitions
from nopg.data.io import from_dataframe
from nopg.errors import DataError
from nopg.evaluation import evaluate_on_log, match_log
from nopg.training import TrainingResult

GAMMA = 0.9
Law = Callable[[float, np.random.Generator], float]


def clumsy(level: float, rng: np.random.Generator) -> float:
    return 0.35 + 0.3 * (1.2 - level) + 0.1 * rng.standard_normal()


def cost_of(level: float, valve: float) -> float:
    return (level - 1) ** 2 + 0.05 * (valve - 0.35) ** 2


def tank_log(law: Law, *, runs: int = 8, steps: int = 40, seed: int = 0, flow: float = 0.3) -> pd.DataFrame:
    """Return a log of a tank whose level should be 1."""
    rng, rows = np.random.default_rng(seed), []
    for number in range(runs):
        level = rng.uniform(0.5, 1.5)
        for t in range(steps):
            valve = min(max(law(level, rng), 0.0), 1.0)
            rows.append((number, t, level, valve, -cost_of(level, valve)))
            level += flow * (valve - 0.35 * math.sqrt(level)) + 0.002 * rng.standard_normal()
    return pd.DataFrame(rows, columns=["run", "t", "level", "valve", "reward"])


def read(frame: pd.DataFrame, **changed: Any) -> Transitions:
    roles: dict[str, Any] = {"states": ["level"], "actions": ["valve"], "reward": "reward"}
    return from_dataframe(frame, **{**roles, "episode": "run", "time": "t", **changed})


@pytest.fixture(scope="module")
def result() -> TrainingResult:
    config = nopg.TrainingConfig(updates=2, progress=False)
    return nopg.optimize(read(tank_log(clumsy)), GAMMA, config=config)


@pytest.fixture(scope="module")
def bare(result: TrainingResult, tmp_path_factory: pytest.TempPathFactory) -> TrainingResult:
    """Return the controller as saved without its data."""
    return nopg.load(result.save(tmp_path_factory.mktemp("bare") / "tank", data=False))


@pytest.fixture(scope="module")
def own(result: TrainingResult) -> Law:
    return lambda level, _: float(result.policy(np.array([level]))[0])


def test_another_log_predicts_a_return_that_holds_and_agrees_with_the_promise(
    result: TrainingResult, own: Law
) -> None:
    data = read(tank_log(clumsy, seed=1, runs=10))
    found = evaluate_on_log(result, data)
    truth = np.mean([_return_from(start, own) for start in data.starts[:, 0].tolist()])
    assert found.assessment.interval[0] < truth < found.assessment.interval[1]
    assert (found.assessment.verdict, found.against_prediction) == ("ok", "as predicted")
    assert found.predicted is not None
    assert len(found.predicted.paths.starts) == 10
    assert found.own_actions < 0.5


def _return_from(level: float, law: Law, steps: int = 200) -> float:
    found, rng = 0.0, np.random.default_rng(0)
    for t in range(steps):
        valve = min(max(law(level, rng), 0.0), 1.0)
        found -= GAMMA**t * cost_of(level, valve)
        level += 0.3 * (valve - 0.35 * math.sqrt(level))
    return found


def test_a_plant_that_has_worn_earns_less_than_promised(result: TrainingResult, own: Law) -> None:
    found = evaluate_on_log(result, read(tank_log(own, seed=2, flow=0.1)))
    assert found.against_prediction == "less than predicted"


def test_without_its_data_nothing_is_predicted_by_the_training(bare: TrainingResult, own: Law) -> None:
    found = evaluate_on_log(bare, read(tank_log(own, seed=2, runs=2)))
    assert found.predicted is None
    assert found.against_prediction is None
    assert found.rows()["by the training"] == "saved without its data"


@pytest.mark.parametrize(("wrong", "whose"), [(16, "this"), (17, "another")])
def test_a_log_is_the_controllers_own_if_nineteen_of_twenty_actions_are(
    wrong: int, whose: str, result: TrainingResult, own: Law
) -> None:
    data = read(tank_log(own, steps=41))
    actions = data.actions.clone()
    actions[: 2 * wrong : 2] = actions[: 2 * wrong : 2] / 2 + 0.4
    found = evaluate_on_log(result, replace(data, actions=actions))
    assert found.own_actions == pytest.approx(1 - wrong / 320)
    assert found.rows()["recorded under"].startswith(f"{whose} controller: 95 % of the actions are its own")


@pytest.mark.parametrize(("share", "same"), [(0.009, 1.0), (0.011, 0.0)])
def test_an_action_is_the_controllers_within_a_hundredth_of_the_range(
    share: float, same: float, result: TrainingResult, own: Law
) -> None:
    data = read(tank_log(own))
    # All actions move by the same, so the range of both together is 1 + share of their own.
    moved = data.actions + share / (1 - share) * (data.actions.max() - data.actions.min())
    assert evaluate_on_log(result, replace(data, actions=moved)).own_actions == same


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"states": ["t"], "time": None}, "the states of may.csv are t, those of the controller are level"),
        ({"units": {"t": "min"}}, "the rows of may.csv are 60 s apart, those of the controller 1 s"),
    ],
)
def test_a_log_needs_the_columns_and_the_interval_of_the_controller(
    changed: dict[str, Any], words: str, result: TrainingResult
) -> None:
    with pytest.raises(DataError, match=words):
        match_log(result, read(tank_log(clumsy), **changed), name="may.csv")


def test_declared_units_must_be_those_of_the_controller(result: TrainingResult) -> None:
    policy = replace(result.policy, schema=replace(result.policy.schema, units={"level": "m"}))
    declared = replace(result, policy=policy)
    match_log(declared, read(tank_log(clumsy), units={"level": "m"}))
    with pytest.raises(DataError, match="the unit of level is cm in the log, m in the controller; convert"):
        match_log(declared, read(tank_log(clumsy), units={"level": "cm"}))


@pytest.mark.parametrize(("widths", "refused"), [(0.99, False), (1.01, True)])
def test_a_column_is_refused_once_most_of_it_lies_a_range_away(
    widths: float, refused: bool, result: TrainingResult, bare: TrainingResult
) -> None:
    levels = result.data.states[:, 0]
    far = float(levels.max() + widths * (levels.max() - levels.min()))
    for count, most in ((51, True), (49, False)):
        rows = [(0, t, far if t < count else 1.0, 0.3, -0.1) for t in range(101)]
        data = read(pd.DataFrame(rows, columns=["run", "t", "level", "valve", "reward"]))
        for trained in (result, bare):
            if refused and most:
                with pytest.raises(DataError, match=r"level lies between .* are the units others"):
                    match_log(trained, data)
            else:
                assert len(match_log(trained, data)) == 100

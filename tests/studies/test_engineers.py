"""The engineers' benchmark: its plants, scores, page, and the search for the best controller."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nopg
from nopg.baselines import NeuralConfig
from studies.engineers import ENGINEERS
from studies.engineers.best import search
from studies.engineers.neural_mpc import NeuralMPC, NeuralMPCConfig
from studies.engineers.page import page
from studies.engineers.scores import JUDGE, SEARCH, choices, scores
from studies.engineers.study import Job
from studies.engineers.task import TASKS
from studies.records import Record, append

STABLE = [task for task in TASKS.values() if task.behaviour != "random"]


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_the_trim_holds_the_target(task: Any) -> None:
    target = np.array([task.plant.target])
    moved = task.plant.step(target, np.array([task.plant.trim]))
    scale = np.subtract(task.plant.start_high, task.plant.start_low)
    # MuJoCo's contacts move a cart at rest by less than a micrometre per step.
    assert np.abs((moved - target) / scale).max() < 1e-5


@pytest.mark.parametrize("task", STABLE, ids=[task.name for task in STABLE])
def test_a_logging_pi_controller_without_dither_comes_to_rest_at_the_target(task: Any) -> None:
    plant, rng = task.plant, np.random.default_rng(0)
    steps = 1_500 if task.name == "servo-500hz" else 400
    runs = plant.run(task.controller()(20, rng), plant.starts(20, rng), steps, rng)
    away = (runs.measured[-100:] - plant.target).mean(axis=(0, 1))
    share = np.abs(away) / np.subtract(plant.start_high, plant.start_low)
    assert share[[price > 0 for price in plant.prices]].max() < 0.05


@pytest.mark.parametrize("name", ["pumped-tank", "delayed-furnace", "double-pendulum"])
def test_a_log_has_its_rows_and_declared_starts(name: str) -> None:
    task = TASKS[name]
    data = task.log(300, 0)
    assert len(data) == 300
    assert data.schema.states == tuple(task.plant.states)
    assert len(data.starts) == 20
    assert not np.array_equal(data.actions, task.log(300, 1).actions)


def test_the_search_finds_more_than_the_regulator_and_the_logged_controller() -> None:
    task = TASKS["motor-with-friction"]
    found = search(task, evaluations=15, softness=(1.0, 10.0))
    assert found.value > found.regulator
    assert found.evaluations >= 15
    best, logged = (task.returns(one, 0).mean() for one in (found.law.behaviour(), task.controller()))
    assert best > logged


def test_neural_mpc_beats_doing_nothing_on_a_linear_plant() -> None:
    rng = np.random.default_rng(0)
    states, actions = rng.uniform(-1.0, 1.0, (400, 1)), rng.uniform(-1.0, 1.0, (400, 1))
    following = states + 0.3 * actions
    rewards = -(following**2)[:, 0]
    data = nopg.Transitions.from_arrays(states, actions, rewards, following)
    config = NeuralMPCConfig(
        horizon=6, candidates=24, elites=4, models=NeuralConfig(members=2, hidden=16, model_updates=400)
    )
    act = NeuralMPC(data, 0.95, 0, config).controller(4)
    x, earned, idle = np.array([[-0.9], [-0.4], [0.5], [0.8]]), 0.0, 0.0
    for _ in range(12):
        idle -= float(np.square([-0.9, -0.4, 0.5, 0.8]).sum())
        x = x + 0.3 * act(x)
        earned -= float(np.square(x).sum())
    assert earned > 0.35 * idle
    assert np.abs(x).max() < 0.15


# Jobs


def test_a_job_with_a_record_is_not_missing(tmp_path: Path) -> None:
    wanted = [Job("pumped-tank", "behaviour", 0, 0), Job("pumped-tank", "behaviour", 0, 1)]
    (record,) = ENGINEERS.made(wanted[0])
    append(record, tmp_path)
    assert ENGINEERS.missing(wanted, tmp_path) == wanted[1:]
    assert record.role == "development"
    assert record.discounted == pytest.approx(np.mean(record.results["returns"]), rel=1e-4)


# Scores and page


def _record(plant: str, method: str, value: float | None, **values: Any) -> Record:
    facts: dict[str, Any] = {"rows": 500, "episodes": 4, "cpu_seconds": 7.0} | values
    return Record(
        study="engineers",
        benchmark=plant,
        method=method,
        commit="abc",
        discounted=value,
        role="report",
        **facts,
    )


def _log(plant: str, seed: int = 0, rows: int = 500, choice: str = "nopg") -> list[Record]:
    """Return records with scores of 50 for lqr, 30 for nopg, and a cloned controller that diverged."""
    judged = {"choice": choice, "evaluations": {"nopg": {}, "lqr": {}, "cloning": {}, "logged": {}}}
    shared: dict[str, Any] = {"seed": seed, "rows": rows}
    return [
        _record(
            plant, "behaviour", -10.0, seed=seed, rows=0, results={"returns": [-8.0, -8.0, -12.0, -12.0]}
        ),
        _record(plant, "best", -2.0, seed=seed, rows=0, results={"returns": [-2.0] * 4}),
        _record(plant, "lqr", -6.0, **shared),
        _record(plant, "nopg", -7.6, results={"judge": judged}, **shared),
        _record(plant, "cloning", None, **shared),
        _record(plant, "neural-mpc", -5.0, **(shared | {"episodes": 2})),
        _record(plant, "mpc", None, summary={"refused": "DataError: no"}, **shared),
    ]


def test_scores_go_from_the_logged_controller_to_the_best_in_the_same_episodes() -> None:
    (found,) = scores(_log("four-tank", choice="lqr")).values()
    assert found["lqr"] == pytest.approx(50.0)
    assert found["nopg"] == pytest.approx(30.0)
    assert found["neural-mpc"] == pytest.approx(50.0)  # −5 between −8 and −2, of the first two episodes
    assert found["cloning"] == -math.inf
    assert found["mpc"] == 0.0
    assert found[JUDGE] == found["lqr"]


def test_a_log_whose_best_controller_is_not_better_than_the_logged_one_has_no_score() -> None:
    records = [one for one in _log("four-tank") if one.method != "best"]
    assert scores(records) == {}
    worse = _record("four-tank", "best", -11.0, rows=0, results={"returns": [-13.0] * 4})
    assert scores([*records, worse]) == {}


def test_the_choice_of_the_judge_is_compared_with_what_it_could_choose_from() -> None:
    records = [*_log("four-tank", 0), *_log("four-tank", 1, choice="logged")]
    found = choices(records, scores(records))
    assert found["four-tank", 500, 0].best == pytest.approx(50.0)
    assert found["four-tank", 500, 0].best_name == "lqr"
    assert found["four-tank", 500, 1].score == 0.0


def test_the_page_begins_with_losses_and_lists_where_baselines_win() -> None:
    found = {"weights": [[0.0]], "return": -2.0, "regulator": -3.0, "evaluations": 40}
    records = [
        *_log("four-tank"),
        *_log("steam-drum", rows=2_000, choice="lqr"),
        *_log("pumped-tank"),
        _record("four-tank", SEARCH, None, rows=0, episodes=0, results=found),
    ]
    text = page(records)
    assert "beats our default by more than 5 points on\n2 of 2 report plants" in text
    assert "points on 1 of 2 logs." in text
    assert "| four-tank | 500 | 30 | lqr 50, neural-mpc 50 |" in text
    assert "| four-tank | 500 | 0 | nopg | 30 | lqr | 50 |" in text
    assert "| *pumped-tank* | 500 | 1 | < -999 | 50 | 0 |" in text
    assert "| steam-drum | 7 | 1 |" in text
    assert "| four-tank | -3 | -2 | 40 | -10 | -2 |" in text
    assert text.index("Losses first") < text.index("## Scores")
    prose = [line for line in text.splitlines() if not line.startswith("|")]
    assert sum(len(line.split()) for line in prose) <= 600

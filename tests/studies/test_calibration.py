"""The calibration study: plants that can be repeated, truths by simulation, records and their page."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from studies.calibration import CALIBRATION
from studies.calibration.cells import CELLS, PLANTS, Cell
from studies.calibration.page import page
from studies.calibration.statistics import Score, Share, area_under_curve
from studies.calibration.study import Job
from studies.plants.laws import StaticLaw
from studies.plants.plant import Plant, horizon
from studies.records import Record, append, read

SMALL = Cell("positioning-table", "feedback+dither", 120, 12, 0.9)


def direct_return(plant: Plant, law: StaticLaw, start: list[float], discount: float) -> float:
    """One noiseless episode, step by step, with the reward written out."""
    state, total = np.array([start]), 0.0
    for t in range(horizon(discount)):
        action = law(state)
        away, asked = state[0] - plant.target, action[0] - plant.trim
        total -= discount**t * float(np.dot(plant.prices, away**2) + np.dot(plant.action_prices, asked**2))
        state = plant.step(state, action)
        state = state if plant.limit is None else plant.limit(state)
    return total


@pytest.mark.parametrize(
    "cell", {cell.plant_name: cell for cell in CELLS}.values(), ids=lambda cell: cell.name
)
def test_a_log_is_the_same_for_the_same_seed_and_stays_within_the_declared_bounds(cell: Cell) -> None:
    first, again, other = cell.log(3), cell.log(3), cell.log(4)
    assert len(first) == cell.rows
    assert torch.equal(first.states, again.states)
    assert torch.equal(first.rewards, again.rewards)
    assert torch.equal(first.starts, again.starts)
    assert not torch.equal(first.states, other.states)
    plant = cell.plant
    for k, name in enumerate(first.schema.actions):
        low, high = first.schema.bounds[name]
        assert low <= first.actions[:, k].min() < first.actions[:, k].max() <= high
    for policy in plant.policies(3).values():
        actions = policy(first.states.numpy())
        assert (actions >= plant.action_low).all()
        assert (actions <= plant.action_high).all()
    assert set(first.schema.units) == {*plant.states, *plant.actions}


@pytest.mark.parametrize("name", PLANTS)
def test_the_target_is_a_state_that_the_trim_holds(name: str) -> None:
    plant, _ = PLANTS[name]
    target, trim = np.array([plant.target]), np.array([plant.trim])
    width = np.subtract(plant.start_high, plant.start_low)
    # The steady state of the chemostat is written with four digits.
    assert (np.abs(plant.step(target, trim) - target) < 1e-4 * width).all()


@pytest.mark.parametrize("name", ["positioning-table", "duffing-oscillator"])
def test_the_truth_is_the_return_of_a_direct_simulation(name: str) -> None:
    cell = Cell(name, "random", 60, 15, 0.9)
    for policy in cell.plant.policies(1).values():
        truth = cell.true_return(policy, 1)
        returns = [direct_return(cell.plant, policy, start, 0.9) for start in cell.log(1).starts.tolist()]
        assert truth.mean == pytest.approx(np.mean(returns), rel=1e-12)
        assert (truth.standard_error, truth.episodes) == (0.0, 4)


def test_no_plant_is_for_development_and_for_the_report() -> None:
    roles = {role: {c.plant_name for c in CELLS if c.role == role} for role in ("development", "report")}
    assert roles["development"] | roles["report"] == set(PLANTS)
    assert not roles["development"] & roles["report"]
    assert len(roles["report"]) >= 8


def test_a_run_is_recorded_once_per_policy_and_not_made_again(tmp_path: Path) -> None:
    job = Job(SMALL, 0, "given")
    records = CALIBRATION.made(job)
    assert [record.method for record in records] == list(SMALL.plant.policies(0))
    assert CALIBRATION.missing([job], tmp_path) == [job]
    for record in records:
        append(record, tmp_path)
    assert CALIBRATION.missing([job, Job(SMALL, 1, "given")], tmp_path) == [Job(SMALL, 1, "given")]
    assert [json.dumps(r.summary["interval"]) for r in read(tmp_path)] == [
        json.dumps(list(r.summary["interval"])) for r in records
    ]
    wanted = {"expected_return", "interval", "standard_error", "unknown_mass", "verdict", "reasons"}
    assert wanted | {"return_range", "logged_return"} <= set(records[0].summary)
    assert records[0].discounted == SMALL.true_return(SMALL.plant.policies(0)[records[0].method], 0).mean


def answer(seed: int, expected: float, **changes: Any) -> Record:
    """An answer with the interval expected ± 1 and the range 10, to the truth 0."""
    summary = {
        "expected_return": expected,
        "interval": [expected - 1.0, expected + 1.0],
        "standard_error": 0.5,
        "unknown_mass": 0.01 + 0.1 * abs(expected),
        "verdict": "ok",
        "return_range": 10.0,
        "logged_return": None,
    }
    record = Record(
        study="calibration",
        benchmark=SMALL.plant_name,
        method="near",
        rows=300,
        seed=seed,
        commit="abc",
        role="development",
        options={"behaviour": SMALL.behaviour, "steps": 30, "discount": 0.95, "policies": "given"},
        discounted=0.0,
        summary=summary,
        results={"from_new_starts": 5.0},
    )
    return replace(record, **changes)


def test_the_page_counts_covered_answers_and_finds_wrong_ones_by_their_warnings() -> None:
    good = [answer(seed, 0.1 * seed) for seed in range(9)]
    text = page([*good, answer(9, 3.0)])
    assert (
        f"| development | given | 10 | 100% | {Share(9, 10)} | 92 to 98 % | {Share(0, 10)} | none |" in text
    )
    assert "| development | given | 1 of 10 | 1.000 | 0.500 | 1.000 |" in text
    assert "| near | 1 of 10 | 1 / 0 |" in text


def test_the_score_separates_what_one_value_alone_does_not() -> None:
    rng = np.random.default_rng(0)
    values = np.exp(rng.normal(size=(400, 2)))
    positive = np.log(values).sum(axis=1) > 0
    score = Score.fit(values[:200], positive[:200])
    assert area_under_curve(score(values[200:]), positive[200:]) > 0.99
    assert area_under_curve(values[200:, 0], positive[200:]) < 0.9

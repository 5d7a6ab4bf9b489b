"""The study of trust: plants that can be repeated, faults that do what they say, truths and counts."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from studies.__main__ import main
from studies.records import Record
from studies.trust.case import Case, Facts
from studies.trust.controllers import LinearLaw
from studies.trust.dynamics import KINDS
from studies.trust.faults import FAULTS, Fault, Sim
from studies.trust.page import page
from studies.trust.study import FIRST_SEEDS, Job, regret
from studies.trust.trial import Trial, horizon

TANK = KINDS["tank"](np.random.default_rng(1))


def made(name: str, plant: Any = TANK, length: int = 10) -> Fault:
    """A fault with a drawn strength."""
    return FAULTS[name](plant, np.random.default_rng(0), length)


def begun(fault: Fault, num: int = 1) -> Sim:
    """Simulations that begin at the target."""
    sim = {"true": np.tile(TANK.target, (num, 1)), "progress": np.ones((num, 1))}
    fault.begin(sim, np.random.default_rng(1))
    return sim


def applied(fault: Fault, sim: Sim, commands: list[float]) -> list[float]:
    """What the plant feels of one command after another."""
    return [float(fault.applied(sim, np.array([[command]]))[0, 0]) for command in commands]


@pytest.mark.parametrize(
    ("fault", "recording"), [*((fault, False) for fault in FAULTS), ("none", True), ("set-points", True)]
)
def test_a_log_is_the_same_for_the_same_seed_and_another_for_another(fault: str, recording: bool) -> None:
    seeds = (
        seed for seed in range(20) if not recording or Facts.draw(Case(seed, recording=True)).steps == 700
    )
    case = Case(next(seeds), fault, episodes=0 if recording else 7, recording=recording)
    first, again, other = (Trial(one).log.data for one in (case, case, replace(case, seed=next(seeds))))
    assert torch.equal(first.states, again.states)
    assert torch.equal(first.rewards, again.rewards)
    assert not torch.equal(first.states[:100, 0], other.states[:100, 0])
    assert len(first.starts) == (len(first) if recording else 7)


def test_seeds_of_a_fault_share_plant_reward_and_logging() -> None:
    one, other = Facts.draw(Case(3)), Facts.draw(Case(3, "delay"))
    assert one == other


@pytest.mark.parametrize("kind", KINDS)
def test_the_target_is_a_state_that_the_trim_holds(kind: str) -> None:
    for seed in range(5):
        plant = KINDS[kind](np.random.default_rng(seed))
        after = plant.step(plant.target[None], plant.trim[None])
        assert np.abs(plant.away(after)).max() < 1e-9
        assert ((plant.low <= plant.trim) & (plant.trim <= plant.high)).all()


def test_the_truth_is_the_return_of_a_rollout_by_hand() -> None:
    seed = next(
        seed
        for seed in range(1_000)
        if (facts := Facts.draw(Case(seed))).kind == "tank"
        and (facts.noise, facts.sensor_noise, facts.reward) == ("none", False, "quadratic")
    )
    trial = Trial(Case(seed, episodes=5))
    plant, facts = trial.world.dynamics, trial.world.facts
    law, gamma = LinearLaw(plant, np.array([[0.7]])), facts.discount
    returns = []
    for start in trial.log.data.starts.numpy():
        level, total = start[None], 0.0
        for t in range(horizon(gamma)):
            after = plant.step(level, np.clip(plant.trim - 0.7 * (level - 1.0), 0.0, 1.0))
            counted = (after if facts.of_next else level)[0, 0]
            total += gamma**t * float(facts.constant - (counted - 1.0) ** 2 / plant.scale[0] ** 2)
            level = after
        returns.append(total)
    truth = trial.truth(law)
    assert truth.mean == pytest.approx(np.mean(returns), rel=1e-9)
    assert truth.error == pytest.approx(0.0, abs=1e-9)
    assert truth.paths >= 400


def test_a_delay_delays() -> None:
    fault = made("delay")
    rows, trim = int(fault.strength), float(TANK.trim[0])
    assert (
        applied(fault, begun(fault), [0.1, 0.2, 0.3, 0.4, 0.5])
        == [trim] * rows + [0.1, 0.2, 0.3, 0.4][: 5 - rows]
    )


def test_actuators_lag_stick_stop_and_age() -> None:
    limit, gear, stop, age = (made(name) for name in ("rate-limit", "backlash", "saturation", "ageing"))
    trim, half = float(TANK.trim[0]), 0.5
    step = limit.strength * half
    assert applied(limit, begun(limit), [1.0, 1.0]) == pytest.approx([trim + step, trim + 2 * step])
    band = gear.strength * half
    assert applied(gear, begun(gear), [trim + 0.9 * band, trim + 1.5 * band]) == pytest.approx(
        [trim, trim + 0.5 * band]
    )
    assert applied(stop, begun(stop), [9.0, -9.0]) == pytest.approx(
        [trim + stop.strength * half, trim - stop.strength * half]
    )
    aged = applied(age, begun(age), [trim + 0.1] * 11)
    assert aged[0] == pytest.approx(trim + 0.1)
    assert aged[10] == pytest.approx(trim + 0.1 * (1 - age.strength))


def test_seeds_of_the_roles_are_disjoint() -> None:
    assert Job(Case(FIRST_SEEDS["development"] + 999), "given").role == "development"
    assert Job(Case(FIRST_SEEDS["report"]), "given").role == "report"
    with pytest.raises(SystemExit):
        main(["trust", "--role", "development", "--policies", "given", "--seeds", "1001"])


def test_regret_is_what_the_choice_lost_of_what_could_be_won() -> None:
    truths = {"logged": -10.0, "network": -4.0, "lqr": -7.0}
    assert regret(truths, "network") == 0.0
    assert regret(truths, "lqr") == 0.5
    assert regret({**truths, "lqr": -20.0}, "lqr") == 1.0
    assert regret({"logged": 1.0, "lqr": 0.0}, "lqr") is None


def answer(seed: int, truth: float, **changes: Any) -> Record:
    """An `ok` answer with the interval [-1, 1]."""
    record = Record(
        study="trust",
        benchmark="tank",
        method="lqr",
        rows=100,
        seed=seed,
        commit="abc",
        role="development",
        options={"fault": "none", "episodes": 0, "recording": False, "pattern": "", "policies": "given"},
        discounted=truth,
        standard_error=0.1,
        summary={"expected_return": 0.0, "interval": [-1.0, 1.0], "verdict": "ok", "reasons": []},
        results={"from_new_starts": 0.0, "new_error": 0.1, "facts": {"episodes": 40}},
    )
    return replace(record, **changes)


def test_the_page_counts_a_wrong_ok_and_takes_the_last_version() -> None:
    text = page([answer(0, 5.0, commit="old"), answer(0, 0.0), answer(1, 1.5), answer(2, 0.0)])
    assert "## Verdicts by fault, development seeds" in text
    assert "| none | given | 3 | 3 of 3 (100%) | 1 of 3 (33%) | 0 of 3 (0%) |  | 0 | 0 |" in text
    assert "| development | none | 1 | tank | lqr | 100 | 40 | [-1, 1] | 1.5 | 0 |" in text


def test_kicks_are_counted_and_logs_without_one_have_a_row_of_their_own() -> None:
    fault, rng = made("kicks"), np.random.default_rng(0)
    sim = begun(fault, 500)
    for _ in range(100):
        before = sim["kicks"]
        moved = fault.moved(sim, sim["true"], rng) != sim["true"]
        assert (moved.any(axis=1, keepdims=True) == (sim["kicks"] > before)).all()
    assert sim["kicks"].sum() > 20  # of 50 000 chances of .001 at least, less four deviations
    trial = Trial(Case(0, "kicks"))
    assert trial.log.kicks is not None
    assert Trial(Case(0)).log.kicks is None
    options = {**answer(0, 0.0).options, "fault": "kicks"}
    kicked, without = (
        answer(seed, 0.0, options=options, results={**answer(0, 0.0).results, "facts": {"kicks": seed}})
        for seed in (1, 0)
    )
    text = page([kicked, without])
    assert "| kicks | given | 1 | 1 of 1 (100%) |" in text
    assert "| kicks, none in the log | given | 1 | 1 of 1 (100%) |" in text

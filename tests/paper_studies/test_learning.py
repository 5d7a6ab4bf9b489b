"""Learning studies: what is planned, what is counted, and how claims are judged."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from nopg.envs import MountainCar
from nopg.errors import ArgumentError, DataError, SolverError
from paper_studies.study_records import learning_record, study
from studies.baselines import PWIS
from studies.paper import EXPERIMENTS, Choice, Trial, run_trial
from studies.paper._demonstrations import read_demonstrations
from studies.paper._learning import score_of
from studies.paper._methods import METHODS
from studies.paper._tasks import MOUNTAIN_CAR, PENDULUM_GRID, TASKS

# Plans


def test_the_plan_is_the_supplements_sizes_ten_times_small_ones_first() -> None:
    plan = study("pendulum-grid").plan(Choice())
    assert [trial.size for trial in plan] == sorted(trial.size for trial in plan)
    assert {trial.size for trial in plan} == {200, 450, 800, 1250, 1800, 3200}
    for method in ("nopg-d", "nopg-s"):
        assert sum(trial.method == method and trial.size == 450 for trial in plan) == 10


def test_a_choice_narrows_the_plan() -> None:
    choice = Choice(modes=("faithful",), trials=2, sizes=(450,), methods=("nopg-s",))
    plan = study("pendulum-grid").plan(choice)
    assert plan == [Trial("pendulum-grid", "faithful", "nopg-s", 450, seed) for seed in (0, 1)]


def test_every_trial_has_its_own_record_and_quick_ones_their_own_file() -> None:
    choices = [Choice(modes=("ours", "faithful")), Choice(modes=("ours", "faithful"), quick=True)]
    trials = [t for e in EXPERIMENTS.values() for choice in choices for t in e.plan(choice)]
    assert len({trial.record().run for trial in trials}) == len(trials)
    assert all((trial.record().study == "paper-quick") == trial.quick for trial in trials)


def test_demonstrations_are_refused_by_experiments_without_any() -> None:
    with pytest.raises(ArgumentError, match="does not learn from demonstrations"):
        study("cart-pole").plan(Choice(demonstrations="drives.csv"))


# Data


def test_grids_are_those_of_the_supplement() -> None:
    assert len(PENDULUM_GRID.data(450, 0)) == 450
    with pytest.raises(ArgumentError, match="no grid of 451"):
        PENDULUM_GRID.data(451, 0)


def test_demonstrations_are_drawn_without_repetition() -> None:
    some = MOUNTAIN_CAR.data(3, seed=1)
    assert some.episodes is not None
    assert len(torch.unique(some.episodes)) == 3
    assert len(some.starts) == 3
    assert len(MOUNTAIN_CAR.data(10, seed=1)) == len(MOUNTAIN_CAR.data(10, seed=2))
    assert len({len(MOUNTAIN_CAR.data(1, seed)) for seed in range(10)}) > 1
    with pytest.raises(ArgumentError, match="11 cannot be drawn"):
        MOUNTAIN_CAR.data(11, seed=0)


def test_importance_sampling_does_not_apply_to_demonstrations() -> None:
    with pytest.raises(DataError, match="nobody knows the behaviour"):
        MOUNTAIN_CAR.logged(MOUNTAIN_CAR.data(1, seed=0))


def test_recorded_drives_count_minus_one_per_step_and_end_at_the_goal(tmp_path: Path) -> None:
    path = tmp_path / "drives.csv"
    path.write_text(
        "traj,pos,vel,action,reward_gym,next_pos,next_vel,done\n"
        "0,0.40,0.06,2.0,-0.1,0.46,0.06,1\n"
        "7,-0.5,0.0,-1.0,-0.1,-0.502,-0.002,0\n"
        "7,-0.502,-0.002,0.5,-0.1,-0.503,-0.001,1\n"
    )
    data = read_demonstrations(path)
    assert data.rewards.tolist() == [-1.0, -1.0, -1.0]
    assert data.terminated.tolist() == [True, False, False]
    assert data.truncated.tolist() == [False, False, True]
    assert data.actions[0].item() == 1.0  # as the car applies it
    assert data.schema.states == MountainCar.state_names

    path.write_text("traj,pos\n0,1\n")
    with pytest.raises(DataError, match="none of them is velocity or vel"):
        read_demonstrations(path)
    with pytest.raises(DataError, match="cannot read demonstrations"):
        read_demonstrations(tmp_path / "none.csv")


# Runs


def test_a_trial_runs_again_to_the_same_figures(tmp_path: Path) -> None:
    trial = Trial("mountain-car", "faithful", "nopg-d", 1, 0, quick=True)
    records = [run_trial(trial, tmp_path / name) for name in ("one", "two")]
    first, second = (
        {**r.results, "evaluations": [(e["updates"], e["return"]) for e in r.results["evaluations"]]}
        for r in records
    )
    assert first == second
    assert records[0].setup["data"] == records[1].setup["data"]
    assert first["demonstrator"] < -200
    assert first["drives"]["demonstrated"][0] == first["drives"]["learned"][0]


@pytest.mark.slow
def test_nothing_set_is_the_local_model_with_its_interval_to_the_same_figures(tmp_path: Path) -> None:
    trial = Trial("mountain-car", "ours", "nopg-d", 1, 0, quick=True)
    first, second = (run_trial(trial, tmp_path / name).results for name in ("one", "two"))
    assert first["model"] == "local"
    assert first["interval"][0] <= first["predicted"] <= first["interval"][1]
    assert first["verdict"] in {"ok", "weak", "not identifiable"}
    (last,) = first["evaluations"]
    assert last["updates"] <= 20
    for name in ("predicted", "interval", "returns"):
        assert first[name] == second[name]


def test_the_supplements_settings_are_what_is_run(tmp_path: Path) -> None:
    record = run_trial(Trial("pendulum-grid", "faithful", "nopg-s", 200, 0, quick=True), tmp_path)
    assert record.results["model"] == "paper"
    assert record.results["interval"] is record.results["verdict"] is None
    assert record.results["unknown_mass"] == 0.0
    assert record.setup["config"]["recipe"]["action_factor"] == 50.0
    assert record.setup["config"]["recipe"]["num_action_samples"] == 15
    assert record.setup["config"]["settings"] == "the supplement"


# Findings


def test_nopg_is_scored_by_its_last_and_rivals_by_their_best_controller() -> None:
    assert score_of(learning_record("pendulum-random", "nopg-d", 100, 0, -300.0, -900.0)) == -900.0
    assert score_of(learning_record("pendulum-random", "pwis", 100, 0, -300.0, -900.0)) == -300.0


def test_the_grid_is_beaten_only_if_every_size_is() -> None:
    def verdicts(last: float, trials: int = 10, *, modes: Sequence[str]) -> list[str]:
        records = [
            learning_record("pendulum-grid", "nopg-d", size, seed, value, mode=mode)
            for size, value in zip((200, 450, 800, 1250, 1800, 3200), [-370.0] * 5 + [last], strict=True)
            for seed in range(trials)
            for mode in modes
        ]
        found = {f.claim: f.verdict for f in study("pendulum-grid").findings(records)}
        claims = ("NOPG-D: mean above", "NOPG-D: from 450")
        return [next(word for claim, word in found.items() if claim.startswith(part)) for part in claims]

    not_run, all_modes = "not run in full", ("ours", "paper", "faithful")
    assert verdicts(-380.0, modes=all_modes) == ["beaten", "kept"]
    assert verdicts(-380.0, modes=all_modes[:2]) == [not_run, "kept"]
    assert verdicts(-380.0, trials=9, modes=all_modes) == [not_run, not_run]
    assert verdicts(-420.0, modes=all_modes) == ["beaten", "missed"]
    assert verdicts(-440.0, modes=all_modes) == ["not reproduced", "missed"]
    assert {f.verdict for f in study("pendulum-grid").findings([])} == {not_run}


def test_losses_against_the_paper_are_printed() -> None:
    records = [learning_record("pendulum-grid", "nopg-s", size, 0, -500.0) for size in (450, 1800, 3200)]
    found = {f.claim: f.found for f in study("pendulum-grid").findings(records)}
    assert found["NOPG-S: mean above the paper's"] == (
        "default model: 1 of 3 sizes (not 1800: -500 < -472, 3200: -500 < -430); paper's model: not run; "
        "supplement's settings: not run"
    )


def test_the_samples_a_rival_needs_are_counted_against_ours() -> None:
    name = "pendulum-random"
    ours = [
        learning_record(name, "nopg-d", 1000, seed, -400.0 if seed < 8 else -3000.0, start_unknown=1.0)
        for seed in range(10)
    ]
    sizes = next(curve.sizes for curve in study(name).curves if curve.method == "ddpg-offline")
    offline = [
        learning_record(name, "ddpg-offline", size, seed, -3000.0, -450.0 if size == 20_000 else -3000.0)
        for size in sizes
        for seed in range(5)
    ]
    steps = (3000, 6000, 9000)
    online = [
        learning_record(name, "ddpg-online", 9000, seed, -3000.0, value, -3000.0, transitions=steps)
        for seed, value in enumerate((-400.0, -400.0, -400.0, -3000.0, -3000.0))
    ]
    never = [learning_record(name, "pwis", 25_000, 0, -4000.0)]
    found = {f.claim.split(" needs")[0]: f for f in study(name).findings([*ours, *offline, *online, *never])}
    assert found["DDPG offline"].found == "20000: 5 of 5; 20 times"
    assert found["DDPG offline"].verdict == "reproduced"
    assert "6000, 6000, 6000, never, never; 6 times" in found["DDPG online"].found
    assert found["DDPG online"].verdict == "not reproduced"
    assert found["PWIS"].found == "never, up to 25000; more than 25 times"
    assert found["PWIS"].verdict == "not run in full"
    announced = found["Failures are announced by the support of the start"]
    assert announced.found == "2 of 2 failures announced, 8 of 10 false alarms"


def test_the_mountain_car_is_judged_by_means_and_against_its_demonstrator() -> None:
    records = [
        learning_record("mountain-car", "nopg-d", size, seed, value, demonstrator=-350.0)
        for size, value in ((1, -100.0), (2, -100.0), (5, -95.0), (10, -80.0))
        for seed in range(10)
    ]
    records += [
        learning_record("mountain-car", "nopg-d", 2, k, -90.0, demonstrations="p.csv", demonstrator=-359.0)
        for k in range(10)
    ]
    found = {f.claim: (f.found, f.verdict) for f in study("mountain-car").findings(records)}
    above = "NOPG-D, own demonstrations: above its demonstrator in every trial from 2 on"
    assert found[above] == ("30 of 30", "kept")
    own, theirs = (
        found[f"NOPG-D, {whose} demonstrations: mean above the paper's"] for whose in ("own", "the paper's")
    )
    assert own[0].startswith("default model: 3 of 4 sizes (not 5: -95 < -77); paper's model: not run")
    assert theirs[0].startswith("default model: 1 of 1 sizes; ")
    assert own[1] == theirs[1] == "not run in full"


def test_tables_have_a_row_for_each_method_and_settings_and_a_column_for_each_size() -> None:
    records = [
        learning_record("pendulum-grid", method, 450, seed, -360.0 - seed, mode=mode)
        for method in ("nopg-d", "nopg-s")
        for mode in ("ours", "faithful")
        for seed in range(3)
    ]
    lines = study("pendulum-grid").tables(records)
    assert "|  | 450 | CPU s |" in lines
    assert "| NOPG-D, default model | -361±1 (3/3) | 1 |" in lines
    assert "| NOPG-S, supplement's settings | -361±1 (3/3) | 1 |" in lines
    assert "| NOPG-D, the paper | -594 |  |" in lines


def test_importance_weights_beyond_numbers_end_a_training_with_what_it_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    estimate, asked = PWIS.estimate, []

    def until_the_fourth(self: PWIS, *args: Any, **options: Any) -> Any:
        asked.append(1)
        if len(asked) > 3:
            raise SolverError("the importance weights reach e^900")
        return estimate(self, *args, **options)

    monkeypatch.setattr(PWIS, "estimate", until_the_fourth)
    task = TASKS["cart-pole"]
    snapshots = METHODS["pwis"].train(task, task.data(100, seed=0), 0, 100)
    assert [snapshot.updates for snapshot in snapshots] == [3]

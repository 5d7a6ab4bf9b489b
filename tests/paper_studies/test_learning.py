"""Learning studies: their data, what is run, how claims are judged."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from nopg.envs import MountainCar
from nopg.errors import ArgumentError, DataError
from nopg.training import optimize
from paper_studies.study_records import learning_record, study
from studies.demonstrations import DEMONSTRATIONS, read_demonstrations, recorded_demonstrations
from studies.paper import TASKS, LearningStudy, Task
from studies.paper import _learning as learning
from studies.paper import _methods as methods
from studies.paper._experiment import Mode
from studies.paper._learning import score_of

# Data


def test_demonstrations_are_drawn_without_repetition_and_have_no_known_density() -> None:
    car = TASKS["mountain-car"]
    some = car.data(3, 1)
    assert some.episodes is not None
    assert len(torch.unique(some.episodes)) == 3
    assert len(some.starts) == 3
    assert len(car.data(10, 1)) == len(car.data(10, 2))
    assert len({len(car.data(1, seed)) for seed in range(10)}) > 1
    with pytest.raises(ArgumentError, match="11 cannot be drawn"):
        car.data(11, 0)
    with pytest.raises(DataError, match="nobody knows the density"):
        car.logged(some)


def test_recorded_drives_count_minus_one_per_step_and_end_at_the_goal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    monkeypatch.setenv(DEMONSTRATIONS, str(path))
    assert len(recorded_demonstrations()) == 3

    path.write_text("traj,pos\n0,1\n")
    with pytest.raises(DataError, match="has the columns"):
        read_demonstrations(path)
    with pytest.raises(DataError, match="cannot read demonstrations"):
        read_demonstrations(tmp_path / "none.csv")


# Runs


def cut_short(monkeypatch: pytest.MonkeyPatch, name: str) -> LearningStudy:
    """Return a study whose faithful runs make ten updates, and that runs controllers shortly."""
    task = TASKS[name]
    short: Task = replace(task, recipe=replace(task.recipe, updates=10), steps=100, episodes=2)
    monkeypatch.setattr(learning, "TASKS", {**TASKS, name: short})
    return study(name)


def test_a_run_made_again_has_the_same_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    car = cut_short(monkeypatch, "mountain-car")
    run = car.run("nopg-d", 1, 0, "faithful")
    (first, one), (second, two) = car.measure(run), car.measure(run)
    assert one is not None
    assert two is not None
    assert torch.equal(one.states, two.states)
    assert first["evaluations"][-1]["return"] == second["evaluations"][-1]["return"]
    assert first["drives"] == second["drives"]
    assert first["demonstrator"] < -200
    assert first["drives"]["demonstrated"][0] == first["drives"]["learned"][0]


def test_the_supplements_settings_are_what_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def kept(*arguments: Any, **settings: Any) -> Any:
        asked.append(settings)
        return optimize(*arguments, **settings)

    monkeypatch.setattr(methods, "optimize", kept)
    grid = cut_short(monkeypatch, "pendulum-grid")
    results, _ = grid.measure(grid.run("nopg-s", 200, 0, "faithful"))
    (last,) = results["evaluations"]
    assert last["updates"] == 10
    (settings,) = asked
    assert (settings["model"].prior_mass, settings["model"].bandwidths.source) == (
        0.0,
        "the authors' released code",
    )
    assert settings["policy"].num_action_samples == 15
    assert settings["config"].learning_rate == 0.01


# Findings


def test_nopg_is_scored_by_its_last_and_rivals_by_their_best_controller() -> None:
    assert score_of(learning_record("pendulum-random", "nopg-d", 100, 0, -300.0, -900.0)) == -900.0
    assert score_of(learning_record("pendulum-random", "pwis", 100, 0, -300.0, -900.0)) == -300.0


def test_the_grid_is_beaten_only_if_every_size_is() -> None:
    def verdicts(last: float, trials: int = 10, *, modes: Sequence[Mode]) -> list[str]:
        records = [
            learning_record("pendulum-grid", "nopg-d", size, seed, value, mode=mode)
            for size, value in zip((200, 450, 800, 1250, 1800, 3200), [-370.0] * 5 + [last], strict=True)
            for seed in range(trials)
            for mode in modes
        ]
        found = {f.claim: f.verdict for f in study("pendulum-grid").findings(records)}
        claims = ("NOPG-D: mean above", "NOPG-D: from 450")
        return [next(word for claim, word in found.items() if claim.startswith(part)) for part in claims]

    not_run = "not run in full"
    all_modes: tuple[Mode, ...] = ("ours", "paper", "faithful")
    assert verdicts(-380.0, modes=all_modes) == ["beaten", "kept"]
    assert verdicts(-380.0, modes=all_modes[:2]) == [not_run, "kept"]
    assert verdicts(-380.0, trials=9, modes=all_modes) == [not_run, not_run]
    assert verdicts(-420.0, modes=all_modes) == ["beaten", "missed"]
    assert verdicts(-440.0, modes=all_modes) == ["not reproduced", "missed"]
    assert {f.verdict for f in study("pendulum-grid").findings([])} == {not_run}


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

"""The study of many columns: errors in units of the change, models that are exact, plants at rest."""

import numpy as np
import pytest
import torch

from nopg import Transitions
from studies.many_column_plants import TASKS
from studies.many_columns import _linear, errors, fresh_paths, page, without_ends
from studies.records import Record


def _log(ended: bool = False) -> Transitions:
    rng = np.random.default_rng(0)
    states, actions = rng.normal(size=(200, 2)), rng.normal(size=(200, 1))
    following = states @ np.array([[0.9, 0.1], [-0.2, 0.8]]) + actions * np.array([[0.5, -0.3]]) + 0.1
    terminated = np.zeros(200, dtype=bool)
    terminated[-1] = ended
    return Transitions.from_arrays(
        states, actions, np.zeros(200), following, terminated=terminated, episodes=np.arange(200) // 20
    )


def test_an_error_is_a_share_of_the_standard_deviation_of_the_change() -> None:
    truth = np.zeros((21, 12, 2))
    truth[1:, :, 0] = np.tile([-2.0, 0.0, 2.0], 4)  # the other column does not move
    paths = truth + np.array([1.0, 5.0])
    alive = np.ones((21, 12), bool)
    alive[6:, 1:] = False
    found = errors(paths, truth, alive, _log())
    share = 1.0 / np.std(truth[1, :, 0], ddof=1)
    assert found["5"] == pytest.approx({"median": share, "mean": share, "paths": 12})
    assert set(found) == {"1", "5"}  # one path alone reaches 20 steps


def test_least_squares_follow_a_linear_plant_exactly() -> None:
    data = _log()
    follow, _ = _linear(data, 0)
    actions = np.full((3, 1, 1), 0.2)
    states = [np.array([[0.3, -0.4]])]
    for a in actions:
        states.append(states[-1] @ np.array([[0.9, 0.1], [-0.2, 0.8]]) + a @ np.array([[0.5, -0.3]]) + 0.1)
    assert follow(states[0], actions) == pytest.approx(np.stack(states), abs=1e-9)


def test_models_of_the_dynamics_alone_see_no_end() -> None:
    data = without_ends(_log(ended=True))
    assert not data.terminated.any()
    assert data.truncated[-1]


@pytest.mark.parametrize("name", ["chain", "distillation"])
def test_target_and_trim_are_at_rest(name: str) -> None:
    plant = TASKS[name].plant
    rest = np.array([plant.target])
    assert plant.step(rest, np.array([plant.trim])) == pytest.approx(
        rest, abs=2e-4
    )  # four digits of a profile


def test_paths_are_cut_from_fresh_episodes() -> None:
    task = TASKS["chain"]
    states, actions, alive = fresh_paths(task, 0)
    assert states.shape == (21, 280, 24)
    assert actions.shape == (20, 280, 3)
    assert alive.all()
    quiet = task.plant.step(states[3], actions[3])
    assert np.abs(states[4] - quiet).max() < 0.1  # the noise of velocities is .01
    log = task.log(2_000, 0).states
    assert (torch.as_tensor(states[0, :40])[:, None] - log).abs().amax(dim=-1).min() > 1e-3


def test_the_page_compares_ensemble_and_local_model() -> None:
    def record(method: str, error: float, **results: object) -> Record:
        by_lag = {lag: {"median": error, "mean": 2 * error, "paths": 1} for lag in ("1", "5", "20")}
        return Record(
            study="s",
            benchmark="chain",
            method=method,
            rows=2_000,
            commit="1",
            results={"errors": by_lag, **results},
        )

    facts = {
        "unknown": {"1": 0.0, "5": 0.01, "20": 0.5},
        "local_columns": 6,
        "inputs": 17.0,
        "r_squared": 0.99,
    }
    text = page(
        [
            record("local", 0.1, **facts),
            record("ensemble", 0.2),
            record("linear", 0.3),
            record("no change", 0.7),
        ]
    )
    assert "| chain | 24 | 2000 | 1 | 20 | 0.1 | 0.2 | 0.3 | 0.7 | 2.00 | 1 of 1 | 50.0% |" in text
    assert "| chain | 24 | 2000 | 1 | 20 | 0.2 | 0.4 | 0.6 | 1.4 | 2.00 | 1 of 1 | 50.0% |" in text

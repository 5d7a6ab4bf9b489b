"""All methods on the same data, and the data of the tasks."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from nopg._seeding import generator
from nopg.bellman import MultistepProblem
from nopg.envs import Pendulum, collect_grid
from nopg.errors import ArgumentError, DataError
from nopg.policies import Deterministic, MLPPolicy
from studies.baselines import PWIS
from studies.baselines._pwis import Gaussian
from studies.paper import EXPERIMENTS, Trial, run_trial
from studies.paper.__main__ import main
from studies.paper._methods import METHODS
from studies.paper._tasks import TASKS


@pytest.mark.slow
def test_a_record_holds_every_snapshot_with_its_offline_and_true_return(tmp_path: Path) -> None:
    trials = [Trial("baselines", "ours", method, 200, 0, quick=True) for method in ("pwis", "bc")]
    records = [run_trial(trial, tmp_path) for trial in trials]
    for record in records:
        evaluations = record.results["evaluations"]
        assert [one["updates"] for one in evaluations] == list(range(1, 11))
        assert evaluations[-1]["transitions"] == 200
        assert all(np.isfinite([one["return"], one["judged"]]).all() for one in evaluations)
        assert np.isfinite([record.results["fitted_q"], record.results["discounted"]]).all()
        assert record.setup["versions"]["d3rlpy"] == "2.8.0"

    lines = EXPERIMENTS["baselines"].tables([*records, replace(records[0], seed=1)])
    assert "**pendulum-random, 200 transitions.**" in lines
    assert [line.split(" | ")[0] for line in lines if " of 1 |" in line or " of 2 |" in line] == [
        "| PWIS",
        "| BC",
    ]
    assert any(line.startswith("Highest mean. last: ") for line in lines)
    assert any("median error over 3: offline evaluation" in line for line in lines)


def test_without_the_extra_it_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "d3rlpy", None)
    assert main(["baselines", "--quick", "--method", "bc", "--out", str(tmp_path)]) == 1
    assert "pip install 'nopg[benchmark]'" in capsys.readouterr().err


def test_data_of_a_task_have_the_size_asked_for() -> None:
    for task in TASKS.values():
        data = task.data(700, seed=1)
        assert len(data) == 700
        assert torch.equal(data.states, task.data(700, seed=1).states)
        assert len(data.starts) == task.num_starts
        assert task.logged(data).log_behavior.isfinite().all()


def test_all_seeds_and_methods_get_the_same_data_as_each_other() -> None:
    first, second = (TASKS["pendulum-random"].data(300, seed) for seed in (0, 1))
    assert not torch.equal(first.states, second.states)


RIVALS = [
    name for name, method in METHODS.items() if method.needs == "transitions" and not name.startswith("nopg")
]


@pytest.mark.parametrize("name", RIVALS)
def test_methods_that_need_only_transitions_train_on_a_grid(name: str) -> None:
    grid = collect_grid(Pendulum(), (5, 5, 2))  # no trajectories, and nobody acted
    snapshots = list(METHODS[name].train(TASKS["pendulum-random"], grid, 0, 10))
    assert [snapshot.updates for snapshot in snapshots] == list(range(1, 11))
    assert snapshots[-1].transitions == len(grid)


@pytest.mark.parametrize("name", ["nopg-d", pytest.param("nopg-s", marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("ignore::nopg.errors.SupportWarning")
def test_ours_is_the_one_controller_that_the_defaults_return(name: str) -> None:
    grid = collect_grid(Pendulum(), (8, 8, 2))  # on fewer rows paths leave the data, which takes longer
    (snapshot,) = METHODS[name].train(TASKS["pendulum-random"], grid, 0, 2)
    assert (snapshot.updates, snapshot.transitions) == (2, len(grid))
    assert snapshot.controller is snapshot.model.policy
    assert isinstance(snapshot.model.problem, MultistepProblem)
    assert isinstance(snapshot.controller.policy, Gaussian if name == "nopg-s" else Deterministic)


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.needs == "trajectories"])
def test_methods_that_need_trajectories_refuse_a_grid(name: str) -> None:
    grid = collect_grid(Pendulum(), (5, 5, 2))
    with pytest.raises(DataError, match="belong to none"):
        METHODS[name].train(TASKS["pendulum-random"], grid, 0, 10)


def test_methods_without_deterministic_policies_refuse_them() -> None:
    task = TASKS["pendulum-random"]
    data = task.data(300, seed=0)
    policy = MLPPolicy.from_data(data.features, data.actions, rng=generator(0, "policy"))
    assert [name for name, method in METHODS.items() if not method.deterministic] == ["pwis"]
    with pytest.raises(ArgumentError, match="needs a stochastic policy"):
        PWIS(task.logged(data), 0.97).estimate(policy, rng=generator(0, "none"))

"""The command that runs every method on the same data, and the table of what each can be used on."""

import json
import sys
from pathlib import Path

import pytest
import torch

from nopg._seeding import generator
from nopg.bellman import MultistepProblem
from nopg.envs import Pendulum, collect_grid
from nopg.errors import ArgumentError, DataError
from nopg.policies import Deterministic, Gaussian, MLPPolicy
from studies.baselines import PWIS
from studies.paper import baselines
from studies.paper._methods import METHODS
from studies.paper._tasks import TASKS

QUICK = ("--samples", "200", "--trials", "1", "--updates", "10", "--fitted-q-updates", "10", "--workers", "1")


def run(folder: Path, *arguments: str) -> int:
    return baselines.main([*QUICK, "--out", str(folder), *arguments])


def test_one_command_runs_methods_and_prints_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    assert run(tmp_path / "records", "--methods", "pwis", "bc", "--markdown", str(page)) == 0
    out, err = capsys.readouterr()
    assert "2 of 2" in err
    lines = out.splitlines()
    assert lines[0].split()[:3] == ["method", "last", "IQM"]
    assert [line.split()[0] for line in lines[2:4]] == ["PWIS", "BC"]
    assert "offline evaluation" in lines[-1]
    assert "FQE" in lines[-1]
    assert "## pendulum-random, 200 transitions" in page.read_text()

    record = json.loads((tmp_path / "records/pendulum-random-200/bc-0.json").read_text())
    assert [snapshot["updates"] for snapshot in record["snapshots"]] == list(range(1, 11))
    assert record["snapshots"][-1]["transitions"] == 200
    assert record["versions"]["d3rlpy"] == "2.8.0"

    # What is recorded is not run again.
    assert run(tmp_path / "records", "--methods", "pwis", "bc") == 0
    again, err = capsys.readouterr()
    assert again == out
    assert err == ""


def test_without_the_extra_it_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    assert run(tmp_path, "--methods", "bc") == 1
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
    grid = collect_grid(Pendulum(), (5, 5, 2))
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

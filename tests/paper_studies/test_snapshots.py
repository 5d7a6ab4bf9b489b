"""Cloning and DDPG on a log: controllers on the way, the same whatever is taken."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import torch

from nopg._seeding import generator
from nopg.data import Transitions
from nopg.envs import Pendulum, collect_uniform
from nopg.errors import ArgumentError
from studies.baselines import Snapshot, train_snapshots

DATA = collect_uniform(Pendulum(), 64, seed=0)
STATES = collect_uniform(Pendulum(), 20, seed=1).states


def short(method: Literal["bc", "ddpg"], **settings: Any) -> list[Snapshot]:
    return train_snapshots(method, DATA, **{"discount": 0.9, "updates": 10, "snapshots": 2, **settings})


def actions(snapshot: Snapshot) -> torch.Tensor:
    return torch.as_tensor(snapshot.controller(STATES))


@pytest.mark.parametrize("method", ["bc", "ddpg"])
def test_a_snapshot_stays_as_it_was_when_training_goes_on(method: Literal["bc", "ddpg"]) -> None:
    half, whole = short(method)
    (alone,) = short(method, updates=5, snapshots=1)
    assert (half.updates, whole.updates, half.transitions) == (5, 10, len(DATA))
    assert 0 < half.seconds < whole.seconds
    assert torch.equal(actions(half), actions(alone))
    assert not torch.equal(actions(half), actions(whole))


def test_cloning_reproduces_a_linear_demonstrator() -> None:
    states = 2 * torch.rand(500, 2, generator=generator(0, "states"), dtype=torch.float64) - 1
    wanted = states @ torch.tensor([[-0.8], [0.3]], dtype=torch.float64)
    data = Transitions.from_arrays(states, wanted, torch.zeros(500), states)
    (last,) = train_snapshots("bc", data, discount=0.9, updates=1_000, snapshots=1)
    error = torch.as_tensor(last.controller(states)) - wanted
    # A network of 50 units behind a tanh; the actions themselves have a standard deviation of .5.
    assert error.square().mean().sqrt() < 0.05


def test_ddpg_finds_the_best_action_of_a_one_step_task() -> None:
    draws = 2 * torch.rand(500, 2, generator=generator(0, "draws"), dtype=torch.float64) - 1
    s, a = draws[:, :1], draws[:, 1:]
    data = Transitions.from_arrays(s, a, -(a - s).square()[:, 0], s, terminated=torch.ones(500))
    (last,) = train_snapshots("ddpg", data, discount=0.9, updates=600, snapshots=1)
    chosen = torch.as_tensor(last.controller(data.states))
    # Doing nothing costs 1/3, acting at random 2/3.
    assert (chosen - data.states).square().mean() < 0.05


def test_snapshots_that_do_not_divide_the_updates_are_refused() -> None:
    with pytest.raises(ArgumentError, match="multiple of snapshots"):
        short("bc", snapshots=3)

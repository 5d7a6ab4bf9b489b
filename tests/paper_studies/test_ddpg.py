"""DDPG on a log and online: the same seed, the same controller, no traces."""

from typing import Any

import torch

from nopg._seeding import generator
from nopg.data import Transitions
from nopg.envs import Pendulum, collect_uniform
from studies.baselines import Snapshot, train_offline_ddpg, train_online_ddpg

DATA = collect_uniform(Pendulum(), 64, seed=0)
STATES = collect_uniform(Pendulum(), 20, seed=1).states


def short(**settings: Any) -> list[Snapshot]:
    return train_online_ddpg(
        Pendulum(), **{"discount": 0.9, "steps": 120, "episode_steps": 50, "snapshots": 2, **settings}
    )


def actions(snapshot: Snapshot) -> torch.Tensor:
    return torch.as_tensor(snapshot.controller(STATES))


def test_the_same_seed_gives_the_same_controller_however_many_snapshots_are_taken() -> None:
    (_, first), (again,), (_, other) = short(), short(snapshots=1), short(seed=1)
    assert actions(first).shape == (len(STATES), 1)
    assert bool((actions(first).abs() <= 2.0).all())
    assert torch.equal(actions(first), actions(again))
    assert not torch.equal(actions(first), actions(other))


def test_offline_it_finds_the_best_action_of_a_one_step_task() -> None:
    draws = 2 * torch.rand(500, 2, generator=generator(0, "draws"), dtype=torch.float64) - 1
    s, a = draws[:, :1], draws[:, 1:]
    data = Transitions.from_arrays(s, a, -(a - s).square()[:, 0], s, terminated=torch.ones(500))
    (last,) = train_offline_ddpg(data, discount=0.9, updates=600, snapshots=1)
    # Doing nothing costs 1/3, acting at random 2/3.
    assert (torch.as_tensor(last.controller(data.states)) - data.states).square().mean() < 0.05

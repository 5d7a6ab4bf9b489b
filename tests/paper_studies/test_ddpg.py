"""DDPG on a log and online: the same seed, the same controller, no traces."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nopg._seeding import generator
from nopg.data import Transitions
from nopg.envs import Pendulum, collect_uniform
from nopg.errors import ArgumentError
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


def test_nothing_is_printed_no_folder_is_left_and_generators_are_given_back(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index] # noqa: NPY002
    short()
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])  # type: ignore[index] # noqa: NPY002
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ArgumentError, match="steps as a positive multiple of snapshots"):
        short(steps=121)
    with pytest.raises(ArgumentError, match="updates as a positive multiple of snapshots"):
        train_offline_ddpg(DATA, discount=0.9, updates=10, snapshots=3)


def test_offline_it_finds_the_best_action_of_a_one_step_task() -> None:
    draws = 2 * torch.rand(500, 2, generator=generator(0, "draws"), dtype=torch.float64) - 1
    s, a = draws[:, :1], draws[:, 1:]
    data = Transitions.from_arrays(s, a, -(a - s).square()[:, 0], s, terminated=torch.ones(500))
    (last,) = train_offline_ddpg(data, discount=0.9, updates=600, snapshots=1)
    # Doing nothing costs 1/3, acting at random 2/3.
    assert (torch.as_tensor(last.controller(data.states)) - data.states).square().mean() < 0.05

"""Offline rivals: all transitions, finite actions in bounds, the same seed the same controller."""

import random
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch

from nopg._seeding import generator
from nopg.baselines import OfflineMethod, train_offline
from nopg.baselines._batches import BatchBuffer
from nopg.baselines._isolation import own_randomness
from nopg.baselines._replay_buffer import to_d3rlpy
from nopg.data import Transitions
from nopg.envs import Pendulum, UniformAgent, collect, collect_uniform, simulate
from nopg.errors import ArgumentError, DataError, MissingExtraError

UNCONNECTED = collect_uniform(Pendulum(), 64, seed=0)
EPISODES = collect(Pendulum(), UniformAgent((-2.0,), (2.0,)), episodes=2, steps=40, seed=0)
STATES = collect_uniform(Pendulum(), 20, seed=1).states


def one_step_tasks() -> Transitions:
    """Random actions a in states s, both in ±1; the reward is −(a − s)² and then the task ends."""
    draws = 2 * torch.rand(500, 2, generator=generator(0, "draws"), dtype=torch.float64) - 1
    s, a = draws[:, :1], draws[:, 1:]
    return Transitions.from_arrays(s, a, -(a - s).square()[:, 0], s, terminated=torch.ones(500))


METHODS = get_args(OfflineMethod)


def short(method: OfflineMethod = "td3+bc", data: Transitions = UNCONNECTED, **settings: Any) -> torch.Tensor:
    """Return the actions at some states after ten updates."""
    found = train_offline(method, data, **{"discount": 0.9, "updates": 10, **settings})
    return torch.as_tensor(found(STATES))


@pytest.mark.parametrize("data", [UNCONNECTED, EPISODES], ids=["unconnected", "episodes"])
def test_n_transitions_stay_n_in_what_d3rlpy_samples_from(data: Transitions) -> None:
    buffer = BatchBuffer(to_d3rlpy(data, encode_angles=True))
    assert buffer.transition_count == len(data)
    with own_randomness(0):
        drawn = np.unique(buffer.sample_transition_batch(5_000).observations, axis=0)
    # Some seventy draws per row: none is left out.
    assert np.array_equal(drawn, np.unique(data.features.float().numpy(), axis=0))


def test_batches_are_those_that_d3rlpy_draws() -> None:
    theirs = to_d3rlpy(EPISODES, encode_angles=True)
    batches = []
    for buffer in (theirs, BatchBuffer(theirs)):
        with own_randomness(3):
            batches.append(buffer.sample_transition_batch(200))
    for column in ("observations", "actions", "rewards", "next_observations", "next_actions", "terminals"):
        assert np.array_equal(getattr(batches[0], column), getattr(batches[1], column)), column


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_finite_actions_in_bounds_and_the_same_for_the_same_seed(
    method: OfflineMethod,
) -> None:
    first, again, other = short(method), short(method), short(method, seed=1)
    assert first.shape == (len(STATES), 1)
    assert bool((first.abs() <= UNCONNECTED.actions.abs().max()).all())
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_controller_takes_raw_states_and_sees_no_turns() -> None:
    found = train_offline("td3+bc", UNCONNECTED, discount=0.9, updates=10)
    turned = STATES + torch.tensor([2 * torch.pi, 0.0])
    # A turn is rounded in float32.
    assert torch.allclose(found(turned), found(STATES), atol=1e-4)
    assert simulate(Pendulum(), found, steps=3).rewards.isfinite().all()


@pytest.mark.parametrize("method", METHODS)
def test_every_method_does_better_than_the_random_actions_it_saw(method: OfflineMethod) -> None:
    data = one_step_tasks()
    chosen = train_offline(method, data, discount=0.9, updates=100, hidden_units=(50,))(data.states)
    assert -(chosen - data.states).square().mean() > data.rewards.mean()


def test_bounds_can_be_wider_than_the_data() -> None:
    actions = short(action_bounds=([100.0], [101.0]))
    assert bool(((actions > 99.99) & (actions < 101.01)).all())


def test_the_global_generators_are_given_back_as_they_were() -> None:
    legacy = np.random.get_state()  # noqa: NPY002
    before = random.getstate(), torch.get_rng_state()
    short()
    after = np.random.get_state()  # noqa: NPY002
    assert np.array_equal(legacy[1], after[1])  # type: ignore[index]
    assert legacy[2] == after[2]  # type: ignore[index] # how many numbers of these have been drawn
    assert before[0] == random.getstate()
    assert torch.equal(before[1], torch.get_rng_state())


def test_nothing_is_printed_and_no_folder_is_left(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    short("td3+bc")
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"updates": 0}, "give a positive multiple"),
        ({"discount": 1.0}, "discount is 1.0"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        short(**settings)


def test_an_unknown_method_and_actions_without_a_range_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"no method 'sac'; choose one of td3"):
        short("sac")  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"low < high, say so with action_bounds"):
        short("td3+bc", replace(UNCONNECTED, actions=torch.zeros_like(UNCONNECTED.actions)))


def test_without_d3rlpy_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "d3rlpy", None)
    with pytest.raises(MissingExtraError, match=r"needs d3rlpy.*pip install 'nopg\[baselines\]'"):
        short()

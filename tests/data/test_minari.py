"""Minari and Gymnasium: to the bit there and back, every step a transition, no environment built."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import h5py
import minari
import numpy as np
import pytest
import torch
from gymnasium import spaces
from minari.data_collector import EpisodeBuffer

from data.io_cases import assert_same, grid, walks
from nopg.data import Transitions
from nopg.data.io import from_gymnasium, read_minari, write_minari
from nopg.errors import ArgumentError, DataError

FORMATS = ["hdf5", "arrow", "parquet"]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))


def minari_dataset(episodes: list[dict[str, Any]], **settings: Any) -> Any:
    """Write a dataset as another program would."""
    box = spaces.Box(-1.0, 1.0, (1,), np.float32)
    with pytest.warns(UserWarning, match="is set to None|env_spec is None"):
        return minari.create_dataset_from_buffers(
            "other/walk-v0",
            [EpisodeBuffer(**episode) for episode in episodes],
            **{"observation_space": box, "action_space": box, **settings},
        )


def episode(steps: int, *, terminated: bool = False, truncated: bool = False) -> dict[str, Any]:
    last = np.arange(steps) == steps - 1
    return {
        "observations": np.linspace(0, 1, steps + 1, dtype=np.float32)[:, None],
        "actions": np.linspace(-1, 1, steps, dtype=np.float32)[:, None],
        "rewards": np.arange(steps, dtype=np.float64),
        "terminations": last & terminated,
        "truncations": last & truncated,
    }


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("make", [grid, walks])
def test_datasets_come_back_to_the_bit(make: Any, data_format: Any) -> None:
    data = make()
    write_minari(data, "plant/log-v0", data_format=data_format)
    assert_same(read_minari("plant/log-v0"), data)


@pytest.mark.parametrize("data_format", FORMATS)
def test_marked_starts_come_back(data_format: Any) -> None:
    data = replace(walks(), begins=torch.arange(12) % 5 == 2)
    write_minari(data, "plant/marked-v0", data_format=data_format)
    assert_same(read_minari("plant/marked-v0"), data)


@pytest.mark.parametrize("data_format", FORMATS)
def test_rows_that_do_not_follow_from_each_other_come_back_too(data_format: Any) -> None:
    data = walks().take(torch.tensor([0, 1, 3, 4, 8, 7, 11]))
    written = write_minari(data, "plant/holes-v0", data_format=data_format)
    assert written.total_episodes == 6
    assert_same(read_minari(written), data)


def test_a_grid_is_written_as_episodes_of_one_step() -> None:
    written = write_minari(grid(), "plant/grid-v0")
    assert (written.total_episodes, written.total_steps) == (50, 50)


@pytest.mark.parametrize("data_format", FORMATS)
def test_every_step_is_a_transition_and_its_end_is_the_recorded_one(data_format: Any) -> None:
    written = minari_dataset(
        [
            episode(3, terminated=True),
            episode(4, truncated=True),
            episode(2, terminated=True, truncated=True),
        ],
        data_format=data_format,
    )
    data = read_minari(written, state_names=["x"], action_names=["u"])
    assert len(data) == 9
    assert data.terminated.nonzero()[:, 0].tolist() == [2, 8]
    assert data.truncated.nonzero()[:, 0].tolist() == [6]
    assert data.next_states[6].item() == 1.0
    assert data.episodes is not None
    assert data.episodes.tolist() == [0] * 3 + [1] * 4 + [2] * 2
    assert data.schema.bounds == {"x": (-1.0, 1.0), "u": (-1.0, 1.0)}


def test_a_dataset_is_found_by_id_folder_and_object(tmp_path: Path) -> None:
    written = minari_dataset([episode(3, terminated=True)])
    folder = tmp_path / "other" / "walk-v0"
    for dataset in (written, "other/walk-v0", folder, str(folder / "data")):
        assert len(read_minari(dataset)) == 3


def test_some_episodes_of_a_dataset_are_read_under_their_numbers() -> None:
    written = minari_dataset([episode(2, truncated=True), episode(3, truncated=True)])
    data = read_minari(written.filter_episodes(lambda e: len(e.rewards) == 3))
    assert data.episodes is not None
    assert data.episodes.tolist() == [1, 1, 1]


def test_an_environment_is_written_down_but_never_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = Transitions.from_arrays(np.zeros((3, 3)), [0.0] * 3, [0.0] * 3, np.zeros((3, 3)))
    written = write_minari(data, "plant/pendulum-v0", env="Pendulum-v1")
    assert written.recover_environment().spec.id == "Pendulum-v1"

    # Without the environment it was recorded in, all the same.
    file = tmp_path / "plant" / "pendulum-v0" / "data" / "metadata.json"
    metadata = json.loads(file.read_text())
    metadata["env_spec"] = metadata["env_spec"].replace("Pendulum-v1", "Gone-v7")
    file.write_text(json.dumps(metadata))
    monkeypatch.setattr(gymnasium, "make", lambda *_: pytest.fail("an environment was built"))
    assert len(read_minari("plant/pendulum-v0")) == 3


def test_a_dataset_that_would_build_an_environment_to_know_its_spaces_is_refused(tmp_path: Path) -> None:
    minari_dataset([episode(3)])
    file = tmp_path / "other" / "walk-v0" / "data" / "metadata.json"
    metadata = json.loads(file.read_text())
    del metadata["observation_space"]
    file.write_text(json.dumps(metadata))
    with pytest.raises(DataError, match="does not describe its spaces"):
        read_minari("other/walk-v0")


def test_parts_of_a_dictionary_are_chosen_by_key() -> None:
    box = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    part = np.arange(8.0).reshape(4, 2)
    written = minari_dataset(
        [episode(3, truncated=True) | {"observations": {"position": part, "goal": -part}}],
        observation_space=spaces.Dict(position=box, goal=box),
    )
    data = read_minari(written, keys=["goal", "position"])
    assert data.states[1].tolist() == [-2.0, -3.0, 2.0, 3.0]
    with pytest.raises(DataError, match=r"is a dictionary of \['position', 'goal'\]; choose parts with keys"):
        read_minari(written)
    with pytest.raises(DataError, match="has no part 'speed'"):
        read_minari(written, keys=["speed"])


def test_discrete_actions_are_refused_with_the_reason() -> None:
    written = minari_dataset([episode(3) | {"actions": np.array([0, 1, 0])}], action_space=spaces.Discrete(2))
    with pytest.raises(DataError, match=r"the action space is Discrete\(2\); kernels need vectors"):
        read_minari(written)


def test_an_absent_dataset_says_how_to_get_it() -> None:
    with pytest.raises(
        DataError, match="not on this machine; get it with: minari download D4RL/door/human-v2"
    ):
        read_minari("D4RL/door/human-v2")


def test_an_external_link_inside_a_dataset_is_refused(tmp_path: Path) -> None:
    minari_dataset([episode(3)])
    with h5py.File(tmp_path / "other" / "walk-v0" / "data" / "main_data.hdf5", "a") as file:
        del file["episode_0/rewards"]
        file["episode_0/rewards"] = h5py.ExternalLink("/etc/passwd", "/rewards")
    with pytest.raises(
        DataError, match=r"'episode_0/rewards' is a link to '/etc/passwd'; links are not followed"
    ):
        read_minari("other/walk-v0")


def test_an_episode_that_is_shorter_than_it_declares_is_refused(tmp_path: Path) -> None:
    minari_dataset([episode(3)])
    with h5py.File(tmp_path / "other" / "walk-v0" / "data" / "main_data.hdf5", "a") as file:
        file["episode_0/rewards"].resize((2,))
    with pytest.raises(
        DataError, match="episode 0 declares 3 steps, but has states for 3, 3 actions, 2 rewards"
    ):
        read_minari("other/walk-v0")


def test_a_dataset_is_not_written_over_another() -> None:
    write_minari(grid(), "plant/grid-v0")
    with pytest.raises(ArgumentError, match="already exists"):
        write_minari(grid(), "plant/grid-v0")


def test_an_episode_too_long_for_one_batch_is_refused_before_it_is_lost() -> None:
    path = np.zeros(131_073)
    data = Transitions.from_arrays(path, path, path, path, episodes=path)
    with pytest.raises(DataError, match="cannot be read back whole from Minari's arrow files"):
        write_minari(data, "plant/long-v0", data_format="arrow")


def test_an_argument_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError, match="unknown argument 'angle'"):
        read_minari("plant/gone-v0", angle=["x"])  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unknown argument 'angle'"):
        from_gymnasium("Pendulum-v1", list, episodes=1, seed=0, angle=["x"])  # type: ignore[call-arg]


# Gymnasium.


class Corridor(gymnasium.Env[Any, Any]):
    """Walk from 0 to 1; terminates there. The time limit comes from outside."""

    observation_space = spaces.Box(-1.0, 2.0, (1,), np.float64)
    action_space = spaces.Box(-0.25, 0.25, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.x = self.np_random.uniform(0.0, 0.01)
        return np.array([self.x]), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.x += float(action[0])
        return np.array([self.x]), -1.0, self.x >= 1.0, False, {}


def test_a_policy_is_rolled_out_with_terminated_and_truncated() -> None:
    data = from_gymnasium(
        Corridor(), lambda x: np.array([9.0]), episodes=2, seed=0, max_steps=10, state_names=["x"]
    )
    # Four steps of .25, the action that was applied.
    assert len(data) == 8
    assert data.actions.unique().tolist() == [0.25]
    assert data.terminated.nonzero()[:, 0].tolist() == [3, 7]
    assert not data.truncated.any()
    assert data.starts[0] != data.starts[1]
    assert torch.equal(data.next_states[:3], data.states[1:4])
    assert data.schema.bounds["x"] == (-1.0, 2.0)

    short = from_gymnasium(Corridor(), lambda x: [0.25], episodes=2, seed=0, max_steps=3)
    assert len(short) == 6
    assert short.truncated.nonzero()[:, 0].tolist() == [2, 5]
    # The time limit falls on the last step: terminated wins.
    both = from_gymnasium(Corridor(), lambda x: [0.25], episodes=1, seed=0, max_steps=4)
    assert (both.terminated[-1].item(), both.truncated[-1].item()) == (True, False)


def test_the_seed_decides_and_an_id_suffices() -> None:
    def roll_out(seed: int) -> Transitions:
        return from_gymnasium("Pendulum-v1", lambda _: [0.5], episodes=2, seed=seed)

    data = roll_out(3)
    assert len(data) == 400
    assert data.truncated.nonzero()[:, 0].tolist() == [199, 399]
    assert_same(roll_out(3), data)
    assert not torch.equal(roll_out(4).states, data.states)


@pytest.mark.parametrize(
    ("policy", "settings", "reason"),
    [
        (lambda _: [0.0], {}, "the environment has no time limit; give max_steps"),
        (lambda _: [0.0], {"max_steps": 0}, "max_steps must be at least 1"),
        (lambda _: [0.0], {"max_steps": 3, "episodes": 0}, "episodes must be at least 1"),
        (lambda _: [0.0, 1.0], {"max_steps": 3}, r"an action of shape \(2,\) at step 0; return \(1,\)"),
        (lambda _: [float("nan")], {"max_steps": 3}, "NaN or infinities at step 0"),
    ],
)
def test_roll_outs_that_cannot_be_are_refused(policy: Any, settings: dict[str, Any], reason: str) -> None:
    with pytest.raises((ArgumentError, DataError), match=reason):
        from_gymnasium(Corridor(), policy, **{"episodes": 1, "seed": 0} | settings)

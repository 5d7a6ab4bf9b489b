"""Minari: to the bit, every step a transition, no environment built."""

import json
from pathlib import Path
from typing import Any

import gymnasium
import h5py
import minari
import numpy as np
import pandas as pd
import pytest
from gymnasium import spaces
from minari.data_collector import EpisodeBuffer

from data.io_cases import assert_same
from nopg.data.io import from_dataframe, read_minari
from nopg.errors import DataError

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
def test_every_step_is_a_transition_and_its_end_is_the_recorded_one(data_format: Any) -> None:
    minari_dataset(
        [
            episode(3, terminated=True),
            episode(4, truncated=True),
            episode(2, terminated=True, truncated=True),
        ],
        data_format=data_format,
    )
    data = read_minari("other/walk-v0", state_names=["x"], action_names=["u"])
    assert len(data) == 9
    assert data.terminated.nonzero()[:, 0].tolist() == [2, 8]
    assert data.truncated.nonzero()[:, 0].tolist() == [6]
    assert data.next_states[6].item() == 1.0
    assert data.episodes is not None
    assert data.episodes.tolist() == [0] * 3 + [1] * 4 + [2] * 2
    assert data.schema.bounds == {"x": (-1.0, 1.0), "u": (-1.0, 1.0)}


def test_the_environment_of_a_dataset_is_never_built(monkeypatch: pytest.MonkeyPatch) -> None:
    box = spaces.Box(-9.0, 9.0, (3,), np.float32)
    recorded = episode(3) | {"observations": np.zeros((4, 3), dtype=np.float32)}
    minari_dataset([recorded], env="Pendulum-v1", observation_space=box)
    monkeypatch.setattr(gymnasium, "make", lambda *_: pytest.fail("an environment was built"))
    assert len(read_minari("other/walk-v0")) == 3


def test_a_dataset_is_found_by_id_and_folder(tmp_path: Path) -> None:
    minari_dataset([episode(3, terminated=True)])
    folder = tmp_path / "other" / "walk-v0"
    for dataset in ("other/walk-v0", folder, str(folder / "data")):
        assert len(read_minari(dataset)) == 3


def test_a_dataset_that_would_build_an_environment_to_know_its_spaces_is_refused(tmp_path: Path) -> None:
    minari_dataset([episode(3)])
    file = tmp_path / "other" / "walk-v0" / "data" / "metadata.json"
    metadata = json.loads(file.read_text())
    del metadata["observation_space"]
    file.write_text(json.dumps(metadata))
    with pytest.raises(DataError, match="does not describe its spaces"):
        read_minari("other/walk-v0")


def test_other_spaces_are_refused_with_the_reason() -> None:
    minari_dataset([episode(3) | {"actions": np.array([0, 1, 0])}], action_space=spaces.Discrete(2))
    with pytest.raises(DataError, match=r"the action space is Discrete\(2\); kernels need vectors"):
        read_minari("other/walk-v0")


def test_an_episode_that_is_shorter_than_it_declares_is_refused(tmp_path: Path) -> None:
    minari_dataset([episode(3)])
    with h5py.File(tmp_path / "other" / "walk-v0" / "data" / "main_data.hdf5", "a") as file:
        file["episode_0/rewards"].resize((2,))
    with pytest.raises(DataError, match=r"episode 0 has unequal numbers of steps: .*'rewards': 2"):
        read_minari("other/walk-v0")


def test_an_argument_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError, match="unknown argument 'angle'"):
        read_minari("plant/gone-v0", angle=["x"])  # type: ignore[call-arg]


def test_a_dataset_gives_the_transitions_of_the_same_log_in_a_table_to_the_bit() -> None:
    rng = np.random.default_rng(0)
    states, actions, rewards = rng.normal(size=(6, 2)) / 3, rng.normal(size=(5, 1)), rng.normal(size=5)
    minari_dataset(
        [episode(5, truncated=True) | {"observations": states, "actions": actions, "rewards": rewards}],
        observation_space=spaces.Box(-np.inf, np.inf, (2,), np.float64),
        action_space=spaces.Box(-np.inf, np.inf, (1,), np.float64),
    )
    table = pd.DataFrame({"x": states[:, 0], "y": states[:, 1]})
    table["u"], table["r"] = np.append(actions[:, 0], np.nan), np.append(rewards, np.nan)
    expected = from_dataframe(table, states=["x", "y"], actions=["u"], reward="r")
    assert_same(read_minari("other/walk-v0", state_names=["x", "y"], action_names=["u"]), expected)

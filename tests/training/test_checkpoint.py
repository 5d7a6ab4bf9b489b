"""Checkpoints: a resumed training ends as one that was never stopped; other files are refused."""

import json
import os
import pickle
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import nopg
from flat_settings import configured
from nopg import Bandwidths
from nopg._seeding import generator
from nopg.data import Transitions
from nopg.errors import ArgumentError, DataError, TrainingInterrupted
from nopg.policies import MLPPolicy
from nopg.training import TrainingResult, Update
from nopg.training._checkpoint import Checkpoint

# Small trainings are rarely significantly better.
pytestmark = pytest.mark.filterwarnings("ignore::nopg.errors.SupportWarning")

GRID = Bandwidths.from_values([0.25, 0.25, 0.6], [2.0])
UPDATES = 5


def train(data: Transitions, **settings: Any) -> TrainingResult:
    usual = {"model": "paper", "updates": UPDATES, "progress": False}
    if settings.get("model", "paper") == "paper":
        usual["bandwidths"] = GRID
    discount = 0.5 if settings.get("model") == "local" else 0.9  # short rollouts
    every = settings.pop("every", Checkpoint.every)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpoint, "every", every)
        return nopg.optimize(data, discount, **configured(**{**usual, **settings}))


def assert_same(one: TrainingResult, other: TrainingResult, *, rtol: float = 1e-9) -> None:
    """Compare two results to rounding, or the returns to a tolerance."""
    mine, theirs = (result.policy.policy.state_dict() for result in (one, other))
    for name, part in mine.items() if rtol < 1e-6 else ():
        assert torch.allclose(part, theirs[name], rtol=rtol, atol=rtol)
    assert [update.number for update in one.history] == [update.number for update in other.history]
    assert one.expected_return == pytest.approx(other.expected_return, rel=rtol)


def press_at(number: int, times: int = 1) -> Callable[[Update], None]:
    def pressed(update: Update) -> None:
        if update.number == number:
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGINT)

    return pressed


def killed_at(number: int) -> Callable[[Update], None]:
    def killed(update: Update) -> None:
        if update.number == number:
            raise InterruptedError

    return killed


@pytest.fixture(scope="module")
def interrupted(grid: Transitions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a checkpoint after four of five updates."""
    path = tmp_path_factory.mktemp("checkpoint") / "begun"
    with pytest.raises(InterruptedError):
        train(grid, checkpoint=path, every=1, callbacks=[killed_at(UPDATES)])
    assert updates_in(path) == UPDATES - 1
    return path


@pytest.fixture
def begun(interrupted: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(interrupted, tmp_path / "begun"))


def updates_in(path: Path) -> int:
    with safe_open(path, framework="pt") as file:
        return len(json.loads(file.metadata()["state"])["history"])


# To the same result.


@pytest.mark.parametrize(
    ("settings", "rtol"),
    [
        ({}, 1e-9),
        ({"policy": "gaussian"}, 1e-9),
        ({"model": "local", "start": "given", "policy": "deterministic"}, 1e-9),
        pytest.param(
            {"model": "local", "start": "given", "policy": "gaussian"}, 1e-9, marks=pytest.mark.slow
        ),
    ],
    ids=str,
)
def test_a_resumed_training_ends_as_if_it_had_not_stopped(
    grid: Transitions, tmp_path: Path, settings: dict[str, Any], rtol: float
) -> None:
    plain = train(grid, **settings)
    for number in (4,) if "model" in settings else (1, 4):
        path, heard = tmp_path / str(number), list[int]()
        with pytest.raises(InterruptedError):
            train(grid, checkpoint=path, every=1, callbacks=[killed_at(number)], **settings)
        again = train(
            grid,
            checkpoint=path,
            callbacks=[lambda update, heard=heard: heard.append(update.number)],
            **settings,
        )
        assert heard == list(range(number, UPDATES + 1))
        assert_same(again, plain, rtol=rtol)


def test_a_checkpoint_is_written_at_the_start_every_k_updates_and_at_the_end(
    grid: Transitions, tmp_path: Path
) -> None:
    path, there = tmp_path / "run", list[int]()
    train(grid, checkpoint=path, every=2, callbacks=[lambda _: there.append(updates_in(path))])
    assert there == [0, 0, 2, 2, 4]
    assert updates_in(path) == UPDATES
    assert [one.name for one in tmp_path.iterdir()] == ["run"]


def test_a_training_that_has_ended_is_not_trained_further(grid: Transitions, tmp_path: Path) -> None:
    path = tmp_path / "run"
    first = train(grid, checkpoint=path, callbacks=[lambda update: update.number == 2])
    again = train(grid, checkpoint=path, callbacks=[lambda _: pytest.fail("there was another update")])
    assert len(first.history) == 2
    assert again.history == first.history
    assert_same(again, first)


def policy_of(data: Transitions, seed: int) -> MLPPolicy:
    return MLPPolicy.from_data(data.features, data.actions, rng=generator(seed, "policy"))


def test_a_policy_that_was_passed_in_is_resumed(grid: Transitions, tmp_path: Path) -> None:
    plain, mine = train(grid, policy=policy_of(grid, 0)), policy_of(grid, 0)
    with pytest.raises(TrainingInterrupted):
        train(grid, policy=policy_of(grid, 0), checkpoint=tmp_path / "run", callbacks=[press_at(2)])
    again = train(grid, policy=mine, checkpoint=tmp_path / "run")
    assert again.policy.policy is mine
    assert_same(again, plain)


def test_another_policy_is_refused_and_not_replaced(grid: Transitions, tmp_path: Path) -> None:
    path = tmp_path / "run"
    with pytest.raises(TrainingInterrupted):
        train(grid, policy=policy_of(grid, 0), checkpoint=path, callbacks=[press_at(2)])
    other = policy_of(grid, 1)
    before = {name: part.clone() for name, part in other.state_dict().items()}
    with pytest.raises(ArgumentError, match="a checkpoint of another training"):
        train(grid, policy=other, checkpoint=path)
    assert all(torch.equal(part, before[name]) for name, part in other.state_dict().items())
    assert_same(
        train(grid, policy=policy_of(grid, 0), checkpoint=path), train(grid, policy=policy_of(grid, 0))
    )


# What is no checkpoint of this training.


@pytest.mark.parametrize(
    "setting",
    [
        {"updates": 6},
        {"learning_rate": 0.1},
        {"seed": 1},
        {"start": "given"},
        {"model": "local"},
        {"policy": "gaussian"},
        {"prior_mass": 0.1},
        {"bandwidths": None},
        {"initial_states": [0.0, 0.0]},
    ],
    ids=str,
)
def test_a_checkpoint_of_another_training_is_refused(
    grid: Transitions, begun: Path, setting: dict[str, Any]
) -> None:
    with pytest.raises(ArgumentError, match="begun is a checkpoint of another training: data, settings or"):
        train(grid, checkpoint=begun, **setting)
    with pytest.raises(ArgumentError, match="another training"):
        train(grid.take(torch.arange(127)), checkpoint=begun)


def test_numbers_of_numpy_are_the_same_settings(grid: Transitions, begun: Path) -> None:
    assert len(train(grid, checkpoint=begun, updates=np.int64(UPDATES), seed=np.int64(0)).history) == UPDATES


class Hostile:
    """Runs code where a file is taken for a pickle."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return pytest.fail, ("the code of a checkpoint was run",)


def _edit(state: dict[str, object], **tensors: torch.Tensor | None) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        with safe_open(path, framework="pt") as file:
            edited = {**json.loads(file.metadata()["state"]), **state}
        kept = {name: part for name, part in {**load_file(path), **tensors}.items() if part is not None}
        save_file(kept, path, metadata={"state": json.dumps(edited)})

    return damage


def _cut(share: float) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, int(share * path.stat().st_size))


def _make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _write_pickle(path: Path) -> None:
    path.write_bytes(pickle.dumps(Hostile()))


DAMAGES: dict[str, Callable[[Path], None]] = {
    "a folder": _make_folder,
    "half of it": _cut(0.5),
    "nothing in it": _cut(0.0),
    "a pickle": _write_pickle,
    "no state": lambda path: save_file({"x": torch.zeros(1)}, path),
    "another format": _edit({"format": 2}),
    "no history": _edit({"history": None}),
    "another history": _edit({"history": [[1]]}),
    "no parameters": _edit({}, **{"policy.network.hidden.bias": None}),
    "other parameters": _edit({}, **{"policy.network.hidden.bias": torch.zeros(51).double()}),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_cannot_be_used_is_named_and_says_what_to_do(
    grid: Transitions, begun: Path, damage: str
) -> None:
    DAMAGES[damage](begun)
    with pytest.raises(DataError, match=r"(?s)begun is not a usable checkpoint \(.*\); delete"):
        train(grid, checkpoint=begun)


# Ctrl-C.


def test_ctrl_c_ends_the_training_after_the_update_with_a_checkpoint(
    grid: Transitions, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, before = tmp_path / "run", signal.getsignal(signal.SIGINT)
    heard: list[int] = []
    with pytest.raises(TrainingInterrupted, match=r"make the same call with checkpoint='.*run'") as raised:
        train(grid, checkpoint=path, callbacks=[press_at(3), lambda update: heard.append(update.number)])
    assert isinstance(raised.value, KeyboardInterrupt)
    assert (raised.value.update, raised.value.path) == (3, str(path))
    assert heard == [1, 2, 3]
    assert updates_in(path) == 3
    assert "Ctrl-C again stops it now" in caplog.text
    assert signal.getsignal(signal.SIGINT) is before
    assert_same(train(grid, checkpoint=path), train(grid))
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_the_second_ctrl_c_does_not_wait(grid: Transitions, tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt) as raised:
        train(grid, checkpoint=tmp_path / "run", callbacks=[press_at(3, times=2)])
    assert not isinstance(raised.value, TrainingInterrupted)
    assert updates_in(tmp_path / "run") == 0
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_that_is_ignored_stays_so(grid: Transitions, tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert len(train(grid, checkpoint=tmp_path / "run", callbacks=[press_at(2)]).history) == UPDATES
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_training_in_a_thread_leaves_signals_alone(grid: Transitions, tmp_path: Path) -> None:
    before, during = signal.getsignal(signal.SIGINT), list[object]()
    result: list[TrainingResult] = []

    def look(_: Update) -> None:
        during.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(
        target=lambda: result.append(train(grid, checkpoint=tmp_path / "run", callbacks=[look]))
    )
    thread.start()
    thread.join()
    assert set(during) == {before}
    assert len(result[0].history) == UPDATES

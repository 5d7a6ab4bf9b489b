"""Checkpoints: what goes on from one is what was never stopped, to the last bit; what is none is named."""

import json
import math
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

import nopg
from flat_settings import configured
from nopg._seeding import generator
from nopg.data import Transitions
from nopg.envs import Pendulum, collect_grid
from nopg.errors import ArgumentError, DataError, NopgError, TrainingInterrupted
from nopg.kernels import Bandwidths
from nopg.models import LocalModel
from nopg.models._footprint import Footprint
from nopg.policies import MLPPolicy
from nopg.training import TrainingConfig, TrainingResult, Update, _train
from nopg.training._checkpoint_files import State, read_folder, write_folder
from nopg.training._fingerprint import differences, run_fingerprint
from nopg.training._folder_lock import locked

# Small trainings are rarely beyond doubt.
pytestmark = pytest.mark.filterwarnings("ignore::nopg.errors.SupportWarning")

GRID = Bandwidths.from_values([0.25, 0.25, 0.6], [2.0])
UPDATES = 5


@pytest.fixture(scope="module")
def grid() -> Transitions:
    return collect_grid(Pendulum(), (8, 8, 2))


def train(data: Transitions, **settings: Any) -> TrainingResult:
    usual = {"model": "paper", "updates": UPDATES, "progress": False}
    if settings.get("model", "paper") == "paper":
        usual["bandwidths"] = GRID
    return nopg.optimize(data, 0.9, **configured(**{**usual, **settings}))


def assert_same(one: TrainingResult, other: TrainingResult) -> None:
    """Compare all numbers of two results bit by bit."""
    mine, theirs = (result.policy.policy.state_dict() for result in (one, other))
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    assert one.history == other.history
    assert one.expected_return == other.expected_return
    solved, again = one.solution.arrays(), other.solution.arrays()
    assert solved.keys() == again.keys()
    assert all(torch.equal(solved[name], again[name]) for name in solved)


def numbers_in(folder: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("update-")) for path in folder.glob("update-*"))


@pytest.fixture(scope="module")
def begun(grid: Transitions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with checkpoints after the third and the fourth of five updates."""
    folder = tmp_path_factory.mktemp("begun") / "run"

    def killed(update: Update) -> None:
        if update.number == UPDATES:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        train(grid, checkpoint=folder, every=1, callbacks=[killed])
    assert numbers_in(folder) == [3, 4]
    return folder


@pytest.fixture
def copy(begun: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(begun, tmp_path / "copy"))


# To the last bit.


def goes_on_from_every_update(data: Transitions, folder: Path, settings: dict[str, Any]) -> None:
    """Train without and with checkpoints, and go on from every one of them."""
    plain = train(data, **settings)
    copies = folder / "copies"

    def keep(update: Update) -> None:
        last = folder / "run" / f"update-{update.number - 1:06}"  # the next is not yet written
        shutil.copytree(last, copies / str(update.number - 1) / last.name)

    saved = train(data, checkpoint=folder / "run", every=1, callbacks=[keep], **settings)
    assert_same(saved, plain)
    some = range(UPDATES) if settings.get("model", "paper") == "paper" else (0, UPDATES - 1)
    for number in some:
        heard: list[int] = []
        again = train(
            data,
            resume=copies / str(number),
            callbacks=[lambda update, heard=heard: heard.append(update.number)],
            **settings,
        )
        assert heard == list(range(number + 1, UPDATES + 1))
        assert_same(again, plain)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"policy": "gaussian", "solver": "gmres"},
        {"policy": "gaussian", "solver": "bicgstab"},
        {"solver": "gmres", "precision": "float32"},
        {"model": "local", "start": "given", "policy": "deterministic"},
        pytest.param({"model": "local", "start": "given", "policy": "gaussian"}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_training_goes_on_from_any_update_as_if_it_had_not_stopped(
    grid: Transitions, tmp_path: Path, settings: dict[str, Any]
) -> None:
    goes_on_from_every_update(grid, tmp_path, settings)


@pytest.mark.slow
def test_a_start_that_was_chosen_is_not_chosen_again(
    grid: Transitions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(_: Update) -> None:
        raise InterruptedError

    folder, settings = tmp_path / "run", {"model": "local", "updates": 2}
    plain = train(grid, **settings)
    with pytest.raises(InterruptedError):
        train(grid, checkpoint=folder, callbacks=[killed], **settings)
    assert numbers_in(folder) == [0]
    monkeypatch.setattr(_train, "best_start", lambda *_, **__: pytest.fail("chosen again"))
    assert_same(train(grid, resume=folder, **settings), plain)


def test_the_candidates_that_memory_afforded_are_kept(grid: Transitions, tmp_path: Path) -> None:
    def killed(_: Update) -> None:
        raise InterruptedError

    folder = tmp_path / "run"
    settings = {"memory_budget": Footprint.of(grid, len(grid)).bytes(12)}
    plain = train(grid, **settings)
    with pytest.raises(InterruptedError):
        train(grid, checkpoint=folder, callbacks=[killed], **settings)
    # More memory by now; the rows stay as long as they were.
    again = train(grid, resume=folder, memory_budget=None)
    assert_same(again, plain)
    assert train(grid, memory_budget=None).history != plain.history


def test_the_clock_decides_when_to_write_and_nothing_else(grid: Transitions, tmp_path: Path) -> None:
    seldom, often = tmp_path / "seldom", tmp_path / "often"
    quiet = train(grid, checkpoint=seldom, every=1_000, minutes=1_000)
    loud = train(grid, checkpoint=often, every=1_000, minutes=1e-9)
    assert numbers_in(seldom) == [0, UPDATES]
    assert numbers_in(often) == [UPDATES - 1, UPDATES]
    assert_same(quiet, loud)


def test_a_training_that_has_ended_is_not_trained_further(grid: Transitions, tmp_path: Path) -> None:
    first = train(grid, checkpoint=tmp_path, callbacks=[lambda update: update.number == 2])
    again = train(grid, resume=tmp_path, callbacks=[lambda _: pytest.fail("there was another update")])
    assert len(first.history) == 2
    assert_same(again, first)


def test_a_policy_that_was_passed_in_goes_on_where_it_is_now(grid: Transitions, tmp_path: Path) -> None:
    def fresh() -> MLPPolicy:
        return MLPPolicy.from_data(grid.features, grid.actions, rng=generator(0, "policy"))

    def interrupt(update: Update) -> None:
        if update.number == 2:
            os.kill(os.getpid(), signal.SIGINT)

    plain, mine = train(grid, policy=fresh()), fresh()
    with pytest.raises(TrainingInterrupted):
        train(grid, policy=mine, checkpoint=tmp_path, callbacks=[interrupt])
    again = train(grid, policy=mine, resume=tmp_path)
    assert again.policy.policy is mine
    assert_same(again, plain)


def test_another_policy_is_refused_and_not_replaced(grid: Transitions, tmp_path: Path) -> None:
    def policy(seed: int) -> MLPPolicy:
        return MLPPolicy.from_data(grid.features, grid.actions, rng=generator(seed, "policy"))

    with pytest.raises(TrainingInterrupted):
        train(grid, policy=policy(0), checkpoint=tmp_path, callbacks=[press_at(2)])
    other = policy(1)
    before = {name: part.clone() for name, part in other.state_dict().items()}
    with pytest.raises(ArgumentError, match=r"another training: policy_parameters is '[0-9a-f]{64}' there"):
        train(grid, policy=other, resume=tmp_path)
    assert all(torch.equal(part, before[name]) for name, part in other.state_dict().items())
    assert_same(train(grid, policy=policy(0), resume=tmp_path), train(grid, policy=policy(0)))


@pytest.mark.slow
def test_a_policy_that_goes_on_where_it_is_now_has_the_start_of_its_training(
    grid: Transitions, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"model": "local", "updates": 3}
    plain, mine = (
        MLPPolicy.from_data(grid.features, grid.actions, rng=generator(0, "policy")) for _ in range(2)
    )
    with pytest.raises(TrainingInterrupted):
        train(grid, policy=mine, checkpoint=tmp_path, callbacks=[press_at(2)], **settings)
    assert_same(train(grid, policy=mine, resume=tmp_path, **settings), train(grid, policy=plain, **settings))


# One at a time.


def test_a_second_training_in_the_same_folder_is_refused_while_the_first_runs(
    grid: Transitions, tmp_path: Path
) -> None:
    refused: list[str] = []

    def another(update: Update) -> None:
        if update.number == 2:
            with pytest.raises(ArgumentError) as raised:
                train(grid, checkpoint=tmp_path)
            refused.append(str(raised.value))

    first = train(grid, checkpoint=tmp_path, callbacks=[another])
    assert "another training writes its checkpoints to" in refused[0]
    assert_same(train(grid, checkpoint=tmp_path), first)


def test_the_lock_of_a_folder_dies_with_its_process(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib\n"
        "from nopg.training._folder_lock import locked\n"
        "with locked(pathlib.Path(sys.argv[1])):\n"
        "    print('locked', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(ArgumentError, match="at this moment"), locked(tmp_path):
            pass
        holder.kill()
    with locked(tmp_path):
        assert (tmp_path / ".lock").stat().st_size == 0


# On disk.


def test_a_checkpoint_is_json_and_safetensors(begun: Path) -> None:
    last = begun / "update-000004"
    assert sorted(path.name for path in last.iterdir()) == ["state.json", "tensors.safetensors"]
    state = json.loads((last / "state.json").read_text(), parse_constant=pytest.fail)
    assert state["format"] == 2
    assert len(state["history"]["rows"]) == 4
    assert {"policy.network.hidden.weight", "memory.estimator.q", "memory.estimator.mu"} <= set(
        load_file(last / "tensors.safetensors")
    )


@given(
    st.lists(st.tuples(st.floats(), st.floats(), st.floats(), st.integers(0, 10**9), st.floats()), max_size=5)
)
def test_a_history_comes_back_bit_by_bit(rows: list[tuple[Any, ...]]) -> None:
    history = tuple(Update(number, 9, *row) for number, row in enumerate(rows, start=1))
    again = _written_and_read(history)
    for here, there in zip(history, again, strict=True):
        assert (here.number, here.planned, here.products) == (there.number, there.planned, there.products)
        for name in ("expected_return", "gradient_norm", "unknown_mass", "seconds"):
            mine, read = getattr(here, name), getattr(there, name)
            assert (math.isnan(mine) and math.isnan(read)) or mine.hex() == read.hex()


def _written_and_read(history: tuple[Update, ...]) -> tuple[Update, ...]:
    import tempfile

    state = State(fingerprint={}, finished=False, eps=1e-8, most_candidates=None, start=None, parameters=None)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"update-{len(history):06}"
        write_folder(path, state, history, {})
        return read_folder(path)[1]


def test_what_a_kill_left_unfinished_is_not_taken_for_a_checkpoint_and_goes_with_the_next(
    grid: Transitions, copy: Path
) -> None:
    (copy / ".unfinished-update-000005").mkdir()
    (copy / ".removed-update-000002").mkdir()
    (copy / "update-notes").mkdir()  # somebody else's
    assert len(train(grid, resume=copy).history) == UPDATES
    left = sorted(path.name for path in copy.iterdir())
    assert left == [".lock", "update-000004", "update-000005", "update-notes"]


# What is no checkpoint of this training.


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ({"updates": 6}, "updates is 5 there and 6 here"),
        ({"learning_rate": 0.1}, "learning_rate is 0.01 there and 0.1 here"),
        ({"seed": 1}, "seed is 0 there and 1 here"),
        ({"start": "given"}, "start is 'auto' there and 'given' here"),
        (
            {"model": "local"},
            "bandwidths is '[0-9a-f]{64}' there and None here; model is 'paper' there and 'local'",
        ),
        ({"policy": "gaussian"}, "policy is 'auto' there and 'gaussian' here"),
        ({"prior_mass": 0.1}, "prior_mass is None there and 0.1 here"),
        ({"solver": nopg.linalg.FixedPoint()}, "solver is 'auto' there and 'FixedPoint"),
        ({"bandwidths": None}, "bandwidths is '[0-9a-f]{64}' there and None here"),
        ({"initial_states": [0.0, 0.0]}, "initial_states is"),
    ],
    ids=str,
)
def test_another_training_is_refused_with_what_differs(
    grid: Transitions, begun: Path, setting: dict[str, Any], named: str
) -> None:
    with pytest.raises(ArgumentError, match=rf"update-000004 belongs to another training: {named}"):
        train(grid, resume=begun, **setting)


def test_other_data_are_refused(grid: Transitions, begun: Path) -> None:
    with pytest.raises(
        ArgumentError, match=r"data is '[0-9a-f]{64}' there and .*rows is 128 there and 127 here"
    ):
        train(grid.take(torch.arange(127)), resume=begun)
    with pytest.raises(ArgumentError, match=r"discount is 0\.9 there and 0\.8 here"):
        nopg.optimize(
            grid,
            0.8,
            model=nopg.PaperModel.Config(bandwidths=GRID),
            checkpoint=nopg.CheckpointConfig(begun, resume=True),
        )


def test_a_folder_without_a_checkpoint_cannot_be_resumed_from(grid: Transitions, tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "not" / "there"):
        with pytest.raises(ArgumentError, match=r"no checkpoint in '.*' to resume from; checkpoint='"):
            train(grid, resume=folder)


def test_a_file_is_no_folder_for_checkpoints(grid: Transitions, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ArgumentError, match=r"no checkpoints in '.*file'.*give another folder"):
        train(grid, checkpoint=tmp_path / "file")


def test_a_number_is_the_same_setting_in_numpy(grid: Transitions, copy: Path) -> None:
    assert len(train(grid, resume=copy, updates=np.int64(UPDATES), seed=np.int64(0)).history) == UPDATES
    settings: dict[str, object] = {"worst": -math.inf, "none": math.nan, "many": np.int64(3)}
    fingerprint = run_fingerprint(
        grid, grid.starts, model=LocalModel.Config(), training=TrainingConfig(), **settings
    )
    assert differences(json.loads(json.dumps(fingerprint, allow_nan=False)), fingerprint) == []
    assert (fingerprint["worst"], fingerprint["none"], fingerprint["many"]) == ("-inf", "nan", 3)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"every": 0}, "every is 0; give at least 1 update"),
        ({"every": 1, "minutes": 0.0}, "minutes is 0.0; give a positive number"),
        ({"every": 1, "minutes": math.nan}, "minutes is nan; give a positive number"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(
    grid: Transitions, tmp_path: Path, setting: dict[str, Any], message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        train(grid, checkpoint=tmp_path, **setting)


class Hostile:
    """Runs code where a file is taken for a pickle."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return pytest.fail, ("the code of a checkpoint was run",)


def _edit_state(**changes: object) -> Callable[[Path], None]:
    def damage(last: Path) -> None:
        path = last / "state.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return damage


def _edit_tensors(**changes: torch.Tensor | None) -> Callable[[Path], None]:
    def damage(last: Path) -> None:
        path = last / "tensors.safetensors"
        tensors = {**load_file(path), **changes}
        save_file({name: part for name, part in tensors.items() if part is not None}, path)

    return damage


def _cut(name: str, share: float) -> Callable[[Path], None]:
    return lambda last: os.truncate(last / name, int(share * (last / name).stat().st_size))


def _write(name: str, content: bytes) -> Callable[[Path], None]:
    def damage(last: Path) -> None:
        (last / name).write_bytes(content)

    return damage


def _is_a_file(last: Path) -> None:
    shutil.rmtree(last)
    last.write_text("")


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "no state": (lambda last: (last / "state.json").unlink(), "state.json: .*No such file"),
    "no tensors": (lambda last: (last / "tensors.safetensors").unlink(), "tensors.safetensors: "),
    "no folder": (_is_a_file, "state.json: .*Not a directory"),
    "half a state": (_cut("state.json", 0.5), "state.json: "),
    "half the tensors": (_cut("tensors.safetensors", 0.5), "tensors.safetensors: "),
    "nothing in it": (_cut("tensors.safetensors", 0.0), "tensors.safetensors: "),
    "not text": (_write("state.json", b"\xff\xfe\x00"), "state.json: "),
    "too deep": (_write("state.json", b"[" * 200_000), "state.json: "),
    "no object": (_write("state.json", b"[1, 2]"), "state.json: "),
    "an empty object": (_write("state.json", b"{}"), "state.json says nothing of 'format'"),
    "a pickle for tensors": (_write("tensors.safetensors", pickle.dumps(Hostile())), "tensors.safetensors: "),
    "a pickle for the state": (_write("state.json", pickle.dumps(Hostile())), "state.json: "),
    "a format to come": (_edit_state(format=3), "it is of format 3, this version reads 2"),
    "a format of before": (_edit_state(format=1), "it is of format 1, this version reads 2"),
    "no history": (_edit_state(history=None), "state.json: "),
    "another history": (_edit_state(history={"columns": ["number"], "rows": [[1]]}), "has the columns"),
    "no updates": (
        _edit_state(history={"columns": list(Update.__slots__), "rows": []}),
        "its history has 0 updates",
    ),
    "a start of nothing": (_edit_state(start="nowhere"), "the start has another"),
    "an ε of nothing": (_edit_state(eps=0.0), "Adam's ε is 0"),
    "parameters of NaN": (
        _edit_tensors(**{"policy.network.hidden.bias": torch.full((50,), math.nan).double()}),
        "policy.network.hidden.bias holds what is no finite number",
    ),
    "an endless number": (_edit_state(eps=[]), "state.json: "),
    "no parameters": (
        _edit_tensors(**{"policy.network.hidden.bias": None}),
        "network.hidden.bias: absent there",
    ),
    "a stranger's parameters": (
        _edit_tensors(**{"policy.network.hidden.bias": torch.zeros(51).double()}),
        r"the policy has another network.hidden.bias: \(51,\)",
    ),
    "moments of another": (
        _edit_tensors(**{"adam.network.hidden.bias.exp_avg": torch.zeros(3).double()}),
        "Adam's state of network.hidden.bias has another exp_avg",
    ),
    "q of another": (_edit_tensors(**{"memory.estimator.q": torch.zeros(7).double()}), r"q has shape \(7,\)"),
    "no tolerance": (
        _edit_tensors(**{"memory.estimator.tolerance": None}),
        "does not fit this training: 'tolerance'",
    ),
    "a tolerance of NaN": (
        _edit_tensors(**{"memory.estimator.tolerance": torch.tensor(math.nan)}),
        "the tolerance is nan",
    ),
    "many tolerances": (
        _edit_tensors(**{"memory.estimator.tolerance": torch.ones(2)}),
        "does not fit this training",
    ),
    "a strange type": (
        _edit_tensors(**{"memory.estimator.q": torch.zeros(128).to(torch.complex64)}),
        "memory.estimator.q is of type torch.complex64",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_cannot_be_read_is_named_and_says_what_to_do(grid: Transitions, copy: Path, damage: str) -> None:
    spoil, message = DAMAGES[damage]
    spoil(copy / "update-000004")
    with pytest.raises(NopgError, match=message) as raised:
        train(grid, resume=copy)
    assert isinstance(raised.value, DataError)
    assert raised.value.__cause__ is None
    assert "update-000004" in str(raised.value)
    assert "delete it to go on from the one before" in str(raised.value)


def test_the_one_before_is_there_when_the_last_one_is_spoilt(grid: Transitions, copy: Path) -> None:
    shutil.rmtree(copy / "update-000004")
    assert_same(train(grid, resume=copy), train(grid))


@pytest.mark.parametrize(
    "damage",
    [
        {"sampled": torch.zeros(3)},
        {"shape": None},
        {"sampled": torch.full((1,), math.nan)},
        {"discount": None},
        {"fresh.0": torch.zeros(2)},
    ],
    ids=str,
)
def test_a_solver_s_memory_that_does_not_fit_is_named(
    grid: Transitions, tmp_path: Path, damage: dict[str, torch.Tensor | None]
) -> None:
    def killed(update: Update) -> None:
        if update.number == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        train(grid, checkpoint=tmp_path, every=1, solver="gmres", callbacks=[killed])
    last = tmp_path / "update-000002"
    kept = load_file(last / "tensors.safetensors")
    changes: dict[str, torch.Tensor | None] = {}
    for name, part in damage.items():
        [full] = [key for key in kept if key.startswith("memory.estimator.solver.") and key.endswith(name)]
        changes[full] = part.expand_as(kept[full]).clone() if part is not None and len(part) == 1 else part
    _edit_tensors(**changes)(last)
    with pytest.raises(DataError, match=r"preconditioner|does not fit"):
        train(grid, resume=tmp_path, solver="gmres")


# Ctrl-C.


def press_at(number: int, times: int = 1) -> Callable[[Update], None]:
    def pressed(update: Update) -> None:
        if update.number == number:
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGINT)

    return pressed


def test_ctrl_c_ends_the_training_after_the_update_with_a_checkpoint(
    grid: Transitions, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, before = tmp_path / "run", signal.getsignal(signal.SIGINT)
    heard: list[int] = []
    with pytest.raises(TrainingInterrupted, match=r"make the same call with checkpoint='.*run'") as raised:
        train(grid, checkpoint=folder, callbacks=[press_at(3), lambda update: heard.append(update.number)])
    assert isinstance(raised.value, KeyboardInterrupt)
    assert (raised.value.update, raised.value.folder) == (3, str(folder))
    assert heard == [1, 2, 3]
    assert numbers_in(folder) == [0, 3]
    assert "Ctrl-C again stops it now" in caplog.text
    assert signal.getsignal(signal.SIGINT) is before
    assert_same(train(grid, resume=folder), train(grid))
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_the_second_ctrl_c_does_not_wait(grid: Transitions, tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt) as raised:
        train(grid, checkpoint=tmp_path, callbacks=[press_at(3, times=2)])
    assert not isinstance(raised.value, TrainingInterrupted)
    assert numbers_in(tmp_path) == [0]
    assert signal.getsignal(signal.SIGINT) is before


def test_without_a_folder_ctrl_c_is_python_s(grid: Transitions) -> None:
    with pytest.raises(KeyboardInterrupt) as raised:
        train(grid, callbacks=[press_at(2)])
    assert not isinstance(raised.value, TrainingInterrupted)


def test_an_error_puts_the_handler_back(grid: Transitions, tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    during: list[object] = []

    def fail(_: Update) -> None:
        during.append(signal.getsignal(signal.SIGINT))
        raise InterruptedError

    with pytest.raises(InterruptedError):
        train(grid, checkpoint=tmp_path, callbacks=[fail])
    assert during != [before]
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_that_is_ignored_stays_so(grid: Transitions, tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert len(train(grid, checkpoint=tmp_path, callbacks=[press_at(2)]).history) == UPDATES
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_training_in_a_thread_leaves_signals_alone(grid: Transitions, tmp_path: Path) -> None:
    before, during = signal.getsignal(signal.SIGINT), list[object]()
    result: list[TrainingResult] = []

    def look(_: Update) -> None:
        during.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(
        target=lambda: result.append(train(grid, checkpoint=tmp_path, callbacks=[look]))
    )
    thread.start()
    thread.join()
    assert set(during) == {before}
    assert len(result[0].history) == UPDATES

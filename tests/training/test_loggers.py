"""Logs: every update once, whatever was killed and where it goes on."""

import csv
import json
import math
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from numpy import float32

import nopg
from nopg.envs import Pendulum, collect_grid
from nopg.errors import ArgumentError, MissingExtraError
from nopg.kernels import Bandwidths
from nopg.training import CSVLogger, JSONLinesLogger, TensorBoardLogger, Update

Lines = CSVLogger | JSONLinesLogger
BOTH = pytest.mark.parametrize("kind", [CSVLogger, JSONLinesLogger])


def update(number: int, J: float = -1.0 / 3.0) -> Update:
    return Update(
        number=number,
        planned=9,
        expected_return=J,
        gradient_norm=0.1 * number,
        unknown_mass=1e-17,
        products=7,
        seconds=0.5,
    )


def read(log: Lines) -> list[dict[str, float | None]]:
    """Return the entries of a log as any reader would."""
    if isinstance(log, JSONLinesLogger):
        lines = log.path.read_text().splitlines()
        return [json.loads(line, parse_constant=pytest.fail) for line in lines]
    with log.path.open(newline="") as stream:
        return [{name: float(text) for name, text in row.items()} for row in csv.DictReader(stream)]


def entries(*numbers: int) -> list[dict[str, float]]:
    return [{"number": number, **update(number).metrics} for number in numbers]


def write(log: Callable[[Update], None], *numbers: int) -> None:
    for number in numbers:
        assert log(update(number)) is None  # type: ignore[func-returns-value]


@BOTH
def test_an_entry_has_all_digits_of_the_update_and_is_there_at_once(
    kind: type[Lines], tmp_path: Path
) -> None:
    log = kind(tmp_path / "made" / "here" / "log")
    for number in (1, 2, 3):
        write(log, number)
        assert read(log) == entries(*range(1, number + 1))


@BOTH
@pytest.mark.parametrize("goes_on_at", [1, 3, 5, 6])
def test_a_training_that_goes_on_never_repeats_an_update(
    kind: type[Lines], tmp_path: Path, goes_on_at: int
) -> None:
    write(kind(tmp_path / "log"), 1, 2, 3, 4, 5)
    log = kind(tmp_path / "log")
    write(log, *range(goes_on_at, 8))
    assert read(log) == entries(*range(1, 8))


@BOTH
def test_one_logger_serves_a_training_and_its_continuation(kind: type[Lines], tmp_path: Path) -> None:
    log = kind(tmp_path / "log")
    write(log, 1, 2, 3, 4)
    write(log, 3, 4, 5)
    assert read(log) == entries(1, 2, 3, 4, 5)
    write(log, 1)
    assert read(log) == entries(1)


@BOTH
def test_a_log_that_was_cut_anywhere_is_repaired(kind: type[Lines], tmp_path: Path) -> None:
    path = tmp_path / "log"
    write(kind(path), 1, 2, 3)
    whole = path.read_bytes()
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        log = kind(path)
        there = whole[:length].count(b"\n") - (kind is CSVLogger)
        write(log, 3)
        assert read(log) == entries(*range(1, min(max(there, 0), 2) + 1), 3)


@BOTH
@pytest.mark.parametrize(
    "content", ["Dear diary,\nToday", "Dear diary,", "a,b\n1,2\n", '{"a": 1}\n', "[1]\n"]
)
def test_a_file_that_is_no_log_is_refused_and_left_alone(
    kind: type[Lines], tmp_path: Path, content: str
) -> None:
    path = tmp_path / "log"
    path.write_text(content)
    with pytest.raises(ArgumentError, match=r"is no log of a training: it has the line .* give another path"):
        write(kind(path), 1)
    assert path.read_text() == content


def test_a_line_of_another_kind_inside_a_log_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log"
    write(CSVLogger(path), 1)
    path.write_text(path.read_text() + "2,3\n")
    with pytest.raises(ArgumentError, match=r"it has the line '2,3"):
        write(CSVLogger(path), 3)


def test_what_is_no_number_is_null_in_json_and_has_its_name_in_a_table(tmp_path: Path) -> None:
    lines, table = JSONLinesLogger(tmp_path / "lines"), CSVLogger(tmp_path / "table")
    for number, J in enumerate([math.nan, math.inf, -math.inf], start=1):
        lines(update(number, J))
        table(update(number, J))
    assert [row["expected_return"] for row in read(lines)] == [None] * 3
    assert [str(row["expected_return"]) for row in read(table)] == ["nan", "inf", "-inf"]


def _write_for_ever(path: Path) -> None:
    log, number = CSVLogger(path), 0
    while True:
        number += 1
        log(update(number))


def test_a_killed_process_leaves_a_log_that_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "log"
    process = multiprocessing.get_context("spawn").Process(target=_write_for_ever, args=(path,))
    process.start()
    while not path.exists() or path.stat().st_size < 20_000:
        assert process.is_alive()
        time.sleep(0.01)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    written = path.read_text().count("\n") - 1
    log = CSVLogger(path)
    write(log, written + 1)
    assert read(log) == entries(*range(1, written + 2))


def test_loggers_are_callbacks_of_a_training_and_follow_it_over_a_break(tmp_path: Path) -> None:
    data, bandwidths = collect_grid(Pendulum(), (6, 6, 2)), Bandwidths.from_values([0.25, 0.25, 0.6], [2.0])
    logs: list[Lines] = [CSVLogger(tmp_path / "a.csv"), JSONLinesLogger(tmp_path / "a.jsonl")]

    def press(number: int) -> Callable[[Update], None]:
        return lambda update: os.kill(os.getpid(), signal.SIGINT) if update.number == number else None

    def train(interrupted_at: int) -> nopg.TrainingResult:
        return nopg.optimize(
            data,
            0.9,
            model=nopg.PaperModel.Config(bandwidths=bandwidths),
            config=nopg.TrainingConfig(updates=6, callbacks=[*logs, press(interrupted_at)], progress=False),
            checkpoint=tmp_path / "run",
        )

    with pytest.raises(KeyboardInterrupt):
        train(3)
    history = train(0).history
    for log in logs:
        rows = read(log)
        assert [row["number"] for row in rows] == [1, 2, 3, 4, 5, 6]
        assert rows == [{"number": one.number, **one.metrics} for one in history]
        assert all(row["seconds"] is not None and row["seconds"] > 0 for row in rows)


# TensorBoard.


def curves(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Return what TensorBoard shows of a run."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder)).Reload()
    return {
        name: [(point.step, point.value) for point in events.Scalars(name)]
        for name in events.Tags()["scalars"]
    }


def test_tensorboard_shows_every_metric(tmp_path: Path) -> None:
    log = TensorBoardLogger(tmp_path)
    write(log, 1, 2)
    shown = curves(tmp_path)  # before the file is closed
    log.close()
    assert set(shown) == set(update(1).metrics)
    # It keeps 24 bits.
    assert shown["expected_return"] == [(1, float(float32(-1 / 3))), (2, float(float32(-1 / 3)))]
    assert shown["gradient_norm"] == [(1, float(float32(0.1))), (2, float(float32(0.2)))]


def test_tensorboard_shows_no_update_twice_after_a_break(tmp_path: Path) -> None:
    first, second = TensorBoardLogger(tmp_path), TensorBoardLogger(tmp_path)
    write(first, 1, 2, 3, 4, 5)
    first.close()
    [events] = tmp_path.iterdir()
    os.truncate(events, events.stat().st_size - 10)  # half an entry, from a kill
    write(second, 3, 4)
    second.close()
    assert [step for step, _ in curves(tmp_path)["expected_return"]] == [1, 2, 3, 4]


def test_the_last_update_closes_the_file(tmp_path: Path) -> None:
    log = TensorBoardLogger(tmp_path)
    write(log, 8, 9)
    assert log._writer is None
    assert [step for step, _ in curves(tmp_path)["products"]] == [8, 9]


def test_tensorboard_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'nopg\[tensorboard\]'"):
        TensorBoardLogger(tmp_path)

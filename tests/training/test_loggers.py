"""The log of a training: every update once, also after a restart."""

import csv
import os
import signal
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

import nopg
from nopg import Bandwidths
from nopg.envs import Pendulum, collect_grid
from nopg.errors import ArgumentError
from nopg.training import CSVLogger, Update


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


def read(log: CSVLogger) -> list[dict[str, float]]:
    with log.path.open(newline="") as stream:
        return [{name: float(text) for name, text in row.items()} for row in csv.DictReader(stream)]


def row(one: Update) -> dict[str, float]:
    return {name: value for name, value in asdict(one).items() if name != "planned"}


def rows(*numbers: int) -> list[dict[str, float]]:
    return [row(update(number)) for number in numbers]


def write(log: CSVLogger, *numbers: int) -> None:
    for number in numbers:
        log(update(number))


def test_a_row_has_all_digits_of_the_update_and_is_there_at_once(tmp_path: Path) -> None:
    log = CSVLogger(tmp_path / "made" / "here" / "log.csv")
    for number in (1, 2, 3):
        write(log, number)
        assert read(log) == rows(*range(1, number + 1))


@pytest.mark.parametrize("resumed_at", [1, 3, 5, 6])
def test_a_resumed_training_never_repeats_an_update(tmp_path: Path, resumed_at: int) -> None:
    write(CSVLogger(tmp_path / "log"), 1, 2, 3, 4, 5)
    log = CSVLogger(tmp_path / "log")
    write(log, *range(resumed_at, 8))
    assert read(log) == rows(*range(1, 8))


def test_half_a_row_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "log"
    write(CSVLogger(path), 1, 2, 3)
    path.write_bytes(path.read_bytes()[:-5])
    log = CSVLogger(path)
    write(log, 4)
    assert read(log) == rows(1, 2, 4)


@pytest.mark.parametrize("content", ["Dear diary,\nToday", "Dear diary,", "a,b\n1,2\n"])
def test_a_file_that_is_no_log_is_refused_and_left_alone(tmp_path: Path, content: str) -> None:
    path = tmp_path / "log"
    path.write_text(content)
    with pytest.raises(ArgumentError, match="is not a log of a training; give another path"):
        write(CSVLogger(path), 1)
    assert path.read_text() == content


def test_a_logger_is_a_callback_of_a_training_and_follows_it_over_a_break(tmp_path: Path) -> None:
    data, bandwidths = collect_grid(Pendulum(), (6, 6, 2)), Bandwidths.from_values([0.25, 0.25, 0.6], [2.0])
    log = CSVLogger(tmp_path / "a.csv")

    def press(number: int) -> Callable[[Update], None]:
        return lambda update: os.kill(os.getpid(), signal.SIGINT) if update.number == number else None

    def train(interrupted_at: int) -> nopg.TrainingResult:
        return nopg.optimize(
            data,
            0.9,
            model=nopg.PaperModel.Config(bandwidths=bandwidths),
            config=nopg.TrainingConfig(updates=6, callbacks=[log, press(interrupted_at)], progress=False),
            checkpoint=tmp_path / "run",
        )

    with pytest.raises(KeyboardInterrupt):
        train(3)
    history = train(0).history
    assert read(log) == [row(one) for one in history]

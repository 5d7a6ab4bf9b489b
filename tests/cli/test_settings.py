"""Settings of a log: options of the command line over a file, and the file that `nopg init` guesses."""

import json
import math
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cli.tank import answer, run, write_log
from nopg.cli._init import filled, guess
from nopg.cli._log import read, read_like
from nopg.cli._settings import SETTINGS, LogOptions, check, examples, from_texts
from nopg.errors import ArgumentError, DataError
from nopg.evaluation import match_log
from nopg.training import load

COLUMNS = ["--state", "level", "--action", "valve", "--cost", "(level - 1)**2"]
ROLES = {"states": ["level"], "actions": ["valve"], "cost": "(level - 1)**2"}


def log(start: int = 0) -> pd.DataFrame:
    rows = range(start, start + 40)
    return pd.DataFrame(
        {
            "time": [f"{1 + k // 24:02}/04/2024 {k % 24:02}:00" for k in rows],
            "level": [round(1 + math.sin(0.3 * k), 3) for k in rows],
            "valve": [round(math.cos(0.7 * k), 3) for k in rows],
        }
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in (9, 10):
        log(number).to_csv(tmp_path / f"log-{number}.csv", sep=";", decimal=",", index=False)
    return tmp_path


def settings_file(folder: Path, **settings: Any) -> Path:
    path = folder / "nopg.toml"
    path.write_text(filled(settings), encoding="utf-8")
    return path


# One file for all commands.


def test_every_setting_has_an_example_of_its_own_form_and_the_file_can_be_read() -> None:
    for name in SETTINGS:
        for example in examples(name):
            check({name: example}, "a file")
    everything = filled({name: examples(name)[0] for name in SETTINGS})
    assert {*tomllib.loads(everything)} == {*SETTINGS}
    assert tomllib.loads(filled({})) == {}


def test_the_command_line_goes_before_the_file(folder: Path) -> None:
    path = settings_file(folder, **ROLES, data=["log-9.csv"], discount=0.5, bounds={"valve": [0, 1]})
    found = LogOptions(config=path, reward="-level", assigned=["bounds.valve=[-1, 1]"]).settings(
        {"horizon": "3min"}
    )
    assert found["data"] == ["log-9.csv"]
    assert (found["reward"], found["horizon"], found["bounds"]) == ("-level", "3min", {"valve": [-1, 1]})
    assert not {"cost", "discount"} & {*found}  # what is typed stands for them


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("state = ['level']", "has 'state', which is not known; did you mean 'states'?"),
        ("states = 'level'", 'states is \'level\'; write e.g. states = ["level", "speed"]'),
        ("resample = 'sometimes'", 'resample is \'sometimes\'; write e.g. resample = "hold" or "mean"'),
        ("updates = 2.5", "updates is 2.5"),
        ("lags = 'few'", "lags is 'few'; write e.g. lags = {valve = 2} or \"auto\""),
        ("interval = true", "interval is True"),
        ("bounds = {valve = [0, 1, 2]}", "bounds of 'valve' are (0, 1, 2)"),
        ("reward = 'level'\ncost = 'level'", "a reward and a cost are given; name one of them"),
        ("interval = nan", "interval is nan"),
        ("states = [", "cannot be read as TOML"),
        ("a = " + "[" * 5000 + "]" * 5000, "cannot be read as TOML"),
    ],
)
def test_a_file_says_what_is_wrong_with_it(folder: Path, text: str, words: str) -> None:
    (folder / "nopg.toml").write_text(text)
    columns = COLUMNS if "bounds" in text else []
    code, _, shown = run("describe", folder / "log-9.csv", *columns, "--config", folder / "nopg.toml")
    assert (code, words in shown) == (1, True), shown


def test_texts_of_options_are_values_of_the_file() -> None:
    assert from_texts(["exogenous=['goal']", "plant=3"]) == {"exogenous": ["goal"], "plant": "3"}
    assert from_texts(["lags=auto"]) == {"lags": "auto"}
    assert from_texts(["follows.level=goal", "follows.flow=1.5"]) == {
        "follows": {"level": "goal", "flow": 1.5}
    }
    assert from_texts(['lags."a b"=2', "missing=hold:5"]) == {"lags": {"a b": 2}, "missing": "hold:5"}
    for text, words in (
        ("lags.valve=few", "lags is {'valve': 'few'}; write e.g. lags = "),
        ("bounds.valve=1", "bounds is {'valve': '1'}"),
        ("lag=1", "--set has 'lag', which is not known; did you mean 'lags'?"),
        ("lags", "--set 'lags' has no value"),
    ):
        with pytest.raises(ArgumentError, match=re.escape(words)):
            from_texts([text])


# What is a log.


def test_several_files_a_glob_and_a_folder_are_one_log(folder: Path) -> None:
    for data in (["log-9.csv", "log-10.csv"], ["log-*.csv"], ["."]):
        assert answer("describe", *(folder / one for one in data), *COLUMNS)["rows"] == 78


def test_a_date_that_may_be_either_needs_its_format(folder: Path) -> None:
    timed = ("describe", folder / "log-9.csv", *COLUMNS, "--time", "time")
    code, _, shown = run(*timed)
    assert code == 1
    assert "is the day" in shown
    path = settings_file(folder, time_format="%d/%m/%Y %H:%M")
    assert answer(*timed, "--config", path)["rows"] == 39


def test_parquet_is_read(folder: Path) -> None:
    path = folder / "log.parquet"
    log().to_parquet(path, index=False)
    code, out, shown = run("init", path, "-o", folder / "guessed.toml")
    assert (code, 'actions ["valve"]' in " ".join(out.split())) == (0, True), shown
    assert answer("describe", path, *COLUMNS)["rows"] == 39
    assert "no reward is given" in run("describe", path, *COLUMNS[:4])[1]
    code, _, shown = run("fit", path, *COLUMNS[:4], "-g", 0.9, "-o", folder / "out")
    assert (code, "reward" in shown) == (1, True)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (["gone.csv"], "there is no file"),
        (["gone-*.csv"], "no file matches"),
        (["log-9.csv", "a.parquet"], "several kinds (csv, parquet)"),
        (["a.xlsx"], "is a workbook or database; save the table as CSV or Parquet first"),
        ([], "no log is given; name its file, or a file of settings with --config"),
    ],
)
def test_data_that_cannot_be_read_are_refused_in_one_line(
    folder: Path, data: list[str], expected: str
) -> None:
    (folder / "a.parquet").write_bytes(b"x")
    (folder / "a.xlsx").write_bytes(b"x")
    code, _, shown = run("describe", *(folder / one for one in data), *COLUMNS)
    assert (code, expected in shown) == (1, True), shown
    assert shown.count("error:") == 1


# What follows from the columns.


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log in minutes, with blanks and a goal."""
    path = write_log(tmp_path_factory.mktemp("time") / "log.csv", runs=4, steps=60)
    frame = pd.read_csv(path).assign(goal=lambda rows: 1 + 0.1 * rows["run"])
    frame.loc[frame.index % 17 == 5, "level"] = np.nan
    frame.to_csv(path, index=False)
    return path


TIMED: dict[str, Any] = {
    "states": ["level"],
    "actions": ["valve"],
    "episode": "run",
    "time": "t",
    "units": {"t": "min"},
}


def test_settings_of_time_and_missing_values_reach_the_reader(timed: Path) -> None:
    given = {"data": [str(timed)], **TIMED, "reward": "-level"}
    data = read({**given, "missing": {"level": "interpolate:2"}, "resample": "hold", "interval": 120.0})
    assert (data.schema.interval, data.schema.hold, len(data.starts)) == (120.0, {"level": 2}, 4)
    with pytest.raises(DataError, match="level"):
        read({**given, "missing": "refuse"})
    data = read({**given, "starts": "rows"})
    assert len(data.starts) == len(data)
    assert read({**given, "exogenous": {"goal": "hold"}}).schema.exogenous == {"goal": "hold"}


@dataclass(frozen=True)
class Choice:
    lags: dict[str, int]

    def __str__(self) -> str:
        return "valve acts after 1 step"


def test_lags_that_were_chosen_are_saved_and_used_for_another_log(
    timed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nopg.models.select_lags", lambda data: Choice({"valve": 1}))
    settings: dict[str, Any] = {
        **TIMED,
        "lags": "auto",
        "integrals": {"sum": "level - 1.1"},
        "missing": "hold:3",
    }
    settings |= {
        "reward": "-(level - 1.1)**2 - 0.01*abs(sum)",
        "updates": 1,
        "start": "given",
        "model": "paper",
    }
    config = settings_file(tmp_path, **settings, out=str(tmp_path / "tank"), horizon="10min")
    code, _, shown = run("fit", timed, "--config", config)
    assert code == 0, shown
    assert "lags: valve acts after 1 step" in shown
    assert "horizon 10min, a row every 60 s: γ = 0.90484" in shown  # exp(−60/600)
    monkeypatch.setattr("nopg.models.select_lags", lambda data: pytest.fail("chosen again"))
    result = load(tmp_path / "tank")
    assert result.discount == pytest.approx(math.exp(-0.1))
    data = match_log(result, read_like(tmp_path / "tank", result, {"data": [str(timed)]}))
    assert data.schema == result.policy.schema
    assert data.schema.states == ("level", "valve_lag1", "sum")
    slow = write_log(tmp_path / "slow.csv", steps=60, interval=3.0)
    with pytest.raises(DataError, match="are 180 s apart, those of the controller 60 s; resample the log"):
        match_log(result, read_like(tmp_path / "tank", result, {"data": [str(slow)]}))


# A first file.


def test_init_writes_a_file_from_which_a_controller_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_log(tmp_path / "tank.csv")
    code, out, shown = run("init", "tank.csv")
    assert code == 0, shown
    assert 'states ["level"]' in " ".join(out.split())
    assert "correct it, then nopg describe --config nopg.toml" in shown
    found = tomllib.loads(Path("nopg.toml").read_text(encoding="utf-8"))
    assert found == {
        "data": ["tank.csv"],
        "states": ["level"],
        "actions": ["valve"],
        "cost": "cost",
        "time": "t",
        "episode": "run",
        "discount": 0.97,
        "out": "tank",
    }
    assert answer("describe", "--config", "nopg.toml")["rows"] == 312
    code, _, shown = run("init", "tank.csv")
    assert (code, "nopg.toml exists already; give another name, or --overwrite" in shown) == (1, True)


def test_roles_and_units_are_guessed_by_names_and_first_rows() -> None:
    numbers, dates = ["1.5", "2,5"], ["31.03.2025 08:00", "31.03.2025 08:01"]
    names = ("TIC4711.PV [°C]", "TIC4711.SP [°C]", "TIC4711.OP [%]", "FI12 (m³/h)")
    columns = {"When": dates, **dict.fromkeys(names, numbers)}
    assert guess(columns | {"alarm": [], "constant": ["1", "1"], "mode": ["AUTO", "MAN"]}) == {
        "time": "When",
        "states": ["TIC4711_PV=TIC4711.PV [°C]", "FI12=FI12 (m³/h)", "TIC4711_SP=TIC4711.SP [°C]"],
        "exogenous": ["TIC4711_SP"],
        "actions": ["TIC4711_OP=TIC4711.OP [%]"],
        "cost": "(TIC4711_PV - TIC4711_SP)**2",
        "units": {"TIC4711_PV": "°C", "FI12": "m³/h", "TIC4711_SP": "°C", "TIC4711_OP": "%"},
    }
    quoted = {"states": ['a"b\\c=\\1'], "units": {"a b": "°C"}}
    assert tomllib.loads(filled(quoted)) == quoted


def test_init_says_what_it_could_not_guess(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("alpha,beta\n1,2\n2,3\n3,5\n")
    code, _, shown = run("init", tmp_path / "log.csv", "-o", tmp_path / "nopg.toml")
    assert code == 0
    assert "no column looks like one of the actions; name them in" in shown
    assert "no cost is given; name one in" in shown
    json.dumps(tomllib.loads((tmp_path / "nopg.toml").read_text()))

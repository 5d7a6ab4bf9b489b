"""Options of time, missing values, exogenous and derived columns, as a user types them."""

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from nopg.bundles import open_bundle
from nopg.cli._app import app
from nopg.cli._data import DataOptions
from nopg.cli._derived import missing_of
from nopg.cli._log import read_log
from nopg.errors import ArgumentError, DataError
from nopg.training import load


def write_log(path: Path, *, step: float = 60.0, rows: int = 60, runs: int = 4, seed: int = 0) -> Path:
    """Write a log of a tank with dates, a blank here and there, and a gap in every second run."""
    rng = np.random.default_rng(seed)
    with path.open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["run", "minutes", "level", "valve", "goal"])
        for run in range(runs):
            level, goal = rng.uniform(0.5, 1.5), 1.0 + 0.1 * run
            for t in range(rows):
                valve = float(np.clip(0.35 + 0.3 * (goal - level) + 0.1 * rng.standard_normal(), 0, 1))
                blank = "" if t % 17 == 5 else repr(level)
                if run % 2 == 0 or not 30 <= t < 40:
                    table.writerow([run, 1000 * run + t * step / 60, blank, repr(valve), goal])
                level += 0.3 * (valve - 0.35 * level**0.5) + 0.002 * rng.standard_normal()
    return path


COLUMNS: dict[str, Any] = {"state": ["level"], "action": ["valve"], "episode": "run", "time": "minutes"}
TYPED = ["-s", "level", "-a", "valve", "--episode", "run", "--time", "minutes", "--unit", "minutes=min"]


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, " ".join(result.stderr.split())


def options(path: Path, **given: Any) -> DataOptions:
    return DataOptions(data=[str(path)], **{**COLUMNS, "unit": ["minutes=min"], "reward": "-level", **given})


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_log(tmp_path_factory.mktemp("time") / "log.csv")


def test_options_of_time_and_missing_values_reach_the_reader(log: Path) -> None:
    data = options(log, missing=["level=interpolate:2"], resample="hold", interval=120.0).read()
    assert data.schema.interval == 120.0
    assert data.schema.hold == {"level": 2}
    assert len(data.starts) == 4
    with pytest.raises(DataError, match="state column 'level' has"):
        options(log, missing=["refuse"]).read()
    assert len(options(log, starts="rows").read().starts) == len(options(log).read())


def test_rules_for_all_and_for_one_column_do_not_mix() -> None:
    assert missing_of([]) is None
    with pytest.raises(ArgumentError, match="give one for all columns"):
        missing_of(["hold:5", "flow=drop"])


def test_exogenous_columns_are_states_without_being_named_twice(log: Path) -> None:
    data = options(log, exogenous=["goal=hold"]).read()
    assert data.schema.states == ("level", "goal")
    assert data.schema.exogenous == {"goal": "hold"}


def test_derived_columns_follow_the_reading_and_a_reward_may_use_them(log: Path) -> None:
    given: dict[str, Any] = {
        "exogenous": ["goal"],
        "lags": ["valve=2"],
        "difference": ["level"],
        "integral": ["total=level - goal", "level"],
    }
    formula = "-(level - goal)**2 - abs(total) - 0.1 * (valve - valve_lag1)**2"
    data = options(log, **given, reward=formula).read()
    names = ("level", "goal", "valve_lag1", "valve_lag2", "level_diff", "total", "integral")
    assert data.schema.states == names
    assert data.schema.reward == formula
    level, goal, late, total = (
        data.states[:, names.index(name)] for name in ("level", "goal", "valve_lag1", "total")
    )
    expected = -((level - goal) ** 2) - total.abs() - 0.1 * (data.actions[:, 0] - late) ** 2
    assert data.rewards.tolist() == pytest.approx(expected.tolist())
    cost = options(log, **given, reward=None, cost="abs(total)").read()
    assert cost.rewards.tolist() == pytest.approx((-total.abs()).tolist())


def test_texts_that_are_no_lags_are_refused(log: Path) -> None:
    with pytest.raises(ArgumentError, match="'valve' is no number of lags"):
        options(log, lags=["valve"]).read()
    with pytest.raises(ArgumentError, match="two integrals have one name"):
        options(log, integral=["level", "valve"]).read()


@dataclass(frozen=True)
class Choice:
    lags: dict[str, int]
    sure: bool = True

    def __str__(self) -> str:
        return "valve acts after 1 step"


@pytest.mark.slow
def test_lags_that_were_chosen_are_saved_and_used_for_another_log(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nopg.models.select_lags", lambda data: Choice({"valve": 1}))
    fit = ["fit", log, *TYPED, "--lags", "auto", "--integral", "level - 1.1", "--missing", "hold:3"]
    fit += ["--reward", "-(level - 1.1)**2 - 0.01*abs(integral)"]
    code, _, said = run(*fit, "-g", 0.9, "--updates", 1, "-o", tmp_path / "tank")
    assert code == 0, said
    assert "lags: valve acts after 1 step" in said
    saved = open_bundle(tmp_path / "tank").manifest.object("log")
    assert saved.texts("lags") == ("valve=1",)
    assert saved.texts("unit") == ("minutes=min",)

    monkeypatch.setattr("nopg.models.select_lags", lambda data: pytest.fail("chosen again"))
    result = load(tmp_path / "tank")
    other = write_log(tmp_path / "other.csv", seed=1)
    data = read_log(str(other), tmp_path / "tank", result)
    assert data.schema == result.policy.schema
    assert data.schema.states == ("level", "valve_lag1", "integral")
    assert data.schema.interval == 60.0
    code, out, said = run("evaluate", tmp_path / "tank", "--log", other, "--json")
    assert code == 0, said
    assert json.loads(out)["rows"] == len(data)
    with pytest.raises(DataError, match=r"are 180 s apart, those of .* 60 s; resample the log"):
        read_log(str(write_log(tmp_path / "slow.csv", step=180.0)), tmp_path / "tank", result)


def test_a_start_names_measured_columns_only(log: Path, tmp_path: Path) -> None:
    fit = ["fit", log, *TYPED, "--lags", "valve=1", "--reward", "-level**2", "-g", 0.9, "--updates", 1]
    fit += ["--begin", "given"]
    code, _, said = run(*fit, "--start", "1.2", "-o", tmp_path / "tank")
    assert code == 0, said
    assert load(tmp_path / "tank").start_support.states[0, 0] == 1.2

"""`nopg advise`, as a user types it."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import nopg
from nopg.advice import _advise
from nopg.advice._advise import FAMILY
from nopg.cli._app import app
from nopg.errors import SupportWarning


@pytest.fixture(scope="module")
def tank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    level, valve = rng.uniform(0.2, 1.5, (80, 1)), rng.uniform(0.3, 0.6, (80, 1))
    after = level + 0.3 * valve - 0.15 * np.sqrt(level) + 0.01 * rng.standard_normal((80, 1))
    data = nopg.Transitions.from_arrays(
        level, valve, -((level[:, 0] - 1.0) ** 2), after, initial_states=[[0.3]],
        state_names=["level"], action_names=["valve"],
    )  # fmt: skip
    path = tmp_path_factory.mktemp("advise") / "tank"
    config = nopg.TrainingConfig(updates=1, start="given", progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)  # one update need not beat the log
        nopg.optimize(data, 0.9, policy="deterministic", config=config).save(path)
    return path


@pytest.fixture(autouse=True)
def _two_experiments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_advise, "FAMILY", FAMILY[:2])


def test_experiments_are_printed_and_given_as_json(tank: Path) -> None:
    options = ["advise", str(tank), "--set", "bounds={valve=[0,1],level=[0,2]}", "--rows", "40"]
    shown = CliRunner().invoke(app, options)
    assert shown.exit_code == 0, shown.output
    assert "the log as it is" in shown.stdout
    values = json.loads(CliRunner().invoke(app, [*options, "--json"]).stdout)
    assert len(values["experiments"]) == 2
    assert values["experiments"][0]["sizes"]["valve"] in {0.1, 0.5}
    assert values["notes"] == []


def test_a_valve_without_bounds_is_refused(tank: Path) -> None:
    shown = CliRunner().invoke(app, ["advise", str(tank)])
    assert shown.exit_code == 1
    assert "no finite bounds are known for valve" in " ".join(shown.stderr.split())

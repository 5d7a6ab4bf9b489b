"""A saved controller beside another log of its plant and other controllers, as a user types it."""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cli.tank import GAMMA, Law, answer, run, write_log
from nopg.bundles import open_bundle
from nopg.cli._log import read_like
from nopg.deploy import load as load_controller
from nopg.training import load
from nopg.training._saved import save_result

write = partial(write_log, separator=";")
COLUMNS = ["-s", "level", "-a", "valve", "--cost", "cost", "--time", "t", "--episode", "run"]


@pytest.fixture(scope="module")
def tank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A controller of the tank, from a log whose separator is a semicolon."""
    folder = tmp_path_factory.mktemp("other")
    write(folder / "first.csv")
    (folder / "nopg.toml").write_text('separator = ";"')
    fit = ["fit", folder / "first.csv", *COLUMNS, "-g", GAMMA, "--set", "updates=2"]
    code, _, document = run(*fit, "--config", folder / "nopg.toml", "-o", folder / "tank")
    assert code == 0, document
    how = open_bundle(folder / "tank").manifest.object("log").values
    save_result(load(folder / "tank"), folder / "bare", with_data=False, overwrite=False, log=how)
    return folder / "tank"


@pytest.fixture(scope="module")
def own(tank: Path) -> Law:
    controller = load_controller(tank)
    return lambda level, _: float(controller(np.array([level]))[0])


@pytest.fixture
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_log_under_the_controller_is_known_by_its_actions(tank: Path, own: Law, tmp_path: Path) -> None:
    write(tmp_path / "own.csv", own, seed=2)
    assert answer("evaluate", tank, tmp_path / "own.csv")["own_actions"] == 1
    _, out, _ = run("evaluate", tank, tmp_path / "own.csv")
    assert "this controller: 100 % of the actions are its own; see `nopg monitor`" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80


def test_a_log_must_have_the_columns_of_the_run(tank: Path, tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("run;t;depth;valve;cost\n0;0;1;1;1\n0;1;1;1;1\n")
    code, out, document = run("evaluate", tank, tmp_path / "other.csv")
    assert (code, out) == (1, "")
    assert "there is no column 'level'" in document
    assert "The columns are: run, t, depth, valve, cost" in document
    assert "needs the columns of its own log, level, valve among them" in document


def test_a_run_that_was_saved_from_python_reads_columns_by_their_usual_names(
    tank: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(tank).save(tmp_path / "python")
    write(tmp_path / "log.csv")
    text = (tmp_path / "log.csv").read_text().replace(";", ",").replace("run,t,", "episode,t,")
    (tmp_path / "log.csv").write_text(text.replace(",cost", ",reward"))
    given = {"data": [str(tmp_path / "log.csv")]}
    data = read_like(tmp_path / "python", load(tank), given)
    assert len(data.starts) == 8
    assert bool((data.rewards > 0).all())
    monkeypatch.setattr("nopg.cli._log.read", lambda settings: settings)
    taken: Any = read_like(tmp_path / "python", load(tank), given | {"states": ["a"], "cost": "c"})
    assert (taken["states"], taken["actions"], taken["cost"]) == (["a"], ["valve"], "c")
    assert "reward" not in taken


def test_compare_shows_gains_over_the_logged_behaviour(tank: Path, tmp_path: Path) -> None:
    (tmp_path / "pi.py").write_text(
        "import numpy as np\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass Proportional:\n    gain: float\n"
        "    def __call__(self, states):\n        return np.clip(0.35 + self.gain * (1 - states), 0, 1)\n"
        "controller, timid = Proportional(0.5), Proportional(0.01)\n"
    )
    names = [f"{tmp_path / 'pi.py'}:{name}" for name in ("controller", "timid")]
    bare = tank.with_name("bare")
    others = (names[0], names[1], bare, "lqr")
    found = answer("compare", tank, *(part for other in others for part in ("--with", other)))
    assert list(found["evaluations"]) == ["tank", *names, str(bare), "lqr", "logged"]
    result = load(tank)
    best = found["evaluations"][found["best"]]["interval"][0]
    assert best == max(one["interval"][0] for one in found["evaluations"].values())

    def controller(states: torch.Tensor) -> torch.Tensor:
        return (0.35 + 0.5 * (1 - states)).clamp(0, 1)

    expected = result.evaluator.compare({"tank": result.policy, "pi": controller})
    assert found["gains"][names[0]]["mean"] == pytest.approx(expected.gains["pi"].mean, rel=1e-12)
    assert found["gains"]["tank"]["interval"] == pytest.approx(expected.gains["tank"].interval, rel=1e-12)
    assert found["gains"][str(bare)] == found["gains"]["tank"]  # the same controller
    assert found["gains"][names[1]]["mean"] < found["gains"][names[0]]["mean"]
    assert found["seen"]["episodes"] == 8


@pytest.mark.usefixtures("_elsewhere")
def test_the_table_of_compare_fits_eighty_columns_and_gives_every_reason_once(
    tank: Path,
) -> None:
    Path("pi.py").write_text("def full(states):\n    return 1 + 0 * states\n")
    code, out, document = run("compare", tank, "--with", "pi.py:full")
    assert code == 0, document
    header, *lines = out.splitlines()
    assert header.split() == ["policy", "return", "gain", "over", "logged", "better", "verdict"]
    assert lines[0].startswith("tank *")
    assert lines[2].startswith("pi.py:full")
    assert "not identifiable" in lines[2]
    assert lines[3].split()[0].startswith("[")
    assert "logged episodes earned" in out
    assert out.count("lies outside the data") == 1
    assert "* recommended: " in out
    table = [line for line in lines if not line.startswith(("pi.py:full: ", "logged: "))]
    assert max(map(len, table)) <= 80


def test_compare_without_d3rlpy_names_the_extra(tank: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "d3rlpy", None)
    code, out, document = run("compare", tank, "--with", "td3bc")
    assert (code, out) == (1, "")
    assert "pip install 'nopg[baselines]'" in document


def test_compare_judges_by_another_log_if_there_is_one(tank: Path, tmp_path: Path) -> None:
    write(tmp_path / "may.csv", seed=1)
    bare = tank.with_name("bare")
    code, _, document = run("compare", bare)
    assert code == 1
    assert document == f"error: {bare} was saved without its data; name a log of its plant after it"
    one, other = (answer("compare", saved, tmp_path / "may.csv") for saved in (bare, tank))
    assert one["gains"]["bare"] == other["gains"]["tank"]
    assert other["gains"]["tank"] != answer("compare", tank)["gains"]["tank"]


@pytest.mark.parametrize(
    ("code", "given", "words"),
    [
        ("", "nowhere.py:x", "nowhere.py: No such file or directory"),
        ("", "pi.py", "name its function too, e.g. --with pi.py:controller"),
        ("def law(states): ...\ngain = 1\n", "pi.py:controller", "no function 'controller'; it has law"),
        ("gain = 1\n", "pi.py:gain", "has no function 'gain'; it has none"),
        ("def law(states):\n    return states[:, 0]\n", "pi.py:law", "it must return 1 numbers for each"),
        ("def law(states):\n    return states / 0\n", "pi.py:law", "an action that is not a finite number"),
        ("", "nowhere", "there is no saved controller at nowhere"),
        ("", "tank", "'tank' is given twice"),
    ],
)
@pytest.mark.usefixtures("_elsewhere")
def test_a_controller_that_cannot_be_compared_is_one_line(
    code: str, given: str, words: str, tank: Path
) -> None:
    Path("pi.py").write_text(code)
    exit_code, out, document = run("compare", tank, "--with", given)
    assert (exit_code, out) == (1, "")
    assert words in document
    assert document.count("error:") == 1
    assert "Traceback" not in document

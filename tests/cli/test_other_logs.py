"""A saved controller beside another log of its plant and other controllers, as a user types it."""

import csv
import json
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from nopg.baselines import BASELINES
from nopg.cli._app import app
from nopg.cli._evaluate import _own_share
from nopg.cli._log import read_log
from nopg.data.io import read_csv, write_parquet
from nopg.deploy import load as load_controller
from nopg.errors import DataError
from nopg.training import load

GAMMA = 0.9
COLUMNS = ["-s", "level", "-a", "valve", "--cost", "cost", "--time", "t", "--episode", "run"]
Law = Callable[[float, np.random.Generator], float]


def clumsy(level: float, rng: np.random.Generator) -> float:
    return 0.35 + 0.3 * (1.2 - level) + 0.1 * rng.standard_normal()


def write_log(
    path: Path, law: Law, *, runs: int = 8, steps: int = 40, seed: int = 0, flow: float = 0.3, unit: float = 1
) -> list[float]:
    """Write a log of a tank whose level should be 1, and return the discounted return of every run."""
    rng, returns = np.random.default_rng(seed), []
    with path.open("w", newline="") as stream:
        table = csv.writer(stream, delimiter=";")
        table.writerow(["run", "t", "level", "valve", "cost"])
        for number in range(runs):
            level, found = rng.uniform(0.5, 1.5), 0.0
            for t in range(steps):
                valve = min(max(law(level, rng), 0.0), 1.0)
                cost = (level - 1) ** 2 + 0.05 * (valve - 0.35) ** 2
                table.writerow([number, t, repr(unit * level), repr(valve), repr(cost)])
                # The last row of a run has no next state and is no transition.
                found -= GAMMA**t * cost * (t < steps - 1)
                level += flow * (valve - 0.35 * math.sqrt(level)) + 0.002 * rng.standard_normal()
            returns.append(found)
    return returns


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, " ".join(result.stderr.split())


def answer(*arguments: object) -> dict[str, Any]:
    code, out, document = run(*arguments, "--json")
    assert code == 0, document
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.fixture(scope="module")
def tank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A controller of the tank, from a log whose separator is a semicolon."""
    folder = tmp_path_factory.mktemp("other")
    write_log(folder / "first.csv", clumsy)
    fit = ["fit", folder / "first.csv", *COLUMNS, "--separator", ";", "-g", GAMMA, "--updates", 2]
    code, out, document = run(*fit, "-o", folder / "tank")
    assert code == 0, document
    (folder / "said.txt").write_text(out)
    (folder / "said.json").write_text(json.dumps(answer(*fit, "-o", folder / "bare", "--without-data")))
    return folder / "tank"


@pytest.fixture(scope="module")
def own(tank: Path) -> Law:
    controller = load_controller(tank)
    return lambda level, _: float(controller(np.array([level]))[0])


@pytest.fixture
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_another_log_gives_a_prediction_that_holds_and_agrees_with_the_promise(
    tank: Path, own: Law, tmp_path: Path
) -> None:
    write_log(tmp_path / "may.csv", clumsy, seed=1, runs=10)
    found = answer("evaluate", tank, "--log", tmp_path / "may.csv")
    starts = read_log(str(tmp_path / "may.csv"), tank, load(tank)).starts[:, 0].tolist()
    truth = np.mean([_return_from(start, own) for start in starts])
    low, high = found["predicted"]["interval"]
    assert low < truth < high
    assert found["predicted"]["verdict"] == "ok"
    assert found["against_promise"] == "as promised"
    assert found["starts"] == {"of": "log", "number": 10}
    assert found["realised"] is None
    assert found["own_actions"] < 0.5


def _return_from(level: float, law: Law, steps: int = 200) -> float:
    found, rng = 0.0, np.random.default_rng(0)
    for t in range(steps):
        valve = min(max(law(level, rng), 0.0), 1.0)
        found -= GAMMA**t * ((level - 1) ** 2 + 0.05 * (valve - 0.35) ** 2)
        level += 0.3 * (valve - 0.35 * math.sqrt(level))
    return found


def test_a_log_under_the_controller_shows_what_its_runs_earned(tank: Path, own: Law, tmp_path: Path) -> None:
    returns = write_log(tmp_path / "own.csv", own, seed=2)
    found = answer("evaluate", tank, "--log", tmp_path / "own.csv")
    realised = found["realised"]
    assert found["own_actions"] == 1
    assert realised["episodes"] == 8
    # After the last row the mean of the last fifth continues: 7 of 39 rows.
    data = read_log(str(tmp_path / "own.csv"), tank, load(tank))
    rest = GAMMA**39 / (1 - GAMMA) * float(data.rewards[32:39].mean())
    assert realised["returns"][0] == pytest.approx(returns[0] + rest, rel=1e-12)
    assert realised["mean"] == pytest.approx(np.mean(realised["returns"]), rel=1e-12)
    assert realised["against_promise"] == "as promised"
    _, out, _ = run("evaluate", tank, "--log", tmp_path / "own.csv")
    assert "this controller: 100 % of the actions are its own" in out
    assert f"{realised['mean']:.5g} over 8 episodes, as promised" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80


def test_a_plant_that_has_worn_earns_less_than_promised(tank: Path, own: Law, tmp_path: Path) -> None:
    write_log(tmp_path / "worn.csv", own, seed=2, flow=0.1)
    found = answer("evaluate", tank, "--log", tmp_path / "worn.csv")
    assert found["against_promise"] == "less than promised"
    # By the promise from every start: the returns themselves vary too much to tell.
    assert found["realised"]["against_promise"] == "less than promised"
    spread = 1.96 * np.std(found["realised"]["returns"], ddof=1) / 8**0.5
    assert found["realised"]["mean"] + spread > found["promised"]["interval"][0]


def test_runs_too_short_for_the_discount_have_no_realised_return(
    tank: Path, own: Law, tmp_path: Path
) -> None:
    write_log(tmp_path / "brief.csv", own, steps=29)  # 28 transitions: .9^28 > .05 >= .9^29
    code, out, _ = run("evaluate", tank, "--log", tmp_path / "brief.csv")
    assert code == 0
    assert "no episode has the 29 steps that the discount needs" in " ".join(out.split())


def test_without_saved_data_the_promise_holds_for_the_starts_of_the_run(
    tank: Path, own: Law, tmp_path: Path
) -> None:
    bare = tank.with_name("bare")
    write_log(tmp_path / "own.csv", own, seed=2, runs=2)
    found = answer("evaluate", bare, "--log", tmp_path / "own.csv")
    saved = load(bare)
    assert found["promised"]["expected_return"] == saved.expected_return
    assert found["starts"] == {"of": "run", "number": 8}
    assert found["realised"]["promised"] is None
    assert found["realised"]["interval"] is None  # two returns do not tell how much they vary
    write_log(tmp_path / "three.csv", own, seed=2, runs=3)
    assert answer("evaluate", bare, "--log", tmp_path / "three.csv")["realised"]["interval"] is not None


@pytest.mark.parametrize(("wrong", "is_own"), [(16, True), (17, False)])
def test_a_log_is_the_controllers_own_if_nineteen_of_twenty_actions_are(
    wrong: int, is_own: bool, tank: Path, own: Law, tmp_path: Path
) -> None:
    write_log(tmp_path / "own.csv", own, runs=8, steps=41)
    header, *lines = (tmp_path / "own.csv").read_text().splitlines()
    for k in range(wrong):  # of 320 transitions; not the last rows, which are none
        fields = lines[2 * k].split(";")
        lines[2 * k] = ";".join([*fields[:3], repr(float(fields[3]) / 2 + 0.4), fields[4]])
    (tmp_path / "own.csv").write_text("\n".join([header, *lines]) + "\n")
    found = answer("evaluate", tank, "--log", tmp_path / "own.csv")
    assert found["own_actions"] == pytest.approx(1 - wrong / 320)
    assert (found["realised"] is not None) == is_own


@pytest.mark.parametrize(("share", "same"), [(0.009, 1.0), (0.011, 0.0)])
def test_an_action_is_the_controllers_within_a_hundredth_of_the_range(
    share: float, same: float, tank: Path, own: Law, tmp_path: Path
) -> None:
    write_log(tmp_path / "own.csv", own)
    result = load(tank)
    data = read_log(str(tmp_path / "own.csv"), tank, result)
    # All actions move by the same, so the range of both together is 1 + share of their own.
    moved = data.actions + share / (1 - share) * (data.actions.max() - data.actions.min())
    assert _own_share(result, replace(data, actions=moved)) == same


def test_a_log_must_have_the_columns_of_the_run(tank: Path, tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("run;t;depth;valve;cost\n0;0;1;1;1\n0;1;1;1;1\n")
    code, out, document = run("evaluate", tank, "--log", tmp_path / "other.csv")
    assert (code, out) == (1, "")
    assert "there is no column 'level'" in document
    assert "The columns are: run, t, depth, valve, cost" in document
    assert "needs the columns of its own log, level, valve among them" in document


def test_a_log_in_other_units_is_refused(tank: Path, tmp_path: Path) -> None:
    write_log(tmp_path / "cm.csv", clumsy, unit=100)
    for saved in (tank, tank.with_name("bare")):
        code, _, document = run("evaluate", saved, "--log", tmp_path / "cm.csv")
        assert code == 1
        assert "cm.csv: level lies between" in document
        assert "are the units others? Convert it" in document


@pytest.mark.parametrize(("widths", "refused"), [(0.99, False), (1.01, True)])
def test_a_column_is_refused_once_most_of_it_lies_a_range_away(
    widths: float, refused: bool, tank: Path, tmp_path: Path
) -> None:
    result = load(tank)
    levels = result.data.states[:, 0]
    far = float(levels.max() + widths * (levels.max() - levels.min()))
    for count, most in ((51, True), (49, False)):
        lines = [f"0;{t};{far if t < count else 1.0};0.3;0.1" for t in range(101)]
        (tmp_path / "log.csv").write_text("\n".join(["run;t;level;valve;cost", *lines]) + "\n")
        if refused and most:
            with pytest.raises(DataError, match="level lies between"):
                read_log(str(tmp_path / "log.csv"), tank, result)
        else:
            assert len(read_log(str(tmp_path / "log.csv"), tank, result)) == 100


def test_declared_units_must_be_those_of_the_run(tank: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    write_log(tmp_path / "log.csv", clumsy)
    data = read_csv(
        tmp_path / "log.csv", separator=";", states=["level"], actions=["valve"], reward="cost", episode="run"
    )
    for unit in ("m", "cm"):
        schema = replace(data.schema, units={"level": unit})
        write_parquet(replace(data, schema=schema), tmp_path / f"{unit}.parquet")
    fit = ["fit", tmp_path / "m.parquet", "-g", GAMMA, "--updates", 1, "--begin", "given"]
    code, _, document = run(*fit, "-o", tmp_path / "declared")
    assert code == 0, document
    code, _, document = run("evaluate", tmp_path / "declared", "--log", tmp_path / "cm.parquet")
    assert code == 1
    assert f"the unit of level is cm in {tmp_path / 'cm.parquet'}, m in" in document
    assert answer("evaluate", tmp_path / "declared", "--log", tmp_path / "m.parquet")["rows"] == 312


def test_a_log_needs_four_rows_for_each_coefficient(tank: Path, tmp_path: Path) -> None:
    write_log(tmp_path / "short.csv", clumsy, runs=1, steps=12)
    code, _, document = run("evaluate", tank, "--log", tmp_path / "short.csv")
    assert code == 1
    assert "short.csv is too short: it has 11 transitions; give at least 12" in document
    write_log(tmp_path / "short.csv", clumsy, runs=1, steps=13)
    assert len(read_log(str(tmp_path / "short.csv"), tank, load(tank))) == 12


@pytest.mark.parametrize("given", [[], ["--env", "nopg/Pendulum-v0", "--log", "x.csv"]])
def test_evaluate_wants_an_environment_or_a_log(given: list[str], tank: Path) -> None:
    code, _, document = run("evaluate", tank, *given)
    assert (code, document) == (1, "error: give one of --env and --log")


def test_a_run_that_was_saved_from_python_reads_columns_by_their_usual_names(
    tank: Path, tmp_path: Path
) -> None:
    load(tank).save(tmp_path / "python")
    write_log(tmp_path / "log.csv", clumsy)
    text = (tmp_path / "log.csv").read_text().replace(";", ",").replace("run,t,", "episode,t,")
    (tmp_path / "log.csv").write_text(text.replace(",cost", ",reward"))
    data = read_log(str(tmp_path / "log.csv"), tmp_path / "python", load(tank))
    assert len(data.starts) == 8
    assert bool((data.rewards > 0).all())


def test_compare_shows_gains_over_the_logged_behaviour(tank: Path, tmp_path: Path) -> None:
    (tmp_path / "pi.py").write_text(
        "import numpy as np\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass Proportional:\n    gain: float\n"
        "    def __call__(self, states):\n        return np.clip(0.35 + self.gain * (1 - states), 0, 1)\n"
        "controller, timid = Proportional(0.5), Proportional(0.01)\n"
    )
    names = [f"{tmp_path / 'pi.py'}:{name}" for name in ("controller", "timid")]
    bare = tank.with_name("bare")
    others = (names[0], names[1], "logged", bare, "lqr")
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
    Path("pi.py").write_text("def off(states):\n    return 0 * states\n")
    code, out, document = run("compare", tank, "--with", "pi.py:off")
    assert code == 0, document
    header, *lines = out.splitlines()
    assert header.split() == ["policy", "return", "gain", "over", "logged", "better", "verdict"]
    assert lines[0].startswith("tank *")
    assert lines[2].startswith("pi.py:off")
    assert "not identifiable" in lines[2]
    assert lines[3].split()[0].startswith("[")
    assert "logged episodes earned" in out
    assert out.count("lies outside the data") == 1
    table = [line for line in lines if not line.startswith(("pi.py:off: ", "logged: "))]
    assert max(map(len, table)) <= 80


def test_compare_names_every_baseline_and_says_what_it_is(tank: Path) -> None:
    _, out, _ = run("compare", "--help")
    assert all(f"`{name}`" in out for name in BASELINES)
    code, out, document = run("compare", tank, "--with", "lqr")
    assert code == 0, document
    assert "lqr: least squares + LQR" in out


def test_compare_without_d3rlpy_names_the_extra(tank: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "d3rlpy", None)
    code, out, document = run("compare", tank, "--with", "td3bc")
    assert (code, out) == (1, "")
    assert "pip install 'nopg[baselines]'" in document


def test_compare_judges_by_another_log_if_there_is_one(tank: Path, tmp_path: Path) -> None:
    write_log(tmp_path / "may.csv", clumsy, seed=1)
    bare = tank.with_name("bare")
    code, _, document = run("compare", bare)
    assert code == 1
    assert document == f"error: {bare} was saved without its data; give a log of its plant with --log"
    one, other = (answer("compare", saved, "--log", tmp_path / "may.csv") for saved in (bare, tank))
    assert one["gains"]["bare"] == other["gains"]["tank"]
    assert other["gains"]["tank"] != answer("compare", tank)["gains"]["tank"]


@pytest.mark.parametrize(
    ("code", "given", "words"),
    [
        ("", "nowhere.py:x", "nowhere.py: No such file or directory"),
        ("", "pi.py", "name its function too, e.g. --with pi.py:controller"),
        ("def law(states): ...\ngain = 1\n", "pi.py:controller", "has no 'controller'; it has law"),
        ("import nothing_of_the_kind\n", "pi.py:x", "cannot be executed: ModuleNotFoundError"),
        ("gain = 1\n", "pi.py:gain", "int cannot act"),
        ("def law(states):\n    return states[:, 0]\n", "pi.py:law", "it must return 1 numbers for each"),
        (
            "def law(states):\n    return states / 0\n",
            "pi.py:law",
            "pi.py:law returned an action that is not",
        ),
        (
            "def law(states):\n    return states[7]['x']\n",
            "pi.py:law",
            "pi.py:law failed: TypeError",
        ),
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


def test_another_run_must_act_on_the_same_columns(tank: Path, tmp_path: Path) -> None:
    text = (tank.parent / "first.csv").read_text().replace("level", "depth")
    (tmp_path / "depth.csv").write_text(text)
    roles = ["-s", "depth", *COLUMNS[2:], "--separator", ";", "-g", GAMMA, "--updates", 1]
    code, _, document = run(
        "fit", tmp_path / "depth.csv", *roles, "--model", "paper", "-o", tmp_path / "depth"
    )
    assert code == 0, document
    code, _, document = run("compare", tank, "--with", tmp_path / "depth")
    assert code == 1
    assert "are depth, those of" in document


def test_fit_says_what_the_controller_gains_over_the_log(tank: Path) -> None:
    out = tank.with_name("said.txt").read_text()
    result = load(tank)
    gain = result.evaluator.compare({"tank": result.policy}).gains["tank"]
    said = " ".join(out.split())
    logged = result.evaluator.logged()
    assert f"logged behaviour {logged.expected_return:.5g}, 95 % interval [{logged.interval[0]:.5g}" in said
    assert f"gain {gain.mean:+.4g} in [{gain.interval[0]:+.4g}, {gain.interval[1]:+.4g}], P(better)" in said
    assert max(map(len, out.splitlines())) <= 80
    found = json.loads(tank.with_name("said.json").read_text())
    assert found["gain"]["probability_better"] == pytest.approx(gain.probability_better, rel=1e-9)
    assert found["logged"]["verdict"] == logged.verdict

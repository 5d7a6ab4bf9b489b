"""The everyday commands on a CSV of a tank, as a user types them."""

import json
import math
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cli.tank import run
from nopg import __version__
from nopg.cli._init import filled
from nopg.errors import DataError
from nopg.training import load

COMMAND = [sys.executable, "-m", "nopg.cli"]
COLUMNS = ["--state", "level", "--action", "valve", "--cost", "cost", "--time", "t"]
BRIEF = ["--discount", "0.9", "--set", "updates=3"]


@pytest.fixture(scope="module")
def tank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tank whose level should stay at 1, under a clumsy operator."""
    file = tmp_path_factory.mktemp("tank") / "tank.csv"
    level, lines = 0.2, ["t,level,valve,cost"]
    for t in range(120):
        valve = 0.5 + 0.5 * math.sin(0.9 * t) * math.cos(0.13 * t)
        lines.append(f"{t},{level!r},{valve!r},{(level - 1) ** 2!r}")
        level += 0.3 * valve - 0.15 * math.sqrt(level)
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.fixture(scope="module")
def fitted(tank: Path) -> Path:
    out = tank.parent / "fitted"
    log, formula = tank.with_name("metres.csv"), "(`level [m]` - 1)**2"
    log.write_text(tank.read_text().replace("level", "level [m]"))
    roles = ("--state", "level [m]", "--action", "valve", "--cost", formula, "--time", "t")
    file = settings(tank.parent, start="given", units={"level [m]": "m"}, history=f"{out}.csv")
    code, shown, document = run("fit", log, *roles, *BRIEF, "--config", file, "-o", out)
    assert code == 0, document
    out.with_suffix(".out").write_text(shown)
    return out


def settings(folder: Path, **settings: Any) -> Path:
    """Write a file of settings."""
    path = folder / "settings.toml"
    path.write_text(filled(settings), encoding="utf-8")
    return path


@pytest.fixture
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_describe_speaks_json_alone(tank: Path) -> None:
    code, out, _ = run("describe", tank, *COLUMNS, "--json")
    assert code == 0
    found = json.loads(out)
    assert [column["name"] for column in found["columns"]] == ["level", "valve", "reward"]
    assert found["columns"][2]["high"] <= 0  # a cost is a negative reward


def test_describe_ends_with_its_own_code_where_data_must_be_corrected(tmp_path: Path) -> None:
    stuck = tmp_path / "stuck.csv"
    stuck.write_text("level,valve,cost\n" + "\n".join(f"{k},1,{k}" for k in range(40)))
    asked = ("describe", stuck, "--state", "level", "--action", "valve", "--cost", "cost")
    assert run(*asked)[0] == 0
    assert run(*asked, "--strict")[0] == 3


def test_fit_says_what_matters_and_logs_updates(fitted: Path) -> None:
    out = fitted.with_suffix(".out").read_text()
    result, shown = load(fitted), " ".join(out.split())
    assert result.interval is not None
    assert f"predicted return {result.expected_return:.5g}, 95 % interval [{result.interval[0]:.5g}" in shown
    logged = result.evaluator.logged()
    gain = result.evaluation.gain_over(logged)
    assert f"logged behaviour {logged.expected_return:.5g}, 95 % interval [{logged.interval[0]:.5g}" in shown
    assert f"gain {gain.mean:+.4g} in [{gain.interval[0]:+.4g}, {gain.interval[1]:+.4g}], P(better)" in shown
    for word in ("leaves the data", "local polynomials", "3 updates", f"verdict {result.verdict}"):
        assert word in shown
    # The tank was logged in one run: a controller may take over in any row.
    assert shown.count("every row is a start: a controller may take over at any time") == 1
    line = next(line for line in out.splitlines() if line.startswith("held-out"))
    assert ("level [m] 0.9" in line or "level [m] 1.0" in line, "reward" in line) == (True, False)
    assert max(map(len, out.splitlines())) <= 80
    assert result.policy.schema.units == {"level [m]": "m"}
    assert len(fitted.with_suffix(".csv").read_text().splitlines()) == 4
    assert not list(fitted.parent.glob("*.unfinished"))


def test_fit_prints_json_alone_and_starts_where_it_is_told_to(tank: Path, tmp_path: Path) -> None:
    file = settings(tmp_path, model="paper", start="given", initial_states=[[0.2], [0.5]])
    code, out, _ = run("fit", tank, *COLUMNS, *BRIEF, "--config", file, "-o", tmp_path / "run", "--json")
    assert code == 0
    document, result = json.loads(out), load(tmp_path / "run")
    assert [fit["name"] for fit in document["columns"]] == ["level", "reward"]
    assert document["expected_return"] == result.expected_return
    assert (document["updates"], document["notes"]) == (3, ["the task starts in 2 declared states"])
    assert document["logged"]["errors"]["freedom"] is None  # JSON has no infinity
    assert result.starts[:, 0].tolist() == [0.2, 0.5]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["describe", "TANK"],
            "has columns t, level, valve, cost; say which are which with --state, --action",
        ),
        (["describe", "TANK", *COLUMNS, "--reward", "cost"], "a reward and a cost are given; name one"),
        (["describe", "TANK", "--state", "depth", "--action", "valve", "--cost", "cost"], "depth"),
        (
            ["describe", "TANK", *COLUMNS, "--set", "bounds.valve=1"],
            "--set: bounds is {'valve': '1'}; write e.g.",
        ),
        (["describe", "TANK", *COLUMNS, "--set", "lags"], "has no value"),
        (
            ["advise", "FITTED", "--set", "bounds.valve=[1]"],
            "bounds of 'valve' are [1]; give (lowest",
        ),
        (["evaluate", "TANK", "TANK"], "is not a saved controller"),
        (["evaluate", "FITTED"], "no log is given; name its file"),
        (["export", "FITTED", "tank.exe"], "'tank.exe' does not end in .onnx, .c or .fmu"),
        (["report", "FITTED", "--region", "depth > 1"], "'depth' in the region 'depth > 1' is not known"),
        (["report", "FITTED", "-o", "TANK"], "exists already; give another name, or --overwrite"),
        (["report", "BARE"], "was saved without its data"),
        (["evaluate", "nowhere", "TANK"], "there is no saved controller at nowhere"),
    ],
)
@pytest.mark.usefixtures("_elsewhere")
def test_an_error_is_one_line_with_a_hint(arguments: list[str], words: str, tank: Path, fitted: Path) -> None:
    bare = fitted.with_name("bare")
    if not bare.exists():
        load(fitted).save(bare, data=False)
    places = {"TANK": str(tank), "FITTED": str(fitted), "BARE": str(bare)}
    code, out, document = run(*(places.get(argument, argument) for argument in arguments))
    assert code == 1
    assert words in document
    assert "Traceback" not in document + out
    assert document.count("error:") == 1
    assert not re.search(r"[a-z_]+=(True|…|')", document)  # arguments of Python


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-g", "1.5", "-o", "x"], "it must lie in [0, 1)"),
        (["-o", "x"], "give --discount 0.97, or --horizon 3min"),
        (["--horizon", "3", "-o", "x"], "the horizon is '3'; give a time with its unit, such as 3min"),
        (["-g", "0.9"], "no file for the controller is given; give a name, such as --out tank"),
        (["-g", "0.9", "-o", "TANK"], "exists already; give another name, or --overwrite"),
        (["-g", "0.9", "-o", "."], "names no file; give one, such as"),
        (["-g", "0.9", "-o", "TANK/run"], "cannot be written: "),
        (["-g", "0.9", "-o", "x", "--set", "follows.level=1"], "follows needs --policy p, pi or pid"),
    ],
)
@pytest.mark.usefixtures("_elsewhere")
def test_fit_refuses_before_it_reads_a_log(options: list[str], words: str, tank: Path) -> None:
    log = tank.with_name("no.parquet")
    options = [one.replace("TANK", str(tank)) for one in options]
    code, _, document = run("fit", log, *COLUMNS, *options)
    assert (code, words in document) == (1, True), document


@pytest.mark.parametrize(
    ("rows", "options", "words"),
    [
        (4, ["-g", "0.9"], "3 rows are too few to train a controller of 1 states and 1 actions; it needs 6"),
        (40, ["--horizon", "1min"], "needs the time between two rows; name the time column with --time"),
    ],
)
def test_fit_refuses_a_log_before_it_trains(
    rows: int, options: list[str], words: str, tank: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log.csv"
    log.write_text("\n".join(tank.read_text().splitlines()[: rows + 1]) + "\n")
    code, _, document = run("fit", log, *COLUMNS[:6], *options, "-o", tmp_path / "run")
    assert (code, words in document) == (1, True), document
    assert not (tmp_path / "run").exists()


def test_arguments_of_python_are_options_or_settings_in_messages(
    tank: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise DataError("give policy='deterministic', overwrite=True, missing='drop' or data=True")

    monkeypatch.setattr("nopg.cli._log.read", refuse)
    _, _, document = run("fit", tank, *COLUMNS, "-g", 0.9, "-o", tmp_path / "run")
    assert "give --policy deterministic, --overwrite, --set missing=drop or" in document


def test_ctrl_c_before_the_first_update_leaves_nothing_and_says_how_to_go_on(
    tank: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("nopg.training._optimize.unknown_starts", interrupted)
    fit = ("fit", tank, *COLUMNS, *BRIEF)
    code, _, document = run(*fit, "-o", tmp_path / "[red]")
    assert code == 130
    assert "stopped: by Ctrl-C; the same command starts again" in document
    assert list(tmp_path.iterdir()) == []


def test_report_writes_a_page_and_its_figures_and_says_the_verdict(fitted: Path, tmp_path: Path) -> None:
    asked = ("report", fitted, "-o", tmp_path / "tank.html", "--region", "`level [m]` > 1.5", "--steps", 5)
    code, out, document = run(*asked, "--figures", tmp_path / "figures")
    assert code == 0, document
    assert {f"closed-loop-1.{kind}" for kind in ("png", "pdf", "csv")} <= {
        path.name for path in (tmp_path / "figures").iterdir()
    }
    assert "is better with a probability of" in out
    assert "`level [m]` > 1.5: between" in out
    assert json.loads((tmp_path / "tank.json").read_text())["sentence"] in out
    code, _, document = run(*asked)
    assert (code, "exists already" in document) == (1, True)


def test_export_writes_a_checked_controller(fitted: Path, tmp_path: Path) -> None:
    asked = ("export", fitted, tmp_path / "tank.onnx")
    code, out, _ = run(*asked, "--json")
    assert code == 0
    assert json.loads(out)["difference"] < 1e-6
    code, _, document = run(*asked)
    assert (code, "exist" in document) == (1, True)
    assert "from numpy" in run(*asked, "--overwrite")[1]


def test_ctrl_c_stops_and_the_same_command_ends_as_if_it_had_not(tank: Path, tmp_path: Path) -> None:
    log, whole, out = tmp_path / "log.csv", tmp_path / "whole", tmp_path / "stopped"
    brief = ["fit", str(tank), *COLUMNS, "-g", "0.9", "--set", "updates=30", "--config"]
    assert run(*brief, settings(tmp_path, model="paper"), "-o", whole)[0] == 0
    fit = [*brief, str(settings(tmp_path, model="paper", history=str(log))), "-o", str(out)]
    with subprocess.Popen([*COMMAND, *fit], stderr=subprocess.PIPE, text=True) as process:
        while not (log.exists() and len(log.read_text().splitlines()) > 3):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, document = process.communicate(timeout=60)
    if process.returncode != 0:  # it may have been through already
        assert process.returncode == 130
        assert "the same command goes on after the last checkpoint" in document
        assert not out.exists()
        assert run(*fit)[0] == 0
    one, other = load(whole), load(out)
    assert one.history == other.history
    assert all(
        bool((a == b).all())
        for a, b in zip(one.policy.policy.parameters(), other.policy.policy.parameters(), strict=True)
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--version"], __version__), (["--help"], "describe"), (["fit", "--help"], "γ")],
)
def test_version_and_help_are_printed_without_importing_torch(arguments: list[str], words: str) -> None:
    code = (
        f"import sys; sys.argv = ['nopg', *{arguments}]; import atexit, nopg.cli; "
        "atexit.register(lambda: print('torch' in sys.modules, file=sys.stderr)); nopg.cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (0, "False")
    assert words in done.stdout

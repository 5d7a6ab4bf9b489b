"""The everyday commands on a CSV of a tank, as a user types them."""

import json
import math
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from nopg import __version__
from nopg.cli._app import app
from nopg.data.io import write_csv
from nopg.deploy import contract_schema
from nopg.training import load

COMMAND = [sys.executable, "-m", "nopg.cli"]
COLUMNS = ["--state", "level", "--action", "valve", "--cost", "cost", "--time", "t"]
BRIEF = ["--discount", "0.9", "--updates", "3", "--begin", "given"]
PAPER = [*BRIEF, "--model", "paper"]  # faster, where any controller will do


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
    result = CliRunner().invoke(app, ["fit", str(tank), *COLUMNS, *BRIEF, "-o", str(out)])
    assert result.exit_code == 0, result.output
    return out


@pytest.fixture
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: object) -> "tuple[int, str, str]":
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, " ".join(result.stderr.split())


def test_describe_prints_what_to_correct(tank: Path) -> None:
    code, out, _ = run("describe", tank, *COLUMNS)
    assert code == 0
    assert "level" in out
    assert "Sampling" in out


def test_a_first_look_needs_no_reward_and_a_formula_is_one(tank: Path) -> None:
    roles = ("--state", "level", "--action", "valve")
    code, out, _ = run("describe", tank, *roles)
    assert code == 0
    assert "no reward is given" in out
    code, out, _ = run("describe", tank, *roles, "--cost", "(level - 1)**2")
    assert code == 0
    assert "no reward is given" not in out


def test_fit_shows_names_as_they_are_and_no_r_squared_of_a_formula(tank: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(tank.read_text().replace("level", "level [m]"))
    roles = ("--state", "level [m]", "--action", "valve", "--cost", "(`level [m]` - 1)**2")
    code, out, _ = run("fit", log, *roles, *BRIEF, "-o", tmp_path / "run")
    assert code == 0
    line = next(line for line in out.splitlines() if line.startswith("held-out"))
    assert "level [m] " in line
    assert "reward" not in line


def test_describe_speaks_json_alone(tank: Path, tmp_path: Path) -> None:
    code, out, document = run("describe", tank, *COLUMNS, "--json", "--figure", tmp_path / "look.png")
    assert code == 0
    found = json.loads(out)
    assert [column["name"] for column in found["columns"]] == ["level", "valve", "reward"]
    assert found["columns"][2]["high"] <= 0  # a cost is a negative reward
    assert (tmp_path / "look.png").stat().st_size > 1_000
    assert "figure:" in document


def test_describe_ends_with_its_own_code_where_data_must_be_corrected(tmp_path: Path) -> None:
    stuck = tmp_path / "stuck.csv"
    stuck.write_text("level,valve,cost\n" + "\n".join(f"{k},1,{k}" for k in range(40)))
    asked = ("describe", stuck, "--state", "level", "--action", "valve", "--cost", "cost")
    assert run(*asked)[0] == 0
    assert run(*asked, "--strict")[0] == 3


def test_fit_writes_a_controller_and_says_what_matters(tank: Path, tmp_path: Path) -> None:
    code, out, document = run("fit", tank, *COLUMNS, *BRIEF, "-o", tmp_path / "tank", "--unit", "level=m")
    assert code == 0
    result = load(tmp_path / "tank")
    assert result.interval is not None
    assert f"{result.expected_return:.5g}, 95 % interval [{result.interval[0]:.5g}" in out
    for word in ("verdict", "leaves the data", "held-out R²", "local polynomials", "3 updates"):
        assert word in out
    assert str(result.verdict) in out
    # The tank was logged in one run: a controller may take over in any row.
    assert result.summary()["notes"] == ["every row is a start: a controller may take over at any time"]
    assert " ".join(out.split()).count(result.notes[0]) == 1
    assert "next: nopg plot" in document
    assert result.policy.schema.units == {"level": "m"}
    assert [path.name for path in tmp_path.iterdir()] == ["tank"]  # nothing unfinished is left


def test_fit_speaks_json_alone_and_logs_updates(tank: Path, tmp_path: Path) -> None:
    code, out, _ = run(
        "fit", tank, *COLUMNS, *BRIEF, "-o", tmp_path / "run", "--json", "--log", tmp_path / "log.csv",
        "--start", "0.2", "--start", "0.5",
    )  # fmt: skip
    assert code == 0
    document, result = json.loads(out), load(tmp_path / "run")
    assert document["verdict"] == result.verdict
    assert [fit["name"] for fit in document["columns"]] == ["level", "reward"]
    assert document["expected_return"] == result.expected_return
    assert document["updates"] == 3
    assert document["notes"] == ["the task starts in 2 declared states"]
    assert document["logged"]["errors"]["freedom"] is None  # JSON has no infinity
    assert result.start_support.states[:, 0].tolist() == [0.2, 0.5]
    assert len((tmp_path / "log.csv").read_text().splitlines()) == 4


def test_options_may_stand_in_a_file_and_the_command_line_goes_first(tank: Path, tmp_path: Path) -> None:
    config = tmp_path / "tank.toml"
    config.write_text(
        'state = ["level"]\naction = ["valve"]\ncost = "cost"\ndiscount = 0.5\nupdates = 2\nmodel = "paper"\n'
        f'out = "{tmp_path / "run"}"\nunit = ["level=m"]\n'
    )
    code, _, document = run("fit", tank, "--config", config, "--discount", "0.9")
    assert code == 0, document
    result = load(tmp_path / "run")
    assert (result.discount, len(result.history)) == (0.9, 2)
    config.write_text('states = ["level"]\n')
    code, _, document = run("fit", tank, "--config", config)
    assert code == 2
    assert "says'states'" in "".join(document.replace("│", "").split())  # wherever the box breaks the line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["describe", "TANK"], "say which are which with --state, --action"),
        (
            ["fit", "TANK", "--state", "level", "--action", "valve", *BRIEF, "-o", "x"],
            "say which are which with --reward or --cost",
        ),
        (["describe", "missing.csv", *COLUMNS], "there is no file missing.csv"),
        (["describe", "TANK", *COLUMNS, "--reward", "cost"], "name one of them"),
        (["describe", "TANK", "--state", "depth", "--action", "valve", "--cost", "cost"], "depth"),
        (["describe", "TANK", *COLUMNS, "--bound", "valve=1"], "write --bound valve=0:1"),
        (["describe", "TANK", *COLUMNS, "--angle", "level=full"], "write --angle theta=360"),
        (["fit", "TANK", *COLUMNS, "--discount", "1.5", "-o", "x"], "it must lie in [0, 1)"),
        (["fit", "TANK", *COLUMNS, *BRIEF, "-o", "TANK"], "exists already"),
        (["fit", "TANK", *COLUMNS, *BRIEF, "-o", "x", "--start", "1,2"], "is not 1 numbers (level)"),
        (["evaluate", "TANK", "--env", "nopg/Pendulum-v0"], "is no saved controller"),
        (["evaluate", "FITTED", "--env", "nopg/Pendulums-v0"], "of ours there are nopg/"),
        (["evaluate", "FITTED", "--env", "nopg/Pendulum-v0"], "an observation has 1 numbers (level)"),
        (["report", "FITTED", "--region", "depth > 1"], "'depth' in the region 'depth > 1' is not known"),
        (["plot", "nowhere"], "there is no saved controller at nowhere"),
    ],
)
@pytest.mark.usefixtures("_elsewhere")
def test_an_error_is_one_line_with_a_hint(arguments: list[str], words: str, tank: Path, fitted: Path) -> None:
    places = {"TANK": str(tank), "FITTED": str(fitted)}
    code, out, document = run(*(places.get(argument, argument) for argument in arguments))
    assert code == 1
    assert words in document
    assert "Traceback" not in document + out
    assert document.count("error:") == 1


@pytest.mark.parametrize("text", ["a = " + "[" * 5000 + "]" * 5000, "a = " + "{b=" * 3000 + "1" + "}" * 3000])
def test_a_file_of_options_that_is_too_deep_is_refused(text: str, tank: Path, tmp_path: Path) -> None:
    config = tmp_path / "deep.toml"
    config.write_text(text)
    code, _, document = run("describe", tank, "--config", config)
    assert code == 2
    assert "cannot be read as TOML" in " ".join(document.split())


def test_ctrl_c_before_the_first_update_leaves_nothing_and_says_how_to_go_on(
    tank: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("nopg.training._optimize.start_support", interrupted)
    fit = ("fit", tank, "-s", "level", "-a", "valve", "--cost", "cost", "-g", "0.9", "--updates", "1")
    code, _, document = run(*fit, "-o", tmp_path / "[red]")
    assert code == 130
    assert "before the first update; the same command starts again" in document
    assert list(tmp_path.iterdir()) == []


def test_the_traceback_is_behind_debug(tmp_path: Path) -> None:
    code, _, document = run("--debug", "plot", tmp_path / "nowhere")
    assert code == 1
    assert "Traceback" in document


def test_plot_writes_pictures_and_their_numbers(fitted: Path, tmp_path: Path) -> None:
    code, out, _ = run("plot", fitted, "--out", tmp_path)
    assert code == 0
    assert {path.suffix for path in tmp_path.iterdir()} == {".png", ".pdf", ".csv"}
    assert "closed-loop-1.png" in out.replace("\n", "")


def test_report_writes_a_page_and_says_the_verdict(fitted: Path, tmp_path: Path) -> None:
    asked = ("report", fitted, "-o", tmp_path / "tank.html", "--region", "level > 1.5", "--steps", 5)
    code, out, document = run(*asked)
    assert code == 0, document
    assert "is better with a probability of" in out
    assert "level > 1.5: between" in out
    assert json.loads((tmp_path / "tank.json").read_text())["sentence"] in out
    code, _, document = run(*asked)
    assert (code, "exist already" in document) == (1, True)


def test_export_writes_a_checked_controller_and_its_contract(fitted: Path, tmp_path: Path) -> None:
    asked = ("export", fitted, "--to", "onnx", tmp_path / "tank.onnx")
    code, out, _ = run(*asked, "--json")
    assert code == 0
    assert json.loads(out)["worst_difference"] < 1e-6
    contract = json.loads((tmp_path / "tank.json").read_text())
    assert contract["input"]["dtype"] == "float64"
    Draft202012Validator(contract_schema()).validate(contract)
    result = load(fitted)
    assert contract["result"]["verdict"] == result.verdict
    assert contract["result"]["interval"] == list(result.interval or ())
    code, _, document = run(*asked)
    assert (code, "exist" in document) == (1, True)
    assert "differs from the original by at most" in run(*asked, "--overwrite")[1]


def test_export_to_c_has_the_limits_that_are_asked_for(fitted: Path, tmp_path: Path) -> None:
    asked = (
        "export",
        fitted,
        "--to",
        "c",
        tmp_path / "tank.c",
        "--max-change",
        0.125,
        "--most-unknown",
        0.25,
    )
    code, out, _ = run(*asked, "--json")
    assert code == 0
    assert json.loads(out) == {"controller": str(tmp_path / "tank.c"), "header": str(tmp_path / "tank.h")}
    assert "max_change[1] = {\n    0.125\n}" in (tmp_path / "tank.c").read_text()
    assert "at most 0.25" in (tmp_path / "tank.h").read_text()
    code, _, document = run("export", fitted, "--to", "c", tmp_path / "one.c", "--dtype", "float32")
    assert (code, "has float64" in document) == (1, True)
    code, _, document = run("export", fitted, "--to", "onnx", tmp_path / "one.onnx", "--max-change", 1)
    assert (code, "ONNX has no guard" in document) == (1, True)


def test_evaluate_runs_the_controller_on_the_plant(tmp_path: Path) -> None:
    from nopg.envs import Pendulum, collect_grid

    write_csv(collect_grid(Pendulum(), (9, 9, 2)), tmp_path / "grid.csv")
    names = ["--state", "angle", "--state", "velocity", "--action", "torque", "--reward", "reward"]
    run_, angle = tmp_path / "run", ["--angle", "angle", "--start", "3.14159,0"]
    code, _, document = run("fit", tmp_path / "grid.csv", *names, *angle, *PAPER, "-o", run_)
    assert code == 0, document
    asked = ("evaluate", run_, "--env", "nopg/Pendulum-v0", "--episodes", 1, "--steps", 50)
    assert "predicted" in run(*asked)[1]
    found = json.loads(run(*asked, "--json")[1])
    assert len(found["returns"]) == 1
    assert found["expected_return"] == load(run_).expected_return


def test_info_names_versions_and_extras() -> None:
    code, out, _ = run("info", "--json")
    assert code == 0
    document = json.loads(out)
    assert document["extras"]["cli"] is True
    assert document["free_bytes"] > 0
    assert "torch" in run("info")[1]


def test_ctrl_c_stops_and_resume_ends_as_if_nothing_had_happened(tank: Path, tmp_path: Path) -> None:
    fit = ["fit", str(tank), *COLUMNS, *PAPER, "--updates", "60"]
    asked = [*COMMAND, *fit]
    whole, out = tmp_path / "whole", tmp_path / "stopped"
    assert run(*fit, "-o", whole)[0] == 0
    log = tmp_path / "log.csv"
    with subprocess.Popen(
        [*asked, "-o", str(out), "--log", str(log)], stderr=subprocess.PIPE, text=True
    ) as process:
        while not (log.exists() and len(log.read_text().splitlines()) > 3):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, document = process.communicate(timeout=60)
    if process.returncode != 0:  # it may have been through already
        assert process.returncode == 130
        assert "--resume" in document
        assert not out.exists()
        assert run(*fit, "-o", out, "--log", log, "--resume")[0] == 0
    one, other = load(whole), load(out)
    assert one.history == other.history
    assert all(
        bool((a == b).all())
        for a, b in zip(one.policy.policy.parameters(), other.policy.policy.parameters(), strict=True)
    )


@pytest.mark.parametrize(
    ("arguments", "words"), [(["--version"], __version__), (["--help"], "describe"), (["fit", "--help"], "γ")]
)
def test_version_and_help_are_printed_without_importing_torch(arguments: list[str], words: str) -> None:
    code = (
        f"import sys; sys.argv = ['nopg', *{arguments}]; import atexit, nopg.cli; "
        "atexit.register(lambda: print('torch' in sys.modules, file=sys.stderr)); nopg.cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (0, "False")
    assert words in done.stdout

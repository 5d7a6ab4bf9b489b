"""`python -m studies.paper`: one command, one figure; stopped at any moment, it goes on where it was."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from studies.paper import EXPERIMENTS
from studies.paper.__main__ import app
from studies.paper.records import read_records

COMMAND = [sys.executable, "-m", "studies.paper"]
QUICK = ["pendulum-grid", "--quick", "--method", "nopg-d", "--workers", "1"]


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("COLUMNS", "200")
    yield
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown(wait=True)  # its processes live on otherwise


def run(*arguments: str) -> "tuple[int, str]":
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.output


def test_the_list_names_all_experiments() -> None:
    code, output = run("--list")
    assert code == 0
    assert all(name in output for name in EXPERIMENTS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "say which"),
        (["pendulum"], "there is no experiment 'pendulum'"),
        (["pendulum-grid", "--demonstrations", "missing.csv"], "does not exist"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(arguments: list[str], words: str) -> None:
    code, output = run(*arguments)
    assert code == 2
    assert words in " ".join(output.replace("│", " ").split())


def test_a_method_or_a_file_that_does_not_fit_is_one_line_and_no_traceback(tmp_path: Path) -> None:
    code, output = run("pendulum-grid", "--method", "pwis", "--out", str(tmp_path))
    assert code == 1
    assert "pendulum-grid has no method ['pwis']" in output
    drives = tmp_path / "drives.csv"
    drives.write_text("a,b\n1,2\n")
    code, output = run("mountain-car", "--quick", "--demonstrations", str(drives), "--out", str(tmp_path))
    assert code == 1
    assert "none of them is episode" in " ".join(output.split())


def test_a_quick_run_leaves_records_and_a_figure_and_is_not_run_twice(tmp_path: Path) -> None:
    code, output = run(*QUICK, "--out", str(tmp_path))
    assert code == 0, output
    found = read_records(tmp_path / "quick" / "pendulum-grid")
    assert sorted((r["mode"], r["method"], r["size"]) for r in found) == [
        ("faithful", "nopg-d", 200),
        ("ours", "nopg-d", 200),
    ]
    assert all(r["quick"] and r["data"]["rows"] == 200 for r in found)
    for ending in ("png", "pdf"):
        assert (tmp_path / "quick" / "figures" / f"pendulum-grid.{ending}").stat().st_size > 1000
    assert "mean above the paper's at every size" in output

    code, output = run(*QUICK, "--out", str(tmp_path))
    assert code == 0
    assert "2 of 2 trials are recorded already" in output


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    command = [*COMMAND, *QUICK, "--trials", "2", "--out", str(tmp_path)]
    first = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    folder = tmp_path / "quick" / "pendulum-grid"
    while not list(folder.rglob("*.json")):
        assert first.poll() is None, first.stderr.read() if first.stderr else ""
        time.sleep(0.02)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    kept = {path: path.read_bytes() for path in folder.rglob("*.json")}
    assert 0 < len(kept) < 4
    assert all(json.loads(text)["format"] == 1 for text in kept.values())

    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"{len(kept)} of 4 trials are recorded already" in again.stderr
    assert len(read_records(folder)) == 4
    assert all(path.read_bytes() == text for path, text in kept.items())


def test_ctrl_c_says_how_to_go_on(tmp_path: Path) -> None:
    command = [*COMMAND, *QUICK, "--trials", "3", "--out", str(tmp_path)]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    while not list(tmp_path.rglob("*.json")):
        assert running.poll() is None
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    _, told = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "the same command goes on from there" in told
    assert "Traceback" not in told


def test_the_page_is_made_of_records_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    code, output = run("all", "--draw-only", "--out", str(tmp_path / "none"), "--page", str(page))
    assert code == 0, output
    text = page.read_text()
    assert all(f"`python -m studies.paper {name}`, not run yet" in text for name in EXPERIMENTS)

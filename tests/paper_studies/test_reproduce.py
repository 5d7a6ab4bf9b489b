"""`python -m studies.paper`: one command, one figure; stopped at any moment, it goes on where it was."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from studies.paper import EXPERIMENTS, mode_of, records_of
from studies.paper.__main__ import main
from studies.records import read

COMMAND = [sys.executable, "-m", "studies.paper"]
QUICK = ["pendulum-grid", "--quick", "--method", "nopg-d", "--workers", "1"]


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    yield
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown(wait=True)  # its processes live on otherwise


Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command in this process; return its exit code and all that it printed."""

    def command(*arguments: str) -> tuple[int, str]:
        try:
            code = main(arguments)
        except SystemExit as end:  # argparse
            code = int(end.code or 0)
        return code, "".join(capsys.readouterr())

    return command


def test_the_list_names_all_experiments(run: Run) -> None:
    code, output = run("--list")
    assert code == 0
    assert all(name in output for name in EXPERIMENTS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "name an experiment"),
        (["pendulum"], "invalid choice: 'pendulum'"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(run: Run, arguments: list[str], words: str) -> None:
    code, output = run(*arguments)
    assert code == 2
    assert words in output


def test_a_method_or_a_file_that_does_not_fit_is_one_line_and_no_traceback(run: Run, tmp_path: Path) -> None:
    code, output = run("pendulum-grid", "--method", "pwis", "--out", str(tmp_path))
    assert code == 1
    assert "pendulum-grid has no method ['pwis']" in output
    drives = tmp_path / "drives.csv"
    drives.write_text("a,b\n1,2\n")
    code, output = run("mountain-car", "--quick", "--demonstrations", str(drives), "--out", str(tmp_path))
    assert code == 1
    assert "none of them is episode" in output
    missing = str(tmp_path / "missing.csv")
    code, output = run("mountain-car", "--quick", "--demonstrations", missing, "--out", str(tmp_path))
    assert code == 1
    assert "cannot read demonstrations" in output


@pytest.mark.slow
def test_a_quick_run_leaves_records_and_a_figure_and_is_not_run_twice(run: Run, tmp_path: Path) -> None:
    quick = [*QUICK, "--mode", "ours", "--mode", "faithful", "--out", str(tmp_path)]
    code, output = run(*quick)
    assert code == 0, output
    found = records_of("pendulum-grid", tmp_path, quick=True)
    assert [(mode_of(r), r.method, r.rows) for r in found] == [
        ("faithful", "nopg-d", 200),
        ("ours", "nopg-d", 200),
    ]
    assert all(r.setup["data"]["rows"] == 200 for r in found)
    for ending in ("png", "pdf"):
        assert (tmp_path / "quick" / "figures" / f"pendulum-grid.{ending}").stat().st_size > 1000
    assert "mean above the paper's at every size" in output

    code, output = run(*quick)
    assert code == 0
    assert "2 of 2 trials are recorded already" in output


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    command = [
        *COMMAND,
        *QUICK,
        "--trials",
        "2",
        "--mode",
        "ours",
        "--mode",
        "faithful",
        "--out",
        str(tmp_path),
    ]
    first = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    while not read(tmp_path):
        assert first.poll() is None, first.stderr.read() if first.stderr else ""
        time.sleep(0.02)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    kept = read(tmp_path)
    assert 0 < len(kept) < 4

    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"{len(kept)} of 4 trials are recorded already" in again.stderr
    assert len(read(tmp_path)) == 4
    assert read(tmp_path)[: len(kept)] == kept


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on(tmp_path: Path) -> None:
    command = [*COMMAND, *QUICK, "--trials", "3", "--out", str(tmp_path)]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    while not read(tmp_path):
        assert running.poll() is None
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    _, document = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "the same command goes on from there" in document
    assert "Traceback" not in document


def test_the_page_is_made_of_records_alone(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    code, output = run("all", "--draw-only", "--out", str(tmp_path / "none"), "--page", str(page))
    assert code == 0, output
    text = page.read_text()
    assert all(
        f"`python -m studies.paper {name}`, not run yet" in text
        for name, one in EXPERIMENTS.items()
        if one.place
    )

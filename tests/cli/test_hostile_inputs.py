"""Hostile inputs end in an exit code or an error of nopg: quickly, in little memory, without a traceback."""

import json
import os
import random
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nopg
from cli.hostile_files import FORMULAS, WORDS, csv_content, toml_content
from cli.hostile_inputs import MEBIBYTES, NAMED, SECONDS
from nopg import deploy
from nopg.cli._monitor import EXIT_CODES
from nopg.errors import ArgumentError, SupportWarning

SCRIPT = Path(__file__).parent / "hostile_inputs.py"
TESTS = Path(__file__).parents[1]
# The command, which writes at its end how much memory it held: its parent would be told of its own too.
MEASURED = """
import atexit, sys
from pathlib import Path
from nopg._memory import peak_memory
from nopg.cli import main
peak = Path(sys.argv.pop(1))
atexit.register(lambda: peak.write_text(str(peak_memory())))
main()
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a controller of a tank, saved with its data."""
    rng = np.random.default_rng(0)
    level, valve = rng.uniform(0.2, 1.5, (40, 1)), rng.uniform(0.0, 1.0, (40, 1))
    data = nopg.Transitions.from_arrays(
        level,
        valve,
        -((level[:, 0] - 1.0) ** 2),
        level + 0.1 * valve,
        state_names=["level"],
        action_names=["valve"],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)
        config = nopg.TrainingConfig(updates=1, start="given", progress=False)
        return nopg.optimize(data, 0.5, config=config).save(tmp_path_factory.mktemp("runs") / "tank")


def check(run: Path, cases: int) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    command = [sys.executable, str(SCRIPT), str(run), "--cases", str(cases)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "CODE RAN" not in done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert sum(found["counted"].values()) == cases
    assert not [ended for ended in found["counted"] if ended.startswith("raw")], done.stderr
    assert found["slowest"] < SECONDS, done.stderr
    sys.stdout.write(f"{found}\n")


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("cases", [20, *(pytest.param(many, marks=pytest.mark.slow) for many in (60, 500))])
def test_so_many_hostile_inputs_end_in_errors_of_ours(run: Path, cases: int) -> None:
    check(run, cases)


def in_a_process(arguments: list[str], folder: Path) -> None:
    """Run the command itself; it may take no more memory and time than a case."""
    command = [sys.executable, "-c", MEASURED, str(folder / "peak"), *arguments]
    with (folder / "out").open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    output = (folder / "out").read_text(errors="replace")
    assert process.returncode in {0, 1, 2, *EXIT_CODES.values()}, output[-2000:]
    assert "Traceback" not in output
    assert "CODE RAN" not in output
    assert used.ru_utime + used.ru_stime < 2 * SECONDS  # the interpreter and torch take some
    assert int((folder / "peak").read_text()) < MEBIBYTES * 2**20


@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(1, 20))])
def test_the_command_itself_ends_without_a_traceback(run: Path, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    (tmp_path / "log.csv").write_bytes(csv_content(rng))
    (tmp_path / "options.toml").write_bytes(toml_content(rng))
    texts = [text for text in (*WORDS, *FORMULAS) if "\0" not in text]  # no system passes these on
    log, word = str(tmp_path / "log.csv"), rng.choice(texts)
    commands = (
        ["describe", log, *NAMED],
        ["describe", log, *NAMED, "--reward", word],
        ["describe", log, "--config", str(tmp_path / "options.toml")],
        ["monitor", str(run), log],
        ["report", str(run), "--region", word, "--out", str(tmp_path / "page.txt")],
    )
    in_a_process(commands[seed % len(commands)], tmp_path)


@pytest.mark.parametrize("odd", ["0.5", None, [0.5], b"1", {}], ids=repr)
def test_settings_that_are_no_numbers_are_named(run: Path, odd: Any) -> None:
    controller = deploy.load(run)
    with pytest.raises(ArgumentError, match="most_unknown is"):
        deploy.GuardedController(controller, most_unknown=odd)
    with pytest.raises(ArgumentError, match="gap_factor is"):
        deploy.GuardedController(controller, gap_factor=odd)
    with pytest.raises(ArgumentError, match="discount is"):
        nopg.optimize(nopg.load(run).data, odd)
    with pytest.raises(ArgumentError, match="learning_rate = "):
        nopg.TrainingConfig(learning_rate=odd)
    with pytest.raises(ArgumentError, match="every is"):
        nopg.CheckpointConfig("folder", every=odd)

"""Inputs as an enemy, a bad disk or a tired user would give them; run by the tests in a process of its own.

Every case is a family and a seed. It ends with an exit code or an error of nopg; any other exception counts as
raw. The process may take 512 MB more than it has after its imports.
"""

# ruff: noqa: E501 (tables of commands)
from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

import nopg
from cli.hostile_files import FORMULAS, WORDS, csv_content, good_rows, parquet_content, toml_content
from nopg import deploy
from nopg.cli._app import app
from nopg.data.io import read_csv, read_parquet
from nopg.errors import NopgError

SECONDS, MEBIBYTES = 5.0, 512
ROLES: dict[str, Any] = {"states": ["level"], "actions": ["valve"], "reward": "reward"}
NAMED = ["--state", "level", "--action", "valve", "--reward", "reward"]


def call(arguments: list[str]) -> str:
    """Run a command in this process; return how it ended."""
    done = CliRunner().invoke(app, arguments)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    if "Traceback" in done.output or "CODE RAN" in done.output:
        raise AssertionError(done.output[-500:])
    return f"exit {done.exit_code}"


def of_csv(rng: random.Random, folder: Path, run: Path) -> str:
    path = folder / "log.csv"
    path.write_bytes(csv_content(rng))
    if rng.random() < 0.5:
        read_csv(path, **ROLES, time="t" if rng.random() < 0.5 else None)
        return "read"
    return call(["describe", str(path), *NAMED, *(["--time", "t"] if rng.random() < 0.5 else [])])


def of_parquet(rng: random.Random, folder: Path, run: Path) -> str:
    path = folder / "log.parquet"
    parquet_content(rng, path)
    if rng.random() < 0.7:
        read_parquet(path, **ROLES, time="t" if rng.random() < 0.5 else None)
        return "read"
    return call(["describe", str(path), *NAMED])


def of_toml(rng: random.Random, folder: Path, run: Path) -> str:
    (folder / "log.csv").write_text("\n".join(",".join(row) for row in good_rows(rng)))
    (folder / "options.toml").write_bytes(toml_content(rng))
    return call(["describe", str(folder / "log.csv"), "--config", str(folder / "options.toml")])


def of_options(rng: random.Random, folder: Path, run: Path) -> str:
    (folder / "log.csv").write_text("\n".join(",".join(row) for row in good_rows(rng)))
    options = ("--state", "--action", "--reward", "--cost", "--next-state", "--terminated", "--truncated", "--episode",
               "--time", "--angle", "--unit", "--bound", "--levels", "--separator", "--decimal", "--encoding", "--na",
               "--time-format", "--sheet", "--sql", "--interval", "--resample", "--missing", "--starts", "--exogenous",
               "--lags", "--difference", "--integral", "--config")  # fmt: skip
    given = [part for _ in range(rng.randrange(1, 3)) for part in (rng.choice(options), rng.choice(WORDS))]
    named = [] if rng.random() < 0.1 else NAMED
    return call(["describe", rng.choice((str(folder / "log.csv"),) * 9 + WORDS), *named, *given])


def of_formulas(rng: random.Random, folder: Path, run: Path) -> str:
    """A formula as region, reward or integral."""
    formula = rng.choice(FORMULAS)
    if rng.random() < 0.6:
        formula = rng.choice(
            (f"{formula} > 0", f"level > 1 and {formula}", f"abs({formula})", f"{formula} {formula}", formula)
        )
    where = rng.randrange(4)
    if where == 0:
        (folder / "log.csv").write_text("\n".join(",".join(row) for row in good_rows(rng)))
        option = rng.choice(("--reward", "--cost", "--integral"))
        named = NAMED if option == "--integral" else NAMED[:4]
        return call(["describe", str(folder / "log.csv"), *named, option, formula])
    result = RUNS.setdefault(run, nopg.load(run))
    result.evaluator.risk(result.policy, formula, 5)
    return "computed"


def of_runs(rng: random.Random, folder: Path, run: Path) -> str:
    """A command on something that is no saved controller, or with odd settings."""
    (folder / "empty").mkdir()
    (folder / "text").write_text("text")
    (folder / "new.csv").write_bytes(csv_content(rng))
    wrong = (
        str(folder / "empty"),
        str(folder / "text"),
        "/dev/null",
        str(folder / "none"),
        "",
        "\x00",
        "a" * 5000,
    )
    target, value = rng.choice((str(run), *wrong)), rng.choice(WORDS)
    commands = (
        ["report", rng.choice(wrong), "--region", rng.choice(FORMULAS)],
        ["report", target, "--region", value, "--out", str(folder / "text")],
        ["report", str(run), "--steps", value],
        ["evaluate", target, "--log", rng.choice((str(folder / "new.csv"), value))],
        ["evaluate", target, "--env", value],
        ["compare", target, "--with", rng.choice((value, f"{folder}/text:x", f"{folder}/none.py:x"))],
        ["advise", target, "--bound", value],
        ["advise", target, "--rows", value],
        ["export", target, str(folder / rng.choice(("a.c", "a", "a.fmu", "empty"))), "--to", rng.choice(("c", "onnx", value))],
        ["export", str(run), str(folder / "a.c"), "--to", "c", rng.choice(("--most-unknown", "--max-change")), value],
        ["monitor", rng.choice(wrong), str(folder / "new.csv")],
        ["monitor", str(run), str(folder / "new.csv"), "--false-alarms", value],
        ["monitor", str(run), str(folder / "new.csv")],
        ["fit", rng.choice((*wrong, str(folder / "new.csv"))), *NAMED, "--discount", value, "--out", str(folder / "out")],
        [value, target],
    )  # fmt: skip
    return call(rng.choice(commands))


def of_settings(rng: random.Random, folder: Path, run: Path) -> str:
    """Python values of other types and sizes as settings."""
    odd: Any = rng.choice(
        (
            "0.5",
            "",
            None,
            [],
            {},
            [0.5, 0.5, 0.5],
            float("nan"),
            float("inf"),
            -1,
            -1e308,
            True,
            1j,
            "nan",
            b"1",
            object(),
        )
    )
    controller = deploy.load(run)
    data = nopg.Transitions.from_arrays([[0.1], [0.2]], [[0.0], [1.0]], [0.0, 1.0], [[0.2], [0.3]])
    calls: tuple[Callable[[], Any], ...] = (
        lambda: deploy.GuardedController(controller, most_unknown=odd),
        lambda: deploy.GuardedController(controller, max_change=odd),
        lambda: deploy.GuardedController(controller, gap_factor=odd),
        lambda: deploy.GuardRules(deadline=odd),
        lambda: deploy.GuardRules(dwell=odd),
        lambda: deploy.GuardRules(frozen=odd),
        lambda: deploy.GuardedController(controller, rules=deploy.GuardRules(last_resort=odd)),
        lambda: deploy.GuardedController(controller, rules=deploy.GuardRules(return_unknown=odd)),
        lambda: controller(odd),
        lambda: deploy.GuardedController(controller, rules=deploy.GuardRules(last_resort=[0.5])).act(
            [0.4], applied=odd
        ),
        lambda: deploy.GuardedController(controller, rules=deploy.GuardRules(last_resort=[0.5])).act(
            [0.4], time=odd
        ),
        lambda: nopg.optimize(data, odd, config=nopg.TrainingConfig(updates=1, progress=False)),
        lambda: nopg.TrainingConfig(updates=odd),
        lambda: nopg.TrainingConfig(learning_rate=odd),
        lambda: nopg.CheckpointConfig("file", every=odd),
    )
    rng.choice(calls)()
    return "accepted"


Family = Callable[[random.Random, Path, Path], str]
FAMILIES: tuple[Family, ...] = (
    of_csv,
    of_csv,
    of_parquet,
    of_toml,
    of_options,
    of_formulas,
    of_formulas,
    of_runs,
    of_settings,
)
RUNS: dict[Path, nopg.TrainingResult] = {}


def limit_memory() -> None:
    """Allow 512 MB more than the process has by now."""
    size = int(Path("/proc/self/status").read_text().split("VmSize:")[1].split()[0]) * 1024
    resource.setrlimit(resource.RLIMIT_AS, (size + MEBIBYTES * 2**20, resource.RLIM_INFINITY))


def of_fits(rng: random.Random, folder: Path, run: Path) -> str:
    """A training on a log that can be read, with numbers of odd sizes."""
    rows = good_rows(rng, 16)[1:]
    numbers = np.array([[float(cell) for cell in row] for row in rows])
    for _ in range(rng.randrange(1, 3)):
        column, scale = rng.randrange(1, 4), 10.0 ** rng.randrange(-320, 75)
        what = rng.randrange(3)
        if what == 0:
            numbers[:, column] *= scale
        elif what == 1:
            numbers[:, column] = scale
        else:
            numbers[rng.randrange(len(numbers)), column] = scale
    data = nopg.Transitions.from_arrays(
        numbers[:-1, 1:2], numbers[:-1, 2:3], numbers[:-1, 3], numbers[1:, 1:2]
    )
    chosen: dict[str, Any] = {"policy": rng.choice(("deterministic", "gaussian"))}
    chosen["model"] = rng.choice(("local", "paper"))
    config = nopg.TrainingConfig(updates=1, start="given", progress=False)
    nopg.optimize(data, 0.5, **chosen, config=config)
    return "trained"


def family_of(case: int) -> Family:
    """Return what a case is about; a training, which takes a second, is every thirtieth."""
    return of_fits if case % 30 == 29 else FAMILIES[case % len(FAMILIES)]


def run_case(case: int, run: Path, *, trace: bool) -> str:
    """Return how a case ended: an exit code, the name of an error of nopg, or "raw"."""
    family = family_of(case)
    with tempfile.TemporaryDirectory() as there:
        try:
            return family(random.Random(f"{family.__name__} {case}"), Path(there), run)
        except NopgError as error:
            return type(error).__name__ if str(error) else "raw: an error without words"
        except BaseException as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            words = f"{type(error).__name__} in {Path(frame.filename).name}:{frame.lineno}: {error}"
            sys.stderr.write(f"case {case} {family.__name__}: {words[:300]}\n")
            if trace:
                traceback.print_exc()
            return "raw"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("run", type=Path, help="a saved controller of level and valve, with its data")
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--only", type=int, help="one case, with the traceback of an error")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as there:  # imports on first use are no part of a case
        for family in (of_csv, of_parquet, of_formulas, of_fits):
            with suppress(NopgError):
                family(random.Random(0), Path(there), options.run)
    limit_memory()
    counted: dict[str, int] = {}
    slowest = 0.0
    for case in range(options.cases) if options.only is None else [options.only]:
        began = time.process_time()
        ended = run_case(case, options.run, trace=options.only is not None)
        taken = time.process_time() - began
        if taken > SECONDS:
            sys.stderr.write(f"case {case} {family_of(case).__name__}: {taken:.1f} s\n")
        slowest = max(slowest, taken)
        counted[ended] = counted.get(ended, 0) + 1
    sys.stdout.write(json.dumps({"slowest": slowest, "counted": dict(sorted(counted.items()))}) + "\n")


if __name__ == "__main__":
    main()

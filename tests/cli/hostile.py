"""Inputs as an enemy, a bad disk or a tired user would give them; run by the tests in a process of its own.

Every case is a family and a seed. It ends with an exit code or an error of nopg; any other exception counts as
raw. The process may take 512 MB more than it has after its imports.
"""

# ruff: noqa: E501, RUF001 (tables of odd texts)
from __future__ import annotations

import json
import random
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from typer.testing import CliRunner

from nopg.cli._app import app
from nopg.errors import NopgError

SECONDS, MEBIBYTES = 5.0, 512
NAMED = ["--state", "level", "--action", "valve", "--reward", "reward"]
WORDS = (
    "", " ", "\x00", "\n", "=", ":", ",", "-1", "0", "1e999", "-1e308", "nan", "inf", "1e-320", "0x10", "½", "١٢",
    "level", "valve", "level=", "=1", "level=1", "level=nan", "level=1:0", "level=1:2:3", "valve=0,0,1", "auto",
    "level=level", "valve=9999999999", "../../etc/passwd", "/dev/zero", "a" * 5000, "𝔘𝔫𝔦", "level;valve",
    "[bold]x[/bold]", "%s%n", "${HOME}", "level > 1", "9" * 5000,
)  # fmt: skip
FORMULAS = (
    "__import__('os').system('echo CODE RAN')", "level.__class__", "().__class__.__bases__[0]", "lambda: 0",
    "[x for x in level]", "level[0]", "f'{level}'", "level if valve else 1", "level := 2", "level; valve",
    "2 ** 2 ** 2 ** 2 ** 2 ** 2", "9 ** 999999999", "10 ** 10 ** 10", "-" * 400 + "level", "(" * 300 + "level" + ")" * 300,
    "level" + " + level" * 5000, "1 / 0", "0 ** -1", "log(0)", "sqrt(-level)", "exp(1e9)", "level // 2", "~level", "not",
    "level > 1 > 0", "level == 1", "1e308 * 1e308", "nan", "True", "None", "'text'", "...", "max(1, 2, 3)", "abs()",
    "open('/etc/passwd')", "diff(diff(level))", "`level`", "`", "``", "`level", "level > 1 and", "level\x00", "levél > 1",
    "1_000 > level", "1j", "level @ valve", "await level", "abs(abs)", "exp > 1", "# level", "\\",
)  # fmt: skip
OPTIONS = (
    "--state", "--action", "--reward", "--cost", "--terminated", "--episode", "--time", "--angle", "--bound", "--lags",
    "--exogenous", "--config",
)  # fmt: skip
KEYS = ("states", "actions", "reward", "bounds", "angles", "lags", "interval", "missing", "levels", "units", "data", "na",
        "config", "json", "time", "resample", "starts", "integrals", "sheet", "sql", "x.y", "'a b'")  # fmt: skip
VALUES = ("1", "-1", "1e400", "nan", "inf", "true", "'level'", "''", "[]", "['level']", "[1, 2]", "[['level']]", "{}",
          "{a = 1}", "{level = [0, 1]}", "{level = 'level'}", "2024-01-01", "07:32:00", "9" * 5000, "'auto'",
          "[" * 300 + "]" * 300, "'" + "x" * 9999 + "'", "[true, 'level']", '"\\u0000"', "['level', 1.5]")  # fmt: skip


def log(rng: random.Random) -> bytes:
    """Return a log of a tank; half of them with one thing that is wrong."""
    rows, level = [["t", "level", "valve", "reward"]], 0.5
    for k in range(40):
        valve = rng.random()
        rows.append([str(k), f"{level:.5f}", f"{valve:.5f}", f"{-((level - 1) ** 2):.5f}"])
        level = max(level + 0.3 * valve - 0.15 * level**0.5, 0.0)
    what, row, column = rng.randrange(10), rng.randrange(len(rows)), rng.randrange(4)
    if what == 0:
        rows[row][column] = rng.choice((*WORDS, "1" * 2_000_000))
    elif what == 1:
        rows = rows[: rng.choice((0, 1, 2, 3, 5))]
    elif what == 2:
        rows = [one * 2_000 for one in rows]
    elif what == 3:
        rows = [[rng.choice(WORDS) if k == column else cell for k, cell in enumerate(one)] for one in rows]
    content = bytearray("\n".join(",".join(one) for one in rows).encode("utf-8", "surrogatepass") or b"\n")
    if what == 4:
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        content += rng.randbytes(rng.choice((0, 1, 10_000)))
    return bytes(content)


def toml(rng: random.Random) -> bytes:
    """Return a file of settings with odd types and values."""
    lines = ["states = ['level']", "actions = ['valve']", "reward = 'reward'"]
    lines += [f"{rng.choice(KEYS)} = {rng.choice(VALUES)}" for _ in range(rng.randrange(1, 3))]
    lines.append(rng.choice(("", "", "", "[" * 2000 + "a", "\x00", "[[a]]")))
    return "\n".join(lines).encode()[: rng.choice((None, None, None, 30))]


def arguments(case: int, folder: Path, run: Path) -> list[str]:
    """Return a command; its files are in a folder."""
    rng = random.Random(case)
    data, new, wrong = (
        folder / "log.csv",
        str(folder / "new"),
        ("/dev/null", str(folder), str(folder / "none"), "", "\x00"),
    )
    data.write_bytes(log(rng))
    (folder / "nopg.toml").write_bytes(toml(rng))
    word, formula, target = rng.choice(WORDS), rng.choice(FORMULAS), rng.choice((str(run), *wrong))
    described = ["describe", str(data)]
    commands: tuple[list[str], ...] = (
        [*described, *NAMED],
        [*described, *NAMED, "--time", "t"],
        [*described, "--config", str(folder / "nopg.toml")],
        [*described, "--config", str(folder / "nopg.toml")],
        [*described, *NAMED, rng.choice(OPTIONS), word],
        ["describe", word, *NAMED],
        [*described, *NAMED[:4], rng.choice(("--reward", "--cost")), formula],
        ["report", str(run), "--region", formula, "--out", str(folder / "text" / "page")],
        ["report", target, "--region", word, "--out", new],
        ["plot", rng.choice(wrong), "--out", new],
        ["evaluate", target, "--log", rng.choice((str(data), word))],
        ["evaluate", target, "--env", word],
        ["compare", target, "--with", rng.choice((word, f"{data}:x", f"{folder}/none.py:x"))],
        ["advise", target, "--bound", word],
        ["advise", target, "--rows", word],
        ["export", target, rng.choice((new, *wrong)), "--to", rng.choice(("c", "onnx", word))],
        ["monitor", target, str(data), "--false-alarms", rng.choice(("0.05", word))],
        ["fit", rng.choice((*wrong, str(data))), *NAMED, rng.choice(("--discount", "--horizon")), word, "--out", new],
        ["fit", str(data), *NAMED, "--discount", "0.9", "--out", rng.choice(wrong)],
        ["init", rng.choice((str(data), word, *wrong)), "-o", new],
        [word, target],
    )  # fmt: skip
    return commands[case % len(commands)]


def ended(call: Callable[[], None]) -> str:
    """Return how a call ended; "raw" for an exception that is none of ours."""
    try:
        call()
    except NopgError as error:
        return type(error).__name__ if str(error) else "raw: an error without words"
    except BaseException as error:
        sys.stderr.write(f"{type(error).__name__}: {error!s:.300}\n")
        return "raw"
    return "done"


def main() -> None:
    """Run the cases 0 to N − 1 on a saved controller of level and valve: `hostile.py RUN N`."""
    run, cases = Path(sys.argv[1]), int(sys.argv[2])
    warnings.simplefilter("ignore")
    slowest, counted = 0.0, dict[str, int]()
    with tempfile.TemporaryDirectory() as there:  # imports on first use are no part of a case
        CliRunner().invoke(app, arguments(0, Path(there), run))
        CliRunner().invoke(app, ["plot", str(run), "--out", there])
    size = int(Path("/proc/self/status").read_text().split("VmSize:")[1].split()[0]) * 1024
    resource.setrlimit(resource.RLIMIT_AS, (size + MEBIBYTES * 2**20, resource.RLIM_INFINITY))
    for case in range(cases):
        with tempfile.TemporaryDirectory() as there:
            typed, began = arguments(case, Path(there), run), time.process_time()

            def call(typed: list[str] = typed) -> None:
                done = CliRunner().invoke(app, typed)
                if done.exception is not None and not isinstance(done.exception, SystemExit):
                    raise done.exception
                if "Traceback" in done.output or "CODE RAN" in done.output:
                    raise AssertionError(done.output[-500:])

            how, taken = ended(call), time.process_time() - began
        if how.startswith("raw") or taken > SECONDS:
            sys.stderr.write(f"case {case}, {taken:.1f} s: {typed!s:.300}\n")
        slowest, counted[how] = max(slowest, taken), counted.get(how, 0) + 1
    sys.stdout.write(json.dumps({"slowest": slowest, "counted": counted}) + "\n")


if __name__ == "__main__":
    main()

"""Inputs as an enemy, a bad disk or a tired user would give them; run by the test in a process of its own.

Every case is a seed. It ends with an exit code; any exception of Python counts as raw. The process may take
512 MB more than it has after its imports.
"""

# ruff: noqa: E501, RUF001 (tables of odd texts)
import json
import random
import resource
import sys
import tempfile
import time
import warnings
from importlib import import_module
from pathlib import Path

from typer.testing import CliRunner

from nopg.cli._app import app

SECONDS, MEBIBYTES = 5.0, 512
NAMED = ["--state", "level", "--action", "valve", "--reward", "reward"]
WORDS = (
    "", " ", "\x00", "\n", "=", ":", ",", "-1", "0", "1e999", "-1e308", "nan", "inf", "1e-320", "0x10", "½", "١٢",
    "level", "level=", "=1", "level=1", "level=nan", "level=1:0", "level=1:2:3", "lags.valve=9999999999", "lags=auto",
    "bounds.valve=[1]", "missing=hold:-1", "../../etc/passwd", "/dev/zero", "a" * 5000, "𝔘𝔫𝔦", "[bold]x[/bold]",
    "%s%n", "${HOME}", "9" * 5000, "x = " + "[" * 2000,
)  # fmt: skip
FORMULAS = (
    "__import__('os').system('echo CODE RAN')", "level.__class__", "().__class__.__bases__[0]", "lambda: 0", "level[0]",
    "[x for x in level]", "f'{level}'", "level := 2", "2 ** 2 ** 2 ** 2 ** 2 ** 2", "10 ** 10 ** 10", "-" * 400 + "level",
    "(" * 300 + "level" + ")" * 300, "level" + " + level" * 5000, "1 / 0", "sqrt(-level)", "exp(1e9)", "~level", "not",
    "level > 1 > 0", "nan", "True", "'text'", "...", "abs()", "open('/etc/passwd')", "diff(diff(level))", "`level",
    "level > 1 and", "level\x00", "levél > 1", "1j", "await level", "abs(abs)", "# level", "\\",
)  # fmt: skip
KEYS = ("states", "reward", "bounds", "angles", "lags", "interval", "missing", "levels", "units", "data", "na", "json",
        "time", "resample", "starts", "integrals", "x.y", "'a b'")  # fmt: skip
VALUES = ("1", "-1", "1e400", "nan", "true", "'level'", "''", "[]", "['level']", "[['level']]", "{}", "{a = 1}",
          "{level = [0, 1]}", "{level = 'level'}", "2024-01-01", "9" * 5000, "'auto'", "[" * 300 + "]" * 300,
          "'" + "x" * 9999 + "'", "[true, 'level']", '"\\u0000"')  # fmt: skip


def log(rng: random.Random) -> bytes:
    """Return a log of a tank; half of them with one thing that is wrong."""
    rows, level = [["t", "level", "valve", "reward"]], 0.5
    for k in range(40):
        valve = rng.random()
        rows.append([str(k), f"{level:.5f}", f"{valve:.5f}", f"{-((level - 1) ** 2):.5f}"])
        level = max(level + 0.3 * valve - 0.15 * level**0.5, 0.0)
    what, row, column = rng.randrange(8), rng.randrange(len(rows)), rng.randrange(4)
    if what == 0:
        rows[row][column] = rng.choice((*WORDS, "1" * 2_000_000))
    elif what == 1:
        rows = rows[: rng.choice((0, 1, 2, 3, 5))]
    elif what == 2:
        rows = [one * 2_000 for one in rows]
    content = bytearray("\n".join(",".join(one) for one in rows).encode("utf-8", "surrogatepass") or b"\n")
    if what == 3:
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        content += rng.randbytes(rng.choice((0, 1, 10_000)))
    return bytes(content)


def arguments(case: int, folder: Path, run: Path) -> list[str]:
    """Return a command; its files are in a folder."""
    rng = random.Random(case)
    data, settings, new = folder / "log.csv", folder / "nopg.toml", str(folder / "new")
    wrong = ("/dev/null", str(folder), str(folder / "none"), "", "\x00")
    data.write_bytes(log(rng))
    toml = [f"{rng.choice(KEYS)} = {rng.choice(VALUES)}", rng.choice(("", "\x00", "[[a]]"))]
    settings.write_text("\n".join(toml)[: rng.choice((None, None, 30))])
    word, formula, target = rng.choice(WORDS), rng.choice(FORMULAS), rng.choice((str(run), *wrong))
    described = ["describe", str(data)]
    commands: tuple[list[str], ...] = (
        [*described, *NAMED, "--time", "t"],
        [*described, *NAMED, "--config", str(settings)],
        [*described, *NAMED, "--set", word],
        ["describe", word, *NAMED],
        [*described, *NAMED[:4], rng.choice(("--reward", "--cost")), formula],
        ["report", str(run), "--region", formula, "--out", str(folder / "text" / "page")],
        ["report", target, "--region", word, "--out", new],
        ["evaluate", target, rng.choice((str(data), word))],
        ["compare", target, "--with", rng.choice((word, f"{data}:x", f"{folder}/none.py:x"))],
        ["advise", target, rng.choice(("--set", "--rows")), word],
        ["export", target, rng.choice((f"{new}.c", f"{new}.onnx", *wrong)), "--guard", str(settings)],
        ["monitor", target, str(data), "--false-alarms", rng.choice(("0.05", word))],
        ["fit", rng.choice((*wrong, str(data))), *NAMED, rng.choice(("--discount", "--horizon")), word, "--out", new],
        ["fit", str(data), *NAMED, "--discount", "0.9", "--set", "updates=1", "--out", rng.choice(wrong)],
        ["init", rng.choice((str(data), word, *wrong)), "-o", new],
        [word, target],
    )  # fmt: skip
    return commands[case % len(commands)]


def main() -> None:
    """Run the cases 0 to N − 1 on a saved controller of level and valve: `hostile.py RUN N`."""
    run, cases, wrong, slowest = Path(sys.argv[1]), int(sys.argv[2]), list[str](), 0.0
    warnings.simplefilter("ignore")
    for case in range(-1, cases):
        with tempfile.TemporaryDirectory() as there:
            typed, began = arguments(max(case, 0), Path(there), run), time.process_time()
            done = CliRunner().invoke(app, typed)
            taken = time.process_time() - began
        if case < 0:  # imports on first use are no part of a case
            for module in (
                "matplotlib.figure",
                "nopg.advice",
                "nopg.deploy",
                "nopg.monitoring",
                "nopg.report",
            ):
                import_module(module)
            size = int(Path("/proc/self/status").read_text().split("VmSize:")[1].split()[0]) * 1024
            resource.setrlimit(resource.RLIMIT_AS, (size + MEBIBYTES * 2**20, resource.RLIM_INFINITY))
            continue
        raw = done.exception is not None and not isinstance(done.exception, SystemExit)
        slowest = max(slowest, taken)
        if raw or "Traceback" in done.output or "CODE RAN" in done.output or taken > SECONDS:
            wrong.append(
                f"case {case}, {taken:.1f} s: {typed!s:.300}: {done.exception!r:.300} {done.output[-300:]}"
            )
    sys.stdout.write(json.dumps({"wrong": wrong, "slowest": slowest}))


if __name__ == "__main__":
    main()

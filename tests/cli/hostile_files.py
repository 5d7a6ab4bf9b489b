"""Words, formulas and files of logs that nobody should give to a command; drawn by a generator."""

# ruff: noqa: E501, RUF001 (tables of odd texts)
from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = ("t", "level", "valve", "reward")
WORDS = (
    "", " ", "\x00", "\n", "=", ":", ",", "-1", "0", "1e999", "-1e308", "nan", "inf", "1e-320", "0x10", "½", "١٢",
    "level", "valve", "level=", "=1", "level=1", "level=nan", "level=1:0", "level=1:2:3", "valve=0,0,1",
    "level=level", "valve=9999999999", "../../etc/passwd", "/dev/zero", "a" * 5000, "𝔘𝔫𝔦", "level;valve",
    "[bold]x[/bold]", "%s%n", "${HOME}", "level > 1", "9" * 5000,
)  # fmt: skip
FORMULAS = (
    "__import__('os').system('echo CODE RAN')", "level.__class__", "().__class__.__bases__[0]", "lambda: 0",
    "[x for x in level]", "level[0]", "f'{level}'", "level if valve else 1", "level := 2", "level; valve",
    "2 ** 2 ** 2 ** 2 ** 2 ** 2", "9 ** 999999999", "10 ** 10 ** 10", "-" * 400 + "level", "(" * 300 + "level" + ")" * 300,
    "level" + " + level" * 5000, "1 / 0", "0 ** -1", "log(0)", "log(-1)", "sqrt(-level)", "exp(1e9)", "level / 0",
    "level % 2", "level // 2", "~level", "not", "not level", "level > 1 > 0", "level == 1", "level != 1", "level in valve",
    "1e400", "1e308 * 1e308", "nan", "inf", "True", "None", "'text'", "...", "level > nan", "min(level)", "max(1, 2, 3)",
    "abs()", "sin(level, valve)", "open('/etc/passwd')", "next(level)", "diff(level)", "diff(diff(level))", "next(1)",
    "`level`", "`", "``", "`level", "`a` > 1", "level > 1 and", "and", "level and valve", "level > 1 or valve", "\x00",
    "level\x00", "levél > 1", "ⅼevel", "1_000 > level", "0x10 > level", "1j", "level @ valve", "*level", "**level",
    "level > " + "9" * 5000, "await level", "yield", "print(level)", "abs(abs)", "exp", "exp > 1", "# level", "\\",
)  # fmt: skip


def good_rows(rng: random.Random, count: int = 40) -> list[list[str]]:
    """Return a log of a tank, as text."""
    rows, level = [list(COLUMNS)], 0.5
    for k in range(count):
        valve = rng.random()
        rows.append([str(k), f"{level:.5f}", f"{valve:.5f}", f"{-((level - 1) ** 2):.5f}"])
        level = max(level + 0.3 * valve - 0.15 * math.sqrt(level), 0.0)
    return rows


def bad_bytes(content: bytes, rng: random.Random) -> bytes:
    """Return the same bytes after one accident."""
    damaged = bytearray(content)
    what = rng.randrange(6)
    if what == 0:
        for _ in range(rng.choice((1, 8, 64))):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    elif what == 1:
        del damaged[rng.randrange(len(damaged)) :]
    elif what == 2:
        at = rng.randrange(len(damaged))
        damaged[at:at] = rng.randbytes(rng.choice((1, 100, 10_000)))
    elif what == 3:
        at = rng.randrange(len(damaged))
        damaged[at:at] = rng.choice(
            (b"\0", b'"', b"\r", b"\xff\xfe", b"\n\n", b";", b",", b"\x1a")
        ) * rng.choice((1, 50))
    elif what == 4:
        start, size = rng.randrange(len(damaged)), rng.randrange(1, 200)
        damaged += damaged[start : start + size]
    else:
        damaged = bytearray(
            content.decode("utf-8", "replace").encode(rng.choice(("utf-16", "utf-32", "utf-7")))
        )
    return bytes(damaged)


STAMPS = (
    "2024-02-30 10:00", "31/12/9999", "0001-01-01", "12:00", "2024-01-01T00:00:00+25:00", "1e18", "now",
)  # fmt: skip


def odd_shape(rows: list[list[str]], rng: random.Random) -> list[list[str]]:
    """Return rows of which some are missing, too long, too many or too wide."""
    row = rng.randrange(1, len(rows))
    changed: tuple[Callable[[], list[list[str]]], ...] = (
        lambda: rows[: rng.choice((0, 1, 2, 3, 5))],
        lambda: [*rows[:row], rows[row][: rng.randrange(4)], *rows[row:]],
        lambda: [*rows[:row], rows[row] * 30, *rows[row:]],
        lambda: [one * 2_000 for one in rows],
        lambda: [["x" * 1_000_000], *rows],
        lambda: [*rows, *([[""] * 4] * 2_000)],
    )
    return rng.choice(changed)()


def odd_values(rows: list[list[str]], rng: random.Random) -> list[list[str]]:
    """Return rows with odd texts or numbers in a cell, in a column or in the heading."""
    row, column, what = rng.randrange(1, len(rows)), rng.randrange(len(COLUMNS)), rng.randrange(7)
    scale = 10.0 ** rng.randrange(-300, 75)
    if what == 0:
        rows[row][column] = rng.choice((*WORDS, "1" * 2_000_000))
    elif what == 1:
        rows[0][column] = rng.choice((*WORDS, *COLUMNS))
    else:
        for one in rows[1:]:
            if what == 2:
                one[0] = rng.choice(STAMPS)
            elif what == 3:
                one[column] = rng.choice(WORDS)
            elif what == 4:
                one[column] = rng.choice(("1e300", "-1e300", "1e-310", "0", "7"))
            else:
                one[column] = repr(scale * float(one[column]))
    return rows


def csv_content(rng: random.Random) -> bytes:
    """Return a log with one thing that is wrong in it."""
    rows, what = good_rows(rng), rng.randrange(5)
    if what < 4:
        rows = (odd_shape if what == 0 else odd_values)(rows, rng)
    separator = rng.choice((",", ",", ",", ";", "\t", "|", " ", "::"))
    text = rng.choice(("\n", "\n", "\r\n", "\r")).join(separator.join(one) for one in rows) + "\n"
    content = text.encode("utf-8", "surrogatepass")
    return bad_bytes(content, rng) if what == 4 else content


def parquet_content(rng: random.Random, path: Path) -> None:
    """Write a Parquet file with odd types, or damaged."""
    rows = good_rows(rng)[1:]
    columns: dict[str, Any] = {name: [float(row[k]) for row in rows] for k, name in enumerate(COLUMNS)}
    name, n = rng.choice(COLUMNS), len(rows)
    odd: tuple[Callable[[], Any], ...] = (
        lambda: ["text"] * n,
        lambda: [[1.0, 2.0]] * n,
        lambda: [{"a": 1}] * n,
        lambda: [None] * n,
        lambda: [b"\xff"] * n,
        lambda: [True, False] * (n // 2),
        lambda: [2**62] * n,
        lambda: pa.array([1.0] * n).dictionary_encode(),
        lambda: pa.array([10**15] * n, pa.timestamp("ns")),
        lambda: pa.array([1] * n, pa.duration("s")),
        lambda: pa.array([None] * n, pa.null()),
        lambda: pa.array([[0.0] * 3] * n, pa.list_(pa.float64(), 3)),
        lambda: [float("nan"), float("inf")] * (n // 2),
        lambda: [1e300] * n,
        lambda: pa.array([1.5] * n, pa.float16()) if hasattr(pa, "float16") else [1.0] * n,
    )
    if rng.random() < 0.5:
        columns[name] = rng.choice(odd)()
    if rng.random() < 0.1:
        columns = {}
    table = pa.table(columns)
    if rng.random() < 0.3:
        table = table.replace_schema_metadata(
            {"nopg": rng.choice(("{}", "[", "1", '{"states": 3}', "\x00", "{" * 9000))}
        )
    pq.write_table(table, path)
    if rng.random() < 0.5:
        path.write_bytes(bad_bytes(path.read_bytes(), rng))
    if rng.random() < 0.05:  # a footer that claims too much
        content = path.read_bytes()
        path.write_bytes(content[:-8] + struct.pack("<I", 2**31 - 1) + b"PAR1")


def toml_content(rng: random.Random) -> bytes:
    """Return a TOML file of options with odd types and values."""
    options = ("state", "action", "reward", "bound", "angle", "lags", "interval", "missing", "levels", "unit", "data",
               "config", "json", "na", "time", "strict", "resample", "starts", "x.y", "'a b'")  # fmt: skip
    values = ("1", "-1", "1e400", "nan", "inf", "true", "'level'", "''", "[]", "['level']", "[1, 2]", "[['level']]",
              "{}", "{a = 1}", "2024-01-01", "07:32:00", "0xDEAD", "9" * 5000, "[" * 300 + "]" * 300, "'" + "x" * 9999 + "'",
              "[true, 'level']", '"\\u0000"', "['level', 1.5]")  # fmt: skip
    lines = ["state = ['level']", "action = ['valve']", "reward = 'reward'"]
    lines += [f"{rng.choice(options)} = {rng.choice(values)}" for _ in range(rng.randrange(1, 4))]
    rng.shuffle(lines)
    if rng.random() < 0.2:
        lines.append("[" * rng.choice((1, 2, 2000)) + "a" + "]" * rng.choice((0, 1, 2, 2000)))
    content = "\n".join(lines).encode()
    return bad_bytes(content, rng) if rng.random() < 0.3 else content

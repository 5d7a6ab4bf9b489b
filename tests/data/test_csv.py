"""CSV files as plants write them: read with a stated, counted repair, or refused by an error that helps."""

import csv
import logging
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from nopg.data import Transitions
from nopg.data.io import from_dataframe, read_csv
from nopg.errors import ArgumentError, DataError, NopgError

ROLES: dict[str, Any] = {"states": ["level"], "actions": ["valve"], "reward": "cost"}
TIMED = ROLES | {"time": "time"}
DROP = {"missing": "drop"}
HEAD = "level,valve,cost\n"
ROWS = "1.5,0.1,2\n1.6,0.2,3\n1.7,0.3,4\n"


def dated(*stamps: str, separator: str = ",") -> str:
    """A log of one row per time stamp."""
    lines = [f"{stamp},{k},0,1" for k, stamp in enumerate(stamps)]
    return "\n".join(["time,level,valve,cost", *lines]).replace(",", separator) + "\n"


# Content, further arguments, and patterns of the error.
REFUSED: dict[str, Any] = {
    "ragged row": (HEAD + ROWS + "1,2\n", {}, "header has 3 fields, line 5 has 2.*repair it"),
    "duplicate header": ("level,valve,cost,level\n1,2,3,4\n", {}, r"\['level'\] appear twice.*rename"),
    "no header": (ROWS, {}, "first line holds numbers.*write the names there"),
    "one column": ("level\n1\n2\n", {}, "no separator is found in 'level'.*Name the separator"),
    "a trailing field that holds something": (HEAD + "1,2,3,\n1,2,3,4\n", {}, "line 3 has 4"),
    "thousands separators": (
        "level;valve;cost\n1.234,5;0,1;2\n1.334,5;0,2;3\n",
        {},
        "'1.234,5' at line 2.*thousands separators",
    ),
    "a comma that may be either": (
        "level;valve;cost\n1,234;1;1\n2,345;1;1\n",
        {},
        "'1,234' may have a decimal or a thousands comma.*name the decimal mark",
    ),
    "both decimal marks": (
        "level;valve;cost\n1,5;0.1;1\n1,6;0.2;1\n",
        {},
        "may be ',' as in '1,5' or '.' as in '0.1'.*name the decimal mark",
    ),
    "a point that may be either": (
        "level;valve;cost\n987;1;1\n1.005;2;1\n995;1;1\n",
        {},
        "'1.005' may have a decimal or a thousands point.*name the decimal mark",
    ),
    "dates in digits": (
        dated("202403312358", "202403312359", "202404010000"),
        TIMED,
        "holds 202403312358 at line 2, which looks like a date; say how to read it by a time format",
    ),
    "days in digits": (
        dated("20240331", "20240401"),
        TIMED,
        "holds 20240331 at line 2, which looks like a date",
    ),
    "dates with underscores": (dated("2024_01_31", "2024_02_01"), TIMED, "neither a number nor a date"),
    "milliseconds since 1970": (
        dated("1711886400000", "1711886401000", "1711886402000"),
        TIMED,
        "'time' reaches 1.71e.12 s, 5.4e.04 years; state its unit, such as units={'time': 'ms'}",
    ),
    "the present as a word": (dated("2024-01-31 12:00", "now"), TIMED, "'now' at line 3, which is"),
    "a mean at the end": (
        "row,level,valve,cost\n" + "".join(f"{k},1.{k},0.{k},1\n" for k in range(8)) + "Mean,1.35,0.35,1\n",
        {},
        "line 10 holds 'Mean' in column 'row', where others hold numbers or dates.*delete that line",
    ),
    "a second header": (HEAD + ROWS + HEAD + ROWS, {}, "'level' holds 'level' at line 5"),
    "newest first": (dated("2024-01-03", "2024-01-02", "2024-01-01"), TIMED, "backwards at line 3.*sort the"),
    "hours of the day alone": (dated("12:00:00", "12:00:01"), TIMED, "neither a number nor a date"),
    "separators alone": (",,\n,,\n", {}, "no line with names of columns"),
    "two lines of text after the header": (
        HEAD + "Tank level,Valve,Costs\nm,%,EUR\n" + ROWS,
        {},
        "column 'level' holds 'Tank level' at line 2.*one line of names",
    ),
    "a line after numbers of seconds": (
        dated("0", "1", "2", "End of export"),
        TIMED,
        "'End of export' at line 5, which is not a number like '0' in the first row",
    ),
    "mixed date formats": (
        dated("31.03.2024 12:00", "2024-03-31 13:00"),
        TIMED,
        "'2024-03-31 13:00' at line 3.*not a date like '31.03.2024 12:00'.*by a time format",
    ),
    "day first and month first": (
        dated("31/03/2024", "04/25/2024"),
        TIMED,
        r"'31/03/2024' \(day first\) and '04/25/2024' \(month first\)",
    ),
    "day or month": (
        dated("03/04/2024 12:00 PM", "03/04/2024 01:00 PM"),
        TIMED,
        "which number of '03/04/2024 12:00 PM' is the day.*by a time format",
    ),
    "no such day": (dated("30.02.2024", "01.03.2024"), TIMED, "'30.02.2024' at line 2.*not a date"),
    "another time format": (
        dated("31.03.2024", "01.04.2024"),
        TIMED | {"time_format": "%Y-%m-%d"},
        "'31.03.2024' at line 2.*not written as '%Y-%m-%d'",
    ),
    "a missing time": (dated("2024-01-01", "", "2024-01-03"), TIMED, "no time at line 3.*leave that row"),
    "offsets in some rows": (
        dated("2024-01-01T00:00+01:00", "2024-01-01T01:00"),
        TIMED,
        "line 2 and '2024-01-01T01:00' at line 3.*offset from UTC",
    ),
    "end of daylight saving": (
        dated("2024-10-27 02:30", "2024-10-27 02:45", "2024-10-27 02:00", "2024-10-27 02:15"),
        TIMED,
        "backwards at line 4.*daylight saving.*UTC",
    ),
    "time backwards": (dated("0", "10", "5", "6"), TIMED, r"backwards at line 4 \(by 5\).*sort the rows"),
    "NUL bytes": (HEAD.encode() + b"1,2,3\n\x00\x00\x00\x00,2,3\n", {}, "NUL byte in line 3.*cut off"),
    "half a UTF-16 letter": ((HEAD + ROWS).encode("utf-16") + b"x", {}, "not text in utf-16.*UTF-8"),
    "neither UTF-8 nor cp1252": (HEAD.encode() + b"1,2,3\n1,2,\x81\n", {}, "line 3.*name its encoding"),
    "empty": ("", {}, "is empty"),
    "header only": (HEAD, {}, "no rows after the header"),
    "one row": (HEAD + "1,2,3\n", {}, "no row has a next state"),
    "all-missing column": (
        HEAD + "Bad,1,2\nBad,1,2\nBad,1,2\n",
        DROP,
        "'level' holds no number at all.*3 × missing word 'Bad'",
    ),
    "text in a number column": (HEAD + ROWS + "cold,1,2\n", {}, "column 'level' holds 'cold' at line 5"),
    "a word for missing": (
        HEAD + ROWS + "Bad,1,2\n1,2,3\n",
        {},
        "'level' has 1 missing.*line 5.*state a rule.*'drop'",
    ),
    "inf": (HEAD + ROWS + "inf,1,2\n1,2,3\n", {}, "'level' has 1 missing or infinite value"),
    "huge episode numbers": (
        "level,valve,cost,episode\n1,2,3,18446744073709551615\n1,2,3,18446744073709551615\n",
        {},
        "beyond 2⁶³",
    ),
    "half an episode": (
        "level,valve,cost,episode\n1,2,3,0.5\n4,5,6,1\n",
        {},
        "'episode' holds 0.5 at line 2",
    ),
    "a flag of words": (
        "level,valve,cost,end\n1,2,3,no\n4,5,6,perhaps\n",
        {"terminated": "end"},
        "line 3 has 'perhaps'",
    ),
    "a flag of two": (
        "level,valve,cost,done\n1,2,3,0\n4,5,6,2\n",
        {"terminated": "done"},
        "column 'done' .*; line 3 has '2'.*done > 0.5",
    ),
    "a wrong name": (HEAD + ROWS, {"states": ["levl"]}, "no column 'levl'.*did you mean 'level'"),
    "a missing episode": ("level,valve,cost,episode\n1,2,3,a\n1,2,3,NA\n", {}, "'NA', a missing value,"),
    "a column in two roles": (HEAD + ROWS, {"actions": ["level"]}, "'level'.*given twice"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_awkward_log_is_refused_by_name(tmp_path: Path, case: str) -> None:
    content, arguments, pattern = REFUSED[case]
    path = write(tmp_path / "plant.csv", content)
    with pytest.raises(NopgError) as caught:
        read_csv(path, **ROLES | arguments)
    assert isinstance(caught.value, DataError | ArgumentError)
    assert re.search(pattern, str(caught.value)), str(caught.value)


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


PLAIN = [1.5, 1.6]
# Content, further arguments, the states, the counts and patterns of the notes.
REPAIRED: dict[str, Any] = {
    "plain": (HEAD + ROWS, {}, PLAIN, {}, ()),
    "UTF-8 with a mark": ((HEAD + ROWS).encode("utf-8-sig"), {}, PLAIN, {}, ()),
    "UTF-16": ((HEAD + ROWS).encode("utf-16"), {}, PLAIN, {}, ("encoding utf-16",)),
    "cp1252": (
        ("level,valve,cost,Füllstand\n" + ROWS.replace("\n", ",1\n")).encode("cp1252"),
        {},
        PLAIN,
        {},
        ("encoding cp1252.*0xfc in line 1",),
    ),
    "whitespace in names": (" level , valve,\tcost \n" + ROWS, {}, PLAIN, {}, ()),
    "blank header": (
        " level , valve,cost,,\n" + ROWS.replace("\n", ",7,8\n"),
        {},
        PLAIN,
        {},
        ("number 4, 5",),
    ),
    "trailing separator": (HEAD + ROWS.replace("\n", ",\n"), {}, PLAIN, {}, ("end of every row",)),
    "quoted separators": (
        'level,valve,cost,"remark, if any"\n' + ROWS.replace("\n", ',"a, ""b"""\n'),
        {},
        PLAIN,
        {},
        (),
    ),
    "decimal comma": (
        "level;valve;cost\n1,5;0,1;2\n1,6;0,2;3\n1,7;0,3;4\n",
        {},
        PLAIN,
        {},
        ("separator ';', decimal mark ','",),
    ),
    "quoted decimal comma": (
        HEAD + '"1,5","0,1",2\n"1,6","0,2",3\n"1,7","0,3",4\n',
        {},
        PLAIN,
        {},
        ("decimal mark ','",),
    ),
    "tabs": ((HEAD + ROWS).replace(",", "\t"), {}, PLAIN, {}, ("separator '\\\\t'",)),
    "preamble": (
        "Exported by Historian 7\nPlant: North, unit 3\n\n" + HEAD + ROWS,
        {},
        PLAIN,
        {},
        ("2 lines before the names",),
    ),
    "Windows line ends": ((HEAD + ROWS).replace("\n", "\r\n"), {}, PLAIN, {}, ()),
    "blank lines": ((HEAD + ROWS).replace("\n", "\n\n"), {}, PLAIN, {}, ()),
    "words for missing values": (
        HEAD + ROWS + "Bad,1,2\nbad input,I/O Timeout,2\nPt Created,1,\n1,1,#N/A\n",
        DROP,
        PLAIN,
        {
            "level: missing word 'Bad'": 1,
            "level: missing word 'bad input'": 1,
            "level: missing word 'Pt Created'": 1,
            "valve: missing word 'I/O Timeout'": 1,
            "cost: missing word '#N/A'": 1,
            "cost: empty": 1,
            "rows with a missing or infinite value, left out": 3,
        },
        (),
    ),
    "words of one's own": (
        HEAD + ROWS + "Out of Serv,1,2\n-9999,1,2\n-9999.0,1,2\n",
        DROP | {"na": ["out of serv", "-9999"]},
        PLAIN,
        {
            "level: missing word 'Out of Serv'": 1,
            "level: missing value -9999": 2,
            "rows with a missing or infinite value, left out": 3,
        },
        (),
    ),
    "booleans as words": (
        HEAD + "1.5,on,2\n1.6,OFF,2\n1.7,0,2\n",
        {},
        PLAIN,
        {"valve: word 'on' read as 1": 1, "valve: word 'OFF' read as 0": 1},
        (),
    ),
    "repeated time stamps": (
        dated("0", "1", "1", "2"),
        TIMED,
        [0.0, 2.0],
        {"rows with a repeated time stamp, merged": 1},
        (),
    ),
    "dates with dots": (
        dated("31.03.2024 12:00", "31.03.2024 13:00", "31.03.2024 14:00"),
        TIMED,
        [0.0, 1.0],
        {},
        ("'31.03.2024 12:00' are read with the day first",),
    ),
    "month first": (
        dated("03/31/2024 11:00 AM", "03/31/2024 12:00 PM", "03/31/2024 01:00 PM"),
        TIMED,
        [0.0, 1.0],
        {},
        ("month first",),
    ),
    "month by name": (
        dated("30-Mar-24 23:59:00.5", "31-Mar-24 00:00:00.5", "31-Mar-24 00:01:00.5"),
        TIMED,
        [0.0, 1.0],
        {},
        ("day first",),
    ),
    "mixed offsets": (
        dated("2024-10-27T02:30+02:00", "2024-10-27T02:00+01:00", "2024-10-27T02:30+01:00"),
        TIMED,
        [0.0, 1.0],
        {},
        ("offsets \\+01:00, \\+02:00 are read in UTC",),
    ),
    "milliseconds as stated": (
        dated("1711886400000", "1711886401000", "1711886402000"),
        TIMED | {"units": {"time": "ms"}},
        [0.0, 1.0],
        {},
        (),
    ),
    "a hint to a spreadsheet": (
        "sep=;\n" + (HEAD + ROWS).replace(",", ";"),
        {},
        PLAIN,
        {},
        ("1 line before the names", "separator ';'"),
    ),
    "line ends of an old Mac": ((HEAD + ROWS).replace("\n", "\r"), {}, PLAIN, {}, ()),
    "spaces that do not break": ((HEAD + ROWS).replace(",", "\u00a0,\u00a0"), {}, PLAIN, {}, ()),
    "a given time format": (
        dated("20240331", "20240401", "20240402"),
        TIMED | {"time_format": "%Y%m%d"},
        [0.0, 1.0],
        {},
        (),
    ),
}


@pytest.mark.parametrize("case", REPAIRED)
def test_an_awkward_log_is_read_with_a_statement(
    tmp_path: Path, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    content, arguments, states, counts, notes = REPAIRED[case]
    with caplog.at_level(logging.INFO, "nopg"):
        data = read_csv(write(tmp_path / "plant.csv", content), **ROLES | arguments)
    assert data.states[:, 0].tolist() == states
    assert data.repairs.counts == counts
    long = "time" in arguments and "episode" not in arguments
    notes = (*notes, "one long recording") if long and len(data.repairs.notes) > len(notes) else notes
    assert len(data.repairs.notes) == len(notes)
    for note in notes:
        assert re.search(note, str(data.repairs)), data.repairs
        assert re.search(note, caplog.text), caplog.text


@pytest.mark.parametrize("case", REPAIRED)
def test_a_log_is_read_alike_in_blocks_of_a_line(
    tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, arguments, states, counts, _ = REPAIRED[case]
    monkeypatch.setattr("nopg.data.io._csv._BLOCK", 1)
    data = read_csv(write(tmp_path / "plant.csv", content), **ROLES | arguments)
    assert data.states[:, 0].tolist() == states
    assert data.repairs.counts == counts


def test_a_file_with_quotes_is_the_same_log_as_one_without(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(12_000, 3)), columns=["level", "valve", "cost"])
    table["remark"] = "no, none"
    plain = read_csv(write(tmp_path / "plain.csv", table.drop(columns="remark").to_csv(index=False)), **ROLES)
    for broken in ((), (2, 7_000, 11_999)):  # rows of two lines, and a word among the numbers
        table.loc[list(broken), "remark"] = "first\nsecond"
        text = table.to_csv(index=False, quoting=csv.QUOTE_ALL)
        data = read_csv(write(tmp_path / "quoted.csv", text), **ROLES)
        assert torch.equal(data.states, plain.states)
        assert torch.equal(data.actions, plain.actions)
    with pytest.raises(DataError, match="column 'level' holds 'open' at line 12005"):
        read_csv(write(tmp_path / "faulty.csv", text + '"open","1","2",""\n'), **ROLES)


@pytest.mark.parametrize("units", ["[m],%,EUR", "m,[%],EUR", "(m), % ,EUR"])
def test_a_line_of_units_becomes_the_units(tmp_path: Path, units: str) -> None:
    path = write(tmp_path / "plant.csv", f"{HEAD}{units}\n{ROWS}")
    data = read_csv(path, **ROLES)
    assert data.states[:, 0].tolist() == PLAIN
    assert data.schema.units == {"level": "m", "valve": "%", "reward": "EUR"}
    assert data.repairs.notes == (
        "the line after the names is taken as units: level in m, valve in %, cost in EUR",
    )
    assert read_csv(path, **ROLES, units={"level": "ft"}).schema.units["level"] == "ft"


def test_a_unit_of_the_time_counts_with_decimal_commas_and_an_unknown_one_is_refused(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "plant.csv", "t;level;valve\n{};m;%\n" + "0,5;1,5;0\n1,0;1,6;1\n1,5;1,7;1\n")
    roles: dict[str, Any] = {"states": ["level"], "actions": ["valve"], "reward": "-level", "time": "t"}
    content = path.read_text()
    for unit, seconds in (("min", 30.0), ("[ms]", 0.0005), ("", 0.5)):
        write(path, content.format(unit))
        assert read_csv(path, **roles).schema.interval == seconds
    write(path, content.format("Sek."))
    with pytest.raises(DataError, match=r"time is 'Sek\.'; give one of ns, us, ms, s, min, h, d: units="):
        read_csv(path, **roles)
    assert read_csv(path, **roles, units={"time": "h"}).schema.interval == 1800.0


def test_a_first_row_of_missing_words_is_no_line_of_units(tmp_path: Path) -> None:
    path = write(tmp_path / "plant.csv", HEAD + "Bad,Bad,Bad\n" + ROWS)
    data = read_csv(path, **ROLES, missing="drop")
    assert data.schema.units == {}
    assert data.repairs.counts["level: missing word 'Bad'"] == 1


# Exports of plants: 60 rows, every 10 s, of a level and a valve.

EVERY_10_S = [f"2025-03-01 06:{k // 6:02}:{k % 6 * 10:02}" for k in range(60)]
LEVELS, VALVES = [1.5 + 0.01 * k for k in range(60)], [0.1 * (k % 7) for k in range(60)]
GERMAN = [f"{t[8:10]}.{t[5:7]}.{t[:4]} {t[11:]}" for t in EVERY_10_S]


def export(
    head: str, times: list[str] = EVERY_10_S, mark: str = ",", *, end: str = "", comma: bool = False
) -> str:
    rows = [
        [time, *(f"{value:.3f}".replace(".", "," if comma else ".") for value in values)]
        for time, *values in zip(times, LEVELS, VALVES, strict=True)
    ]
    return head + "\n" + "".join(mark.join(row) + end + "\n" for row in rows)


PLANT: dict[str, Any] = {"states": ["level"], "actions": ["valve"], "reward": "-level", "time": "time"}
ZEIT = {"states": ["Stand"], "actions": ["Ventil"], "reward": "-Stand", "time": "Zeit"}
US = [f"{t[5:7]}/{t[8:10]}/{t[:4]} {t[11:]}" for t in EVERY_10_S]
# Content, further arguments, and the units or the pattern of the error.
EXPORTS: dict[str, tuple[str | bytes, dict[str, Any], dict[str, str] | str]] = {
    "preamble with separators": (export("Exported, by, Historian\nsite,tank\ntime,level,valve"), {}, {}),
    "padded preamble, units, commas": (
        export(
            "Anlage Nord;;\nBericht vom 1.3.2025;;\nZeit;Stand;Ventil\n;m;%", GERMAN, ";", comma=True
        ).encode("cp1252"),
        ZEIT,
        {"Stand": "m", "Ventil": "%"},
    ),
    "month first, as stated": (export("time,level,valve", US), {"time_format": "%m/%d/%Y %H:%M:%S"}, {}),
    "a name in two lines": (
        export('time;"level\n[m]";valve', mark=";"),
        {"states": ["level=level [m]"]},
        {},
    ),
    "tags behind a name of one's own": (
        export("time;TIC4711.PV [°C];Ventil %", mark=";").encode("cp1252"),
        {"states": ["level=TIC4711.PV [°C]"], "actions": ["valve = Ventil %"]},
        {},
    ),
    "units in brackets after a preamble, trailing separators": (
        export("Plant 3;;;\ntime;level;valve;\n[s];[m];[%];", mark=";", end=";"),
        {},
        {"level": "m", "valve": "%"},
    ),
    "a preamble that holds more fields than the table": (
        export("a,b,c,d,e,f\n1,2,3,4,5,6\ntime,level,valve"),
        {},
        {},
    ),
    "a total at the end": (export("time,level,valve") + "Total,,\n", {}, "'time' holds 'Total' at line 62"),
    "m³/h and others": (
        export("time,Zufluss m³/h,µ").replace(",", ";"),
        {"states": ["Zufluss m³/h"], "actions": ["µ"], "reward": "-`Zufluss m³/h` - (µ - 1)**2"},
        {},
    ),
}


@pytest.mark.parametrize("case", EXPORTS)
def test_an_export_of_a_plant_is_read_right_or_refused_with_what_to_write(tmp_path: Path, case: str) -> None:
    content, arguments, expected = EXPORTS[case]
    path = write(tmp_path / "plant.csv", content)
    if isinstance(expected, str):
        with pytest.raises(DataError, match=expected):
            read_csv(path, **PLANT | arguments)
        return
    data = read_csv(path, **PLANT | arguments)
    assert data.states[:, 0].tolist() == [float(f"{level:.3f}") for level in LEVELS[:-1]]
    assert data.actions[:, 0].tolist() == [float(f"{valve:.3f}") for valve in VALVES[:-1]]
    assert data.schema.interval == 10.0
    assert data.schema.units == expected


def test_a_pipe_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log.csv")
    with pytest.raises(DataError, match="a pipe or a device, not a file"):
        read_csv(tmp_path / "log.csv", **ROLES)


# Several files.


def write_runs(folder: Path) -> None:
    for number in (1, 2, 10):
        rows = "".join(f"{number}.{k},0.5,1\n" for k in range(3))
        write(folder / f"log-{number}.csv", HEAD + rows)


def test_a_glob_a_folder_and_a_list_are_read_in_natural_order(tmp_path: Path) -> None:
    write_runs(tmp_path)
    paths = [tmp_path / f"log-{number}.csv" for number in (1, 2, 10)]
    for given in (str(tmp_path / "log-*.csv"), tmp_path, paths):
        data = read_csv(given, **ROLES)
        assert data.states[:, 0].tolist() == [1.0, 1.1, 2.0, 2.1, 10.0, 10.1]
        assert data.truncated.tolist() == [False, True] * 3
        assert data.episodes is not None
        assert data.episodes.tolist() == [0, 0, 1, 1, 2, 2]


def test_a_time_column_connects_files_and_a_time_that_starts_anew_does_not(tmp_path: Path) -> None:
    for file, start in (("a", 0), ("b", 3)):
        write(tmp_path / f"{file}.csv", dated(*(str(start + k) for k in range(3))))
    assert len(read_csv(tmp_path, **TIMED)) == 5
    write(tmp_path / "c.csv", dated("0", "1", "2"))
    data = read_csv(tmp_path, **TIMED)
    assert data.truncated.tolist() == [False] * 4 + [True] + [False, True]


def test_columns_may_be_in_another_order_in_another_file(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", HEAD + ROWS)
    write(tmp_path / "b.csv", "cost,level,valve\n2,2.5,0.1\n2,2.6,0.1\n")
    assert read_csv(tmp_path, **ROLES).states[:, 0].tolist() == [1.5, 1.6, 2.5]


SEVERAL: dict[str, Any] = {
    "a column missing": (
        {"a.csv": HEAD + ROWS, "b.csv": "level,cost\n1,2\n1,2\n"},
        ".",
        "b.csv has no column 'valve', which .*a.csv has",
    ),
    "a column more": (
        {"a.csv": HEAD + ROWS, "b.csv": "level,valve,cost,done\n1,2,3,0\n1,2,3,1\n"},
        ".",
        "a.csv has no column 'done', which .*b.csv has",
    ),
    "another unit": (
        {"a.csv": HEAD + "m,%,EUR\n" + ROWS, "b.csv": HEAD + "cm,%,EUR\n" + ROWS},
        ".",
        "b.csv has 'level' in 'cm', files before it in 'm'",
    ),
    "text in the second file": (
        {"a.csv": HEAD + ROWS, "b.csv": HEAD + "cold,1,2\n1,1,1\n"},
        ".",
        "column 'level' holds 'cold' at line 2 of .*b.csv",
    ),
    "another decimal mark": (
        {"a.csv": (HEAD + ROWS).replace(",", ";"), "b.csv": "level;valve;cost\n1,5;0;1\n1,6;1;1\n"},
        ".",
        "may be ',' as in '1,5' or '.' as in '1.5'",
    ),
    "an empty folder": ({}, ".", "folder without .csv or .tsv files; it holds nothing"),
    "a glob of nothing": ({}, "log-*.csv", r"no file matches .*log-\*.csv"),
    "a missing file": ({"a.csv": HEAD + ROWS}, ["a.csv", "gone.csv"], "no file .*gone.csv"),
    "a file twice": ({"a.csv": HEAD + ROWS}, ["a.csv", "./a.csv"], "a.csv is given twice"),
    "an empty list": ({}, [], "no file is given"),
}


@pytest.mark.parametrize("case", SEVERAL)
def test_awkward_files_are_refused_by_name(tmp_path: Path, case: str) -> None:
    files, given, pattern = SEVERAL[case]
    for name, content in files.items():
        write(tmp_path / name, content)
    paths = tmp_path / given if isinstance(given, str) else [tmp_path / name for name in given]
    with pytest.raises(DataError, match=pattern):
        read_csv(paths, **ROLES)


# Frames.


def frame(**columns: Any) -> Transitions:
    table = {"level": [1.0, 2.0, 3.0], "valve": [0.0, 0.5, 1.0], "cost": [1, 2, 3]} | columns
    return from_dataframe(pd.DataFrame(table), **TIMED if "time" in columns else ROLES)


def test_text_in_a_frame_is_read_as_in_a_file() -> None:
    data = frame(time=["31.03.2024 23:59:59", "01.04.2024 00:00:00", "01.04.2024 00:00:01"])
    assert data.repairs.notes[0].startswith("time: dates such as '31.03.2024 23:59:59'")
    assert frame(valve=["on", "off", "on"]).repairs.counts == {
        "valve: word 'on' read as 1": 2,
        "valve: word 'off' read as 0": 1,
    }
    with pytest.raises(DataError, match="is the day"):
        frame(time=["03/04/2024", "03/05/2024", "03/06/2024"])

"""Recordings of ROS: rosbag2 folders, MCAP files, and rosbag1 files, put on one grid of time."""

from __future__ import annotations

import logging
import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Unpack, get_args

import numpy as np

from nopg.data._transitions import Transitions
from nopg.data.io._cells import listed
from nopg.data.io._columns import Counts, record, take_from
from nopg.data.io._files import extra
from nopg.data.io._recording import Floats, Integers
from nopg.data.io._roles import Columns, resolve_columns, split_arguments
from nopg.data.io._transitions import to_transitions
from nopg.errors import ArgumentError, DataError

How = Literal["hold", "nearest", "mean"]
TIME = "time"
_log = logging.getLogger(__name__)
_FIELD = re.compile(r"\w+|\[\d+\]")
# A topic that was silent for longer than this many of its median steps was not measured.
_SILENCE = 5.0


def read_rosbag(
    path: str | os.PathLike[str],
    columns: Mapping[str, str],
    *,
    how: How = "hold",
    **roles: Unpack[Columns],
) -> Transitions:
    """Read topics of a recording of ROS as columns of one table, one row per interval.

    Every topic has stamps of its own: those at which its messages were recorded. The rows begin with the
    first time at which every column has a value, and end with the last message of the column that ends
    first. `Transitions.repairs` counts the values that are older than five median steps of their topic.

    Args:
        path: A rosbag2 folder, an MCAP file (`.mcap`), a database of a rosbag2 (`.db3`), or a rosbag1 file.
        columns: Topic and field of every column, such as `{"level": "/tank/level.data"}`, or
            `"/joints.position[0]"` for an entry of a list.
        how: Value of a row: "hold" the last message at or before its time, "nearest" in time, or the "mean"
            of the messages of the interval before it.
        roles: As in `from_dataframe`, with the names of the columns; `interval`, the time between two rows
            in seconds, is needed.
    """
    if how not in get_args(How):
        raise ArgumentError(f"how is {how!r}; give one of {', '.join(get_args(How))}")
    interval = roles.get("interval")
    if interval is None or not (math.isfinite(interval) and interval > 0):
        raise ArgumentError(f"interval is {interval}; give the seconds between two rows, e.g. 0.1")
    if TIME in columns:
        raise ArgumentError(f"a column is called {TIME!r}, as is that of the rows' times; rename it")
    source = str(path)
    given, settings = split_arguments(roles, Columns)
    chosen = resolve_columns([*columns, TIME], source, **{"time": TIME, **given})
    series = _messages(Path(path), {name: columns[name] for name in chosen.needed if name != TIME})
    grid = _grid(series, interval, source)
    counts: Counts = Counts()
    table: dict[str, Any] = {TIME: (grid - grid[0]) / 1e9}
    for name, (stamps, values) in series.items():
        table[name], old = align(stamps, values, grid, how)
        counts[name, f"older than {_SILENCE:g} median steps of its topic"] = old
    recording = record(take_from(table, chosen), chosen, source, counts=counts)
    return to_transitions(recording, **settings)


def align(stamps: Integers, values: Floats, grid: Integers, how: How) -> tuple[Floats, int]:
    """Return values at the times of a grid, and how many of them are older than the topic's usual step.

    Example:
        >>> stamps, values = np.array([0, 10, 20, 90]), np.array([1.0, 2.0, 3.0, 4.0])
        >>> align(stamps, values, np.array([5, 25, 85]), "hold")
        (array([1., 3., 3.]), 1)
        >>> align(stamps, values, np.array([5, 25, 85]), "nearest")
        (array([1., 3., 4.]), 0)
        >>> align(stamps, values, np.array([0, 20, 40]), "mean")
        (array([1. , 2.5, nan]), 0)
    """
    after = np.searchsorted(stamps, grid, side="right")
    last = np.maximum(after - 1, 0)
    if how == "mean":
        # Messages before the first row belong to its interval if they are as near as those of the others.
        begin = grid[0] - (grid[1] - grid[0]) if len(grid) > 1 else stamps[0] - 1
        before = np.insert(after[:-1], 0, np.searchsorted(stamps, begin, side="right"))
        spans = zip(before.tolist(), after.tolist(), strict=True)
        return np.array([values[a:b].mean() if b > a else math.nan for a, b in spans]), 0
    if how == "nearest":
        following = np.minimum(after, len(stamps) - 1)
        last = np.where(np.abs(stamps[following] - grid) < np.abs(grid - stamps[last]), following, last)
    usual = float(np.median(np.diff(stamps))) if len(stamps) > 1 else math.inf
    return values[last], int((np.abs(grid - stamps[last]) > _SILENCE * usual).sum())


def _grid(series: Mapping[str, tuple[Integers, Floats]], interval: float, source: str) -> Integers:
    """Return the times of the rows in nanoseconds: while every topic has messages."""
    begin = max(int(stamps[0]) for stamps, _ in series.values())
    end = min(int(stamps[-1]) for stamps, _ in series.values())
    seconds = max(end - begin, 0) / 1e9
    rows = math.floor(seconds / interval + 1e-9) + 1
    if rows < 2:
        raise DataError(
            f"{source}: the topics share {seconds:g} s, fewer than two rows of {interval:g} s; give a "
            "shorter interval, or leave the topic out that begins late or ends early"
        )
    return begin + np.round(np.arange(rows) * (interval * 1e9)).astype(np.int64)


def _messages(path: Path, columns: Mapping[str, str]) -> dict[str, tuple[Integers, Floats]]:
    """Return stamps in nanoseconds and values of every column, in order of time."""
    found: dict[str, tuple[list[int], list[float]]] = {name: ([], []) for name in columns}
    places = {name: _split(name, text) for name, text in columns.items()}
    with _opened(path) as reader:
        for name, (topic, _) in places.items():
            if topic not in reader.topics:
                raise DataError(
                    f"{path} has no topic {topic!r} for column {name!r}; its topics are "
                    f"{listed(sorted(reader.topics))}"
                )
        topics = {topic for topic, _ in places.values()}
        for connection, stamp, raw in reader.messages([c for c in reader.connections if c.topic in topics]):
            message = reader.deserialize(raw, connection.msgtype)
            for name, (topic, field) in places.items():
                if topic == connection.topic:
                    found[name][0].append(stamp)
                    found[name][1].append(_value(message, field, f"{path}: column {name!r}", columns[name]))
    series = {}
    for name, (stamps, values) in found.items():
        if not stamps:
            raise DataError(f"{path}: topic {places[name][0]!r} of column {name!r} has no messages")
        order = np.argsort(np.array(stamps), kind="stable")
        series[name] = np.array(stamps, dtype=np.int64)[order], np.array(values)[order]
    return series


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a recording; its errors name it."""
    if not path.exists():
        raise DataError(f"there is no recording {path}; check the path (you are in {Path.cwd()})")
    highlevel, typesys = extra("rosbags.highlevel"), extra("rosbags.typesys")
    store = typesys.get_typestore(typesys.Stores.LATEST)
    try:
        with highlevel.AnyReader([path], default_typestore=store) as reader:
            yield reader
    except (highlevel.AnyReaderError, OSError) as error:
        raise DataError(f"{path} cannot be read as a recording of ROS ({error})") from error


def _split(name: str, text: str) -> tuple[str, list[str]]:
    """Return the topic and the steps to the field: `/tank/level.data` → `/tank/level`, `data`."""
    topic, _, field = text.partition(".")
    steps = _FIELD.findall(field)
    if not topic or not steps:
        raise ArgumentError(f"column {name!r} is {text!r}; give topic and field, e.g. /tank/level.data")
    return topic, steps


def _value(message: Any, steps: list[str], where: str, text: str) -> float:
    """Return the number that a field of a message holds."""
    for step in steps:
        if step.startswith("["):
            try:
                message = message[int(step[1:-1])]
            except (TypeError, IndexError, KeyError) as error:
                raise DataError(f"{where}: {text} has no element {step} in a message") from error
        elif hasattr(message, step):
            message = getattr(message, step)
        else:
            fields = [field for field in getattr(message, "__dataclass_fields__", {}) if field[:2] != "__"]
            known = listed(fields) or "none"
            raise DataError(f"{where}: {text} has no field {step!r}; the fields there are {known}")
    if isinstance(message, str) or np.ndim(message) != 0 or hasattr(message, "__dataclass_fields__"):
        fields = [field for field in getattr(message, "__dataclass_fields__", {}) if field[:2] != "__"]
        inside = f" with the fields {listed(fields)}" if fields else ""
        raise DataError(f"{where}: {text} is a {type(message).__name__}{inside}; name one number in it")
    return float(message)

"""Recordings of ROS: topics of several rates become one table, from real rosbag2 and MCAP files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from nopg.data.io import read_rosbag
from nopg.data.io._rosbag import align
from nopg.errors import ArgumentError, DataError

STORE = get_typestore(Stores.ROS2_HUMBLE)
START = 1_700_000_000_000_000_000
COLUMNS = {"level": "/tank/level.data", "valve": "/valve.point.x", "joint": "/joints.data[1]"}
ROLES: dict[str, Any] = {"states": ["level"], "actions": ["valve"], "reward": "-level ** 2", "interval": 0.5}


def write(path: Path, plugin: StoragePlugin, *, seconds: float = 4.0) -> Path:
    """Write the level (the time) at 10 Hz, the valve (the second) at 1 Hz from 0.25 s, and joints once."""
    number, point, array = (
        STORE.types[f"{kind}"]
        for kind in (
            "std_msgs/msg/Float64",
            "geometry_msgs/msg/PointStamped",
            "std_msgs/msg/Float64MultiArray",
        )
    )
    stamp = STORE.types["builtin_interfaces/msg/Time"](sec=0, nanosec=0)
    header = STORE.types["std_msgs/msg/Header"](stamp=stamp, frame_id="valve")
    xyz, layout = STORE.types["geometry_msgs/msg/Point"], STORE.types["std_msgs/msg/MultiArrayLayout"]
    with Writer(path, version=9, storage_plugin=plugin) as bag:

        def send(topic: str, messages: list[tuple[float, Any]]) -> None:
            kind = type(messages[0][1]).__msgtype__
            connection = bag.add_connection(topic, kind, typestore=STORE)
            for time, message in messages:
                bag.write(connection, START + round(time * 1e9), STORE.serialize_cdr(message, kind))

        send("/tank/level", [(k / 10, number(data=k / 10)) for k in range(int(seconds * 10) + 1)])
        valve = [
            (k + 0.25, point(header=header, point=xyz(x=float(k), y=0.0, z=0.0))) for k in range(int(seconds))
        ]
        send("/valve", valve)
        joints = array(layout=layout(dim=[], data_offset=0), data=np.array([1.0, 2.0]))
        send("/joints", [(0.0, joints)])
        bag.add_connection("/silent", "std_msgs/msg/Float64", typestore=STORE)
    return path


@pytest.fixture(params=["folder of SQLite", "folder of MCAP", "MCAP file", "SQLite file"])
def recording(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    plugin = StoragePlugin.MCAP if "MCAP" in request.param else StoragePlugin.SQLITE3
    path = write(tmp_path / "bag", plugin)
    if "file" in request.param:
        return next(path.glob("*.mcap" if "MCAP" in request.param else "*.db3"))
    return path


def test_topics_of_several_rates_become_rows_of_one_interval(recording: Path) -> None:
    data = read_rosbag(recording, COLUMNS, **ROLES)
    # From 0.25 s, the first valve, to 3.25 s, its last; the level held is that of 0.2, 0.7, … s.
    assert data.states[:, 0].tolist() == [0.2, 0.7, 1.2, 1.7, 2.2, 2.7]
    assert data.actions[:, 0].tolist() == [0, 0, 1, 1, 2, 2]
    assert data.schema.interval == 0.5
    assert data.truncated.tolist() == [False] * 5 + [True]
    assert data.rewards[1].item() == -(0.7**2)


def test_the_nearest_and_the_mean_message_are_others(tmp_path: Path) -> None:
    path = write(tmp_path / "bag", StoragePlugin.MCAP)
    nearest = read_rosbag(path, COLUMNS, **ROLES, how="nearest")
    assert nearest.actions[:, 0].tolist() == [0, 0, 1, 1, 2, 2]
    mean = read_rosbag(path, COLUMNS, **ROLES | {"interval": 1.0}, how="mean")
    assert mean.states[1:, 0].tolist() == pytest.approx([0.75, 1.75])


def test_what_was_held_for_long_is_counted() -> None:
    stamps, values = np.array([0, 10, 20, 30, 200]), np.arange(5.0)
    held, old = align(stamps, values, np.array([80, 81, 150]), "hold")
    assert held.tolist() == [3.0, 3.0, 3.0]
    assert old == 2


@pytest.mark.parametrize(
    ("change", "arguments", "pattern"),
    [
        ({"level": "/tank/lvl.data"}, {}, "no topic '/tank/lvl' for column 'level'; its topics are /joints"),
        ({"level": "/tank/level.value"}, {}, "no field 'value'; the fields there are data"),
        ({"valve": "/valve.point"}, {}, "is a .*Point with the fields x, y, z; name one number"),
        ({"valve": "/valve.header.frame_id"}, {}, "is a str; name one number"),
        ({"valve": "/joints.data[9]"}, {}, r"no element \[9\]"),
        ({"level": "/silent.data"}, {}, "topic '/silent' of column 'level' has no messages"),
        ({"level": "/tank/level"}, {}, "give topic and field"),
        ({"time": "/tank/level.data"}, {}, "a column is called 'time'"),
        ({}, {"interval": 60.0}, "share 3 s, fewer than two rows of 60 s"),
        ({}, {"interval": 0.0}, "interval is 0.0"),
        ({}, {"how": "spline"}, "how is 'spline'"),
        ({}, {"states": ["depth"]}, "no column 'depth'"),
    ],
)
def test_an_awkward_request_is_refused(
    tmp_path: Path, change: dict[str, str], arguments: dict[str, Any], pattern: str
) -> None:
    path = write(tmp_path / "bag", StoragePlugin.MCAP)
    with pytest.raises((DataError, ArgumentError), match=pattern):
        read_rosbag(path, COLUMNS | change, **ROLES | arguments)


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no recording"):
        read_rosbag(tmp_path / "gone", COLUMNS, **ROLES)
    (tmp_path / "log.mcap").write_text("no bag")
    (tmp_path / "log.txt").write_text("no bag")
    for path in (tmp_path, tmp_path / "log.mcap", tmp_path / "log.txt"):
        with pytest.raises(DataError, match="cannot be read as a recording"):
            read_rosbag(path, COLUMNS, **ROLES)

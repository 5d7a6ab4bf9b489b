"""Times of single calls: quantiles, and the load of the machine beside them."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from studies import measurements
from studies.measurements import latency
from studies.records import Record, read


def test_quantiles_of_single_calls_are_those_of_their_times(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = itertools.cycle([1_000] * 99 + [9_000])  # ns; one call of a hundred is slow
    ends = itertools.accumulate(step for length in lengths for step in (500, length))
    monkeypatch.setattr("studies.measurements.latency.time.perf_counter_ns", lambda: next(ends))
    found = latency._wall_microseconds({"numpy": lambda: None}, count=1_000)
    assert (found["numpy"]["p50"], found["numpy"]["max"]) == (1.0, 9.0)
    assert latency._quantiles(range(101)) == {"p50": 50.0, "p99": 99.0, "max": 100}


def test_a_measurement_prints_and_keeps_the_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def one_case() -> Iterator[dict[str, Any]]:
        yield {"benchmark": "pendulum", "results": {"wall": {"C": {"p50": 8.0, "p99": 9.0, "max": 40.0}}}}

    monkeypatch.setattr(latency, "measure", one_case)
    monkeypatch.setattr("studies.measurements.os.getloadavg", lambda: (1.234, 0.0, 0.0))
    measurements.measure("latency", tmp_path)
    printed = capsys.readouterr().out
    assert "load of the machine before: 1.23 on" in printed
    assert "'p99': 9.0" in printed
    (record,) = read(tmp_path, "latency")
    assert record.setup["load"] == 1.23
    assert "| pendulum | C | 8 | 9 | 40 | 1.23 |" in latency._wall_section([record])


def test_records_without_single_calls_have_no_section() -> None:
    old = Record(study="latency", benchmark="pendulum", commit="1", results={"microseconds": {}})
    assert latency._wall_section([old]) == []

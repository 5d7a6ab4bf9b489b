"""Stored runs made again."""

from dataclasses import replace
from pathlib import Path

import pytest

from nopg.errors import ArgumentError
from studies.__main__ import main
from studies.check import differences, drawn, run_again
from studies.paper import EXPERIMENTS
from studies.paper._run import made
from studies.records import Record, append


def test_a_run_made_again_is_equal_to_the_bit_and_a_changed_record_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (record,) = made(EXPERIMENTS["pendulum-grid"].run("nopg-d", 200, 0, "paper"))
    again = run_again(record)
    assert again is not None
    assert again.run == record.run
    assert differences(record, again) == []

    append(replace(record, results={"evaluations": []}), tmp_path)
    assert main(["check", "paper", "--results", str(tmp_path)]) == 1
    shown = capsys.readouterr()
    assert "results.evaluations: [] stored" in shown.out
    assert "1 of 1 runs differ" in shown.err


def test_times_do_not_count() -> None:
    results = {"evaluations": [{"seconds": 1.0, "return": 2.0}]}
    one = Record(study="paper", benchmark="b", commit="c", results=results)
    other = replace(one, cpu_seconds=3.0, results={"evaluations": [{"seconds": 9.0, "return": 2.0}]})
    assert differences(one, other) == []
    assert differences(one, replace(one, discounted=1.0)) == ["discounted: None stored, 1.0 now"]


def test_the_draw_follows_its_seed_and_has_each_run_once(tmp_path: Path) -> None:
    for seed in range(30):
        for commit in ("old", "new"):
            append(Record(study="paper", benchmark="b", seed=seed, commit=commit), tmp_path)
    first = drawn("paper", 10, 0, tmp_path)
    assert [r.seed for r in first] == [r.seed for r in drawn("paper", 10, 0, tmp_path)]
    assert [r.seed for r in first] != [r.seed for r in drawn("paper", 10, 1, tmp_path)]
    assert len({r.seed for r in first}) == 10
    assert {r.commit for r in first} == {"new"}
    with pytest.raises(ArgumentError, match="no record of a run of 'latency'"):
        drawn("latency", 10, 0, tmp_path)


def test_a_run_on_other_demonstrations_asks_for_their_file() -> None:
    theirs = {"demonstrations": "theirs.csv"}
    record = Record(study="paper", benchmark="mountain-car", commit="c", options=theirs)
    with pytest.raises(ArgumentError, match=r"learned from theirs\.csv; give the file"):
        run_again(record)

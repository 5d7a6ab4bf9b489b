"""Records: one line per run, whole or absent, also with several writers; pages from the stored lines."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from nopg._files import fingerprint
from nopg.errors import DataError
from studies.__main__ import STUDIES
from studies.paper import EXPERIMENTS
from studies.records import FOLDER, ROOT, Record, append, latest, read

RECORD = Record(study="s", benchmark="plant", method="nopg", rows=200, commit="1234567", discounted=-1.0)


def test_records_are_read_as_they_were_written_in_the_order_of_writing(tmp_path: Path) -> None:
    written = [
        replace(
            RECORD, seed=1, warnings=("one",), results={"line ends": "a\u2028b\n", "values": [1.0, None]}
        ),
        replace(RECORD, options={"mode": "faithful"}, setup={"data": None}, wall_seconds=0.5),
    ]
    for record in written:
        append(record, tmp_path)
    assert read(tmp_path) == read(tmp_path, "s") == written
    assert read(tmp_path, "another") == read(tmp_path / "nothing") == []


def test_a_line_leaves_out_defaults_and_what_is_no_number_is_null(tmp_path: Path) -> None:
    append(replace(RECORD, results={"x": torch.tensor([1.0, float("nan")])}), tmp_path)
    line = json.loads((tmp_path / "s.jsonl").read_text())
    assert line == {
        "study": "s",
        "benchmark": "plant",
        "method": "nopg",
        "rows": 200,
        "commit": "1234567",
        "discounted": -1.0,
        "results": {"x": [1.0, None]},
    }


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"study": "s", "benchmark": "b", "commit": "", "x": 1}']
)
def test_a_broken_line_is_named(tmp_path: Path, text: str) -> None:
    append(RECORD, tmp_path)
    with (tmp_path / "s.jsonl").open("a") as stream:
        stream.write(text + "\n")
    with pytest.raises(DataError, match=r"s\.jsonl, line 2 is no record"):
        read(tmp_path)


def test_part_of_a_line_is_not_read_and_is_dropped_by_the_next_writer(tmp_path: Path) -> None:
    append(RECORD, tmp_path)
    with (tmp_path / "s.jsonl").open("a") as stream:
        stream.write('{"study": "s", "bench')
    assert read(tmp_path) == [RECORD]
    append(replace(RECORD, seed=1), tmp_path)
    assert [record.seed for record in read(tmp_path)] == [0, 1]


def test_writers_that_are_killed_leave_whole_lines(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from studies.records import Record, append\n"
        "for k in range(10**6):\n"
        "    results = {'k': [k] * 20_000}\n"
        "    record = Record(study='s', benchmark=sys.argv[2], seed=k, commit='', results=results)\n"
        "    append(record, Path(sys.argv[1]))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    writers = [subprocess.Popen([*command, name]) for name in ("one", "other")]
    while len({record.benchmark for record in read(tmp_path)}) < 2:
        time.sleep(0.05)
    for writer in writers:
        os.kill(writer.pid, 9)
        writer.wait()
    append(replace(RECORD, benchmark="last"), tmp_path)
    found = read(tmp_path)
    assert found[-1].benchmark == "last"
    for name in ("one", "other"):
        mine = [record for record in found if record.benchmark == name]
        assert [record.seed for record in mine] == list(range(len(mine)))
        assert all(record.results["k"] == [record.seed] * 20_000 for record in mine)


def test_of_each_group_the_version_counts_that_was_written_last() -> None:
    old = [replace(RECORD, seed=seed) for seed in (0, 1)]
    new, other = replace(RECORD, commit="7654321"), replace(RECORD, rows=5)
    assert latest([*old, other, new], lambda record: record.rows) == [new, other]


def test_fingerprints_tell_values_shapes_types_and_absence_apart() -> None:
    x = torch.arange(6.0)
    names = {
        fingerprint([x]),
        fingerprint([x + 1e-7]),
        fingerprint([x.reshape(2, 3)]),
        fingerprint([x.double()]),
        fingerprint([x, None]),
        fingerprint([x[:3], x[3:]]),
    }
    assert len(names) == 6
    assert fingerprint([x]) == fingerprint([x.clone()])


# The records and pages of the repository


def test_every_line_of_the_repository_is_a_record_of_its_file_with_a_commit() -> None:
    for path in FOLDER.glob("*.jsonl"):
        records = read(study=path.stem)
        assert records
        assert all(record.study == path.stem and record.commit for record in records)


def test_records_of_the_paper_hold_what_a_rerun_needs() -> None:
    for record in read(study="paper"):
        assert record.benchmark in EXPERIMENTS
        assert record.wall_seconds is not None
        assert record.setup["versions"]["torch"]
        data: Any = record.setup["data"]
        assert data is None or (data["rows"] > 0 and len(data["sha256"]) == 64)


@pytest.mark.parametrize("name", [name for name, study in STUDIES.items() if study.file])
def test_the_stored_page_is_that_of_the_stored_records(name: str) -> None:
    study = STUDIES[name]
    assert study.page(read(study=name)) == (ROOT / study.file).read_text(encoding="utf-8")


def test_every_record_is_of_a_study_and_every_study_has_records() -> None:
    assert {path.stem for path in FOLDER.glob("*.jsonl")} == set(STUDIES)


def test_tables_of_the_page_on_evidence_are_those_of_the_pages_of_studies() -> None:
    pages = {line for page in (ROOT / "studies/pages").glob("*.md") for line in page.read_text().split("\n")}
    text = (ROOT / "docs/evidence.md").read_text(encoding="utf-8")
    rows = [line for line in text.split("\n") if line.startswith("|")]
    assert len(rows) > 30
    assert set(rows) <= pages

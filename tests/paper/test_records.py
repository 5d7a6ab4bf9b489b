"""Records: whole or absent, named when they are broken, valid by their schema."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest
import torch

from nopg._json import write_json
from nopg._provenance import fingerprint, provenance
from nopg.errors import DataError
from studies.paper.records import FORMAT, read_records, record_schema

REPOSITORY = Path(__file__).parents[2]


def record(**changes: object) -> dict[str, object]:
    whole: dict[str, object] = {
        "format": FORMAT,
        "experiment": "pendulum-grid",
        "mode": "ours",
        "method": "nopg-d",
        "size": 200,
        "seed": 0,
        "quick": False,
        "config": {},
        "data": {"rows": 200, "sha256": "0" * 64},
        "results": {"evaluations": [{"updates": 1, "transitions": 200, "seconds": 0.5, "return": -1.0}]},
        "wall_seconds": 1.0,
        "cpu_seconds": 1.0,
        **provenance(),
    }
    return whole | changes


def test_what_is_written_is_read_in_the_order_of_names(tmp_path: Path) -> None:
    for seed in (1, 0):
        write_json(tmp_path / "deep" / f"nopg-d-200-{seed}.json", record(seed=seed))
    assert [r["seed"] for r in read_records(tmp_path)] == [0, 1]
    assert read_records(tmp_path / "nothing") == []


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", json.dumps(record(format=FORMAT + 1))])
def test_a_broken_record_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "broken.json").write_text(text)
    with pytest.raises(DataError, match=r"broken\.json is no record"):
        read_records(tmp_path)


def test_a_number_that_json_does_not_know_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "r.json", record(wall_seconds=float("nan")))
    assert not (tmp_path / "r.json").exists()
    assert read_records(tmp_path) == []


def test_a_killed_writer_leaves_the_old_record_or_the_new_one(tmp_path: Path) -> None:
    """A process writes one large record after another; killed at any moment, what has the name is whole."""
    path = tmp_path / "r.json"
    program = (
        "import sys; from pathlib import Path; from nopg._json import write_json\n"
        "k = 0\n"
        "while True:\n"
        "    write_json(Path(sys.argv[1]), {'k': k, 'rows': list(range(50_000)), 'same': k}); k += 1\n"
    )
    for delay in (0.02, 0.11, 0.23):
        writer = subprocess.Popen([sys.executable, "-c", program, str(path)])
        while not path.exists():
            time.sleep(0.01)
        time.sleep(delay)
        os.kill(writer.pid, 9)
        writer.wait()
        whole = json.loads(path.read_text())
        assert whole["k"] == whole["same"]


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


def test_provenance_names_commit_and_versions() -> None:
    told = provenance(("numpy", "no-such-package"))
    versions = told["versions"]
    assert isinstance(versions, dict)
    assert versions["torch"] == torch.__version__
    assert "no-such-package" not in versions
    assert told["commit"] is None or len(str(told["commit"]).split(",")[0]) == 40


def test_the_schema_takes_a_record_and_refuses_what_is_none() -> None:
    check = jsonschema.Draft202012Validator(record_schema())
    check.validate(record())
    for wrong in (
        record(mode="theirs"),
        record(size=-1),
        record(data={"rows": 3}),
        record(results={"evaluations": []}),
        record(surplus=1),
    ):
        assert not check.is_valid(wrong)


def test_all_records_of_the_repository_are_valid() -> None:
    check = jsonschema.Draft202012Validator(record_schema())
    for found in read_records(REPOSITORY / "results" / "reproduction"):
        check.validate(found)

"""`python -m studies paper` makes the runs without a record; the page of all records."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paper_studies.study_records import learning_record
from studies.__main__ import main
from studies.paper import EXPERIMENTS
from studies.paper._study import page, records_of
from studies.records import append, read

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Run the command in this process; return its exit code and all that it printed."""

    def command(*arguments: str) -> tuple[int, str]:
        try:
            code = main(["paper", *arguments, "--results", str(tmp_path)])
        except SystemExit as end:  # argparse
            code = int(end.code or 0)
        return code, "".join(capsys.readouterr())

    return command


def test_only_runs_without_a_record_are_made(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(self: object, asked: object) -> tuple[dict[str, Any], None]:
        return {"evaluations": [{"return": -400.0}]}, None

    monkeypatch.setattr(type(EXPERIMENTS["pendulum-grid"]), "measure", measured)
    append(learning_record("pendulum-grid", "nopg-d", 450, 0, -365.0), tmp_path)
    code, output = run("pendulum-grid", "--method", "nopg-d", "--rows", "450", "--seeds", "0-2")
    assert code == 0, output
    assert "2 of 3 runs to make" in output
    assert "pendulum-grid 450, seed 2, nopg-d" in output
    assert [record.seed for record in read(tmp_path)] == [0, 1, 2]
    assert all(record.setup["versions"] for record in read(tmp_path)[1:])


def test_the_last_record_of_a_run_counts() -> None:
    old = learning_record("pendulum-grid", "nopg-d", 450, 0, -900.0)
    records = [old, replace(old, commit="7654321")]
    assert [record.commit for record in records_of("pendulum-grid", records)] == ["7654321"]
    assert records_of("cart-pole", records) == []


def test_the_page_tells_claims_figures_tables_and_deviations() -> None:
    sizes = (200, 450, 800, 1250, 1800, 3200)
    text = page(
        [
            learning_record("pendulum-grid", "nopg-d", size, seed, -365.0)
            for size in sizes
            for seed in range(10)
        ]
    )
    claim = "NOPG-D: mean above the paper's"
    assert f"| [pendulum-grid](#pendulum-uniform-grid) | {claim} | default model: 6 of 6 sizes; " in text
    assert "| kept |" in text
    assert "| **not run in full** |" in text
    assert "![Pendulum, uniform grid](../../docs/figures/pendulum-grid.png)" in text
    assert f"| NOPG-D, default model |{' -365±0 (10/10) |' * 6} 1 |" in text
    assert "1. " in text
    assert "`python -m studies paper cart-pole`, not run yet" in text
    assert all(f"## {experiment.title}" in text for experiment in EXPERIMENTS.values())

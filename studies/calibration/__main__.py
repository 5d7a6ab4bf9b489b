"""The command line of the study: `python -m studies.calibration --role development --policies given`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from nopg.errors import NopgError
from studies.calibration.cells import Role
from studies.calibration.plants import PLANTS
from studies.calibration.run import Policies, jobs, missing, run_all
from studies.printing import note, say
from studies.records import FOLDER, Record


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the runs that have no record yet, and return the exit code."""
    given = _parser().parse_args(arguments)
    try:
        wanted = jobs(given.role, given.policies, given.logs, given.plant)
        todo = wanted if given.again else missing(wanted, given.results)
        say(f"{len(todo)} of {len(wanted)} logs to evaluate")
        for record in run_all(todo, workers=given.workers, folder=given.results):
            # The figures of report plants are on the page, not on the screen.
            say(_line(record) if given.role == "development" else _name(record))
    except NopgError as error:
        note(str(error))
        return 1
    return 0


def _name(record: Record) -> str:
    return f"{record.benchmark} {record.rows} {record.options['behaviour']} log {record.seed} {record.method}"


def _line(record: Record) -> str:
    if "refused" in record.summary:
        return f"{_name(record)}: {record.summary['refused']}"
    expected, (low, high) = record.summary["expected_return"], record.summary["interval"]
    verdict = record.summary["verdict"]
    mark = "" if low <= record.true_return <= high else ", outside"
    return (
        f"{_name(record)}: {expected:.4g} in [{low:.4g}, {high:.4g}], {verdict}; "
        f"truth {record.true_return:.4g}{mark}, {record.cpu_seconds:.1f} CPU s"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m studies.calibration", description=__doc__)
    parser.add_argument("--role", required=True, choices=get_args(Role))
    parser.add_argument("--policies", required=True, choices=get_args(Policies))
    parser.add_argument("--logs", default=20, type=int, help="number of logs of every cell")
    parser.add_argument("--plant", action="append", default=[], choices=PLANTS, help="may be repeated")
    parser.add_argument("--workers", default=1, type=int, help="number of processes")
    parser.add_argument("--again", action="store_true", help="repeat runs that have a record")
    parser.add_argument("--results", type=Path, default=FOLDER, help="folder of the records")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""The command line of the benchmark: `python -m studies.engineers --logs 0-2`.

For every plant, size and log: the logged controller, the best one found with the true plant, baselines, nopg,
and rivals, each run on the true plant. Runs without a record are made, cheap methods and nopg first.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from nopg.errors import NopgError
from studies.engineers import TASKS
from studies.engineers.methods import METHODS
from studies.engineers.run import SIZES, jobs, missing, run_all
from studies.printing import note, say
from studies.records import FOLDER, Record
from studies.seeds import seeds_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the runs that have no record yet, and return the exit code."""
    given = _parser().parse_args(arguments)
    try:
        wanted = jobs(given.logs, plants=given.plants, methods=given.methods, rows=given.rows)
        todo = missing(wanted, given.results)
        if given.again:
            todo = [job for job in wanted if job in todo or not given.methods or job.method in given.methods]
        say(f"{len(todo)} of {len(wanted)} runs to make")
        for record in run_all(todo, workers=given.workers, folder=given.results):
            say(_line(record))
    except NopgError as error:
        note(str(error))
        return 1
    return 0


def _line(record: Record) -> str:
    name = f"{record.benchmark} {record.rows} log {record.seed} {record.method}"
    # The figures of report plants are on the page, not on the screen.
    seen = record.role == "development" and record.episodes
    truth = f": {record.true_return:.4g}" if seen else ""
    return f"{name}{truth}, {record.cpu_seconds:.1f} CPU s"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m studies.engineers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--plants", nargs="+", default=(), choices=TASKS, help="all by default")
    parser.add_argument("--methods", nargs="+", default=(), choices=METHODS, help="all by default")
    parser.add_argument("--rows", nargs="+", default=SIZES, type=int, help="sizes of the logs")
    parser.add_argument("--logs", default=tuple(range(10)), type=seeds_of, help="such as 0-2")
    parser.add_argument("--workers", default=1, type=int, help="number of processes")
    parser.add_argument(
        "--again", action="store_true", help="repeat runs that have a record; of named methods, theirs alone"
    )
    parser.add_argument("--results", type=Path, default=FOLDER, help="folder of the records")
    return parser


if __name__ == "__main__":
    sys.exit(main())

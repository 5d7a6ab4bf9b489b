"""The command line of the study: `python -m studies.trust run|table`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from studies.printing import exit_code, say
from studies.records import FOLDER, Record, read
from studies.trust.case import PATTERNS, Case
from studies.trust.faults import FAULTS
from studies.trust.run import FIRST_SEEDS, STUDY, Job, Policies, Role, missing, run_all
from studies.trust.table import inside, tables


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    given = _parser().parse_args(arguments)
    return exit_code(lambda: given.command(given))


def _run(given: argparse.Namespace) -> None:
    first = FIRST_SEEDS[given.role]
    faults = list(FAULTS) if "all" in given.fault else given.fault
    wanted = [
        Job(Case(first + seed, fault, given.episodes, given.recording, given.pattern), given.policies)
        for seed in given.seeds
        for fault in faults
        if not (given.recording and FAULTS[fault].of_starts)
    ]
    todo = wanted if given.again else missing(wanted, given.folder)
    say(f"{len(todo)} of {len(wanted)} logs to judge")
    for record in run_all(todo, workers=given.workers, folder=given.folder):
        # The figures of report seeds are in the table, not on the screen.
        say(_line(record) if given.role == "development" else _name(record))


def _table(given: argparse.Namespace) -> None:
    for title, heads, rows in tables(read(given.folder, STUDY)):
        say(f"\n{title}")
        widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
        for row in (heads, *rows):
            say("  ".join(map(str.ljust, row, widths)).rstrip())


def _name(record: Record) -> str:
    return (
        f"{record.options['fault']} seed {record.seed} {record.benchmark} {record.rows} rows {record.method}"
    )


def _line(record: Record) -> str:
    if "refused" in record.summary:
        return f"{_name(record)}: {record.summary['refused']}"
    expected, (low, high) = record.summary["expected_return"], record.summary["interval"]
    mark = "" if inside(record) else ", outside"
    return (
        f"{_name(record)}: {expected:.4g} in [{low:.4g}, {high:.4g}], {record.summary['verdict']}; truth "
        f"{record.true_return:.4g}{mark}, new {record.results['from_new_starts']:.4g}, "
        f"{record.cpu_seconds:.1f} CPU s"
    )


def _seeds(text: str) -> range:
    """Return the seeds of `60`, the first 60 of a role, or of `20-59`."""
    first, dash, last = text.partition("-")
    found = range(int(first), int(last) + 1) if dash else range(int(first))
    if len(found) and found[-1] >= 1_000:
        raise argparse.ArgumentTypeError("a role has 1 000 seeds")
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m studies.trust", description=__doc__)
    commands = parser.add_subparsers(required=True)
    run = commands.add_parser("run", help="judge the logs that have no record yet")
    run.add_argument("--role", required=True, choices=get_args(Role))
    run.add_argument("--policies", required=True, choices=get_args(Policies))
    run.add_argument("--seeds", default=range(20), type=_seeds, help="a number, or numbers such as 20-59")
    run.add_argument("--fault", nargs="+", default=["none"], choices=("all", *FAULTS))
    run.add_argument("--episodes", default=0, type=int, help="number of episodes; drawn by default")
    run.add_argument("--pattern", default="", choices=("", *PATTERNS), help="of the starts; drawn by default")
    run.add_argument("--recording", action="store_true", help="one recording in which every row is a start")
    run.add_argument("--workers", default=1, type=int, help="number of processes")
    run.add_argument("--again", action="store_true", help="repeat runs that have a record")
    run.set_defaults(command=_run)
    table = commands.add_parser("table", help="print the figures from the records")
    table.set_defaults(command=_table)
    for command in (run, table):
        command.add_argument("--folder", type=Path, default=FOLDER, help="folder of the records")
    return parser


if __name__ == "__main__":
    sys.exit(main())

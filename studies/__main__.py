"""The command line of the studies: `python -m studies run|check|measure|table|page`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nopg.errors import NopgError
from studies.benchmark_page import tables
from studies.check import differences, drawn, run_again
from studies.demonstrations import DEMONSTRATIONS
from studies.measurements import MEASUREMENTS, measure
from studies.page_writer import PAGES, benchmark_records, write_page
from studies.plan import METHODS, STUDIES, jobs
from studies.plants import BENCHMARKS
from studies.printing import exit_code, say
from studies.records import FOLDER, Record
from studies.run import missing, run_all
from studies.seeds import seeds_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    given = _parser().parse_args(arguments)
    return exit_code(lambda: given.command(given))


def _run(given: argparse.Namespace) -> None:
    if given.demonstrations is not None:
        os.environ[DEMONSTRATIONS] = str(given.demonstrations)
    options = dict(given.option)
    wanted = jobs(
        given.study, benchmarks=given.benchmark, methods=given.method, rows=given.rows, seeds=given.seeds
    )
    todo = wanted if given.again else missing(wanted, options=options, folder=given.results)
    say(f"{len(todo)} of {len(wanted)} runs to make")
    for record in run_all(todo, workers=given.workers, options=options, folder=given.results):
        say(_line(record))


def _check(given: argparse.Namespace) -> None:
    """Make drawn runs again; raise if one differs."""
    unequal, records = 0, drawn(given.study, given.number, given.seed, given.results)
    for record in records:
        found = differences(record, run_again(record, given.demonstrations))
        options = "".join(f", {value}" for value in record.options.values())
        name = f"{record.benchmark}{options}: {record.method}, {record.rows}, seed {record.seed}"
        say(f"{name}, {record.commit}: {'equal to the bit' if not found else '; '.join(found[:3])}")
        unequal += bool(found)
    if unequal:
        raise NopgError(f"{unequal} of {len(records)} runs differ from their records")


def _table(given: argparse.Namespace) -> None:
    say(tables(benchmark_records(given.results)))


def _measure(given: argparse.Namespace) -> None:
    measure(given.name, given.results)


def _pages(given: argparse.Namespace) -> None:
    for page in given.page or PAGES:
        path = Path(page)
        write_page(path.stem, path if path.suffix else None, given.results)


def _line(record: Record) -> str:
    expected = record.summary.get("expected_return")
    verdict = record.summary.get("verdict", "no verdict")
    predicted = "" if expected is None else f", expected {expected:.6g}, {verdict}"
    return (
        f"{record.benchmark} {record.rows} {record.method} seed {record.seed}: "
        f"return {record.true_sum:.6g}, discounted {record.true_return:.6g}{predicted}, "
        f"{record.cpu_seconds:.1f} CPU s"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m studies", description=__doc__)
    commands = parser.add_subparsers(required=True)

    run = commands.add_parser("run", help="make the runs of a study that have no record yet")
    run.add_argument("study", choices=STUDIES)
    run.add_argument("--benchmark", action="append", default=[], choices=BENCHMARKS, help="may be repeated")
    run.add_argument("--method", action="append", default=[], choices=METHODS, help="may be repeated")
    run.add_argument("--rows", action="append", default=[], type=int, help="dataset size; may be repeated")
    run.add_argument("--seeds", default=(), type=seeds_of, help="such as 0-9 or 0,2,5-7")
    run.add_argument("--workers", default=1, type=int, help="number of processes")
    run.add_argument("--again", action="store_true", help="repeat runs that have a record")
    run.add_argument("--demonstrations", type=Path, help="recorded drives of the mountain car, a CSV file")
    run.add_argument(
        "--option",
        action="append",
        default=[],
        type=_option,
        help="NAME=VALUE for nopg.optimize; such runs are not in the table",
    )
    run.set_defaults(command=_run)

    check = commands.add_parser("check", help="make some recorded runs again and compare to the bit")
    check.add_argument("study", nargs="?", default="paper", choices=("paper", *STUDIES))
    check.add_argument("--number", default=10, type=int, help="number of runs")
    check.add_argument("--seed", default=0, type=int, help="random seed of the choice")
    check.add_argument("--demonstrations", type=Path, help="recorded drives of the mountain car, a CSV file")
    check.set_defaults(command=_check)

    table = commands.add_parser("table", help="print the figures from the records")
    table.set_defaults(command=_table)
    single = commands.add_parser("measure", help="measure a part of nopg")
    single.add_argument("name", choices=MEASUREMENTS)
    single.set_defaults(command=_measure)
    page = commands.add_parser("page", help="write pages and figures from the records")
    page.add_argument("page", nargs="*", help=f"{', '.join(PAGES)}, or a path with this stem; default: all")
    page.set_defaults(command=_pages)
    for command in (run, check, table, single, page):
        command.add_argument("--results", type=Path, default=FOLDER, help="folder of the records")
    return parser


def _option(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


if __name__ == "__main__":
    sys.exit(main())

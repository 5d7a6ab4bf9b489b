"""The command line of the studies: `python -m studies STUDY` makes runs, `python -m studies page` pages."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from nopg.errors import NopgError
from studies.engineers import ENGINEERS
from studies.fleet import FLEET
from studies.hardware import HARDWARE
from studies.large_logs import LARGE_LOGS
from studies.learned_rewards import LEARNED_REWARDS
from studies.monitor import MONITOR
from studies.neorl2 import NEORL2
from studies.paper import PAPER
from studies.pid_gains import PID_GAINS
from studies.promise import PROMISE
from studies.records import FOLDER
from studies.set_points import SET_POINTS
from studies.support import SUPPORT
from studies.trust import TRUST

STUDIES = {
    study.name: study
    for study in (
        ENGINEERS,
        FLEET,
        HARDWARE,
        LARGE_LOGS,
        LEARNED_REWARDS,
        MONITOR,
        NEORL2,
        PAPER,
        PID_GAINS,
        PROMISE,
        SET_POINTS,
        SUPPORT,
        TRUST,
    )
}
"""All studies by name."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    given = _parser().parse_args(arguments)
    try:
        given.command(given)
    except NopgError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _pages(given: argparse.Namespace) -> None:
    for name in given.study or STUDIES:
        STUDIES[name].write(given.results)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m studies", description=__doc__)
    commands = parser.add_subparsers(required=True)
    page = commands.add_parser("page", help="write pages and figures from the records")
    page.add_argument("study", nargs="*", choices=[*STUDIES, []], metavar="STUDY", help="all by default")
    page.set_defaults(command=_pages)
    for name, study in STUDIES.items():
        made = commands.add_parser(name, help=study.about, description=study.about)
        study.arguments(made)
        made.add_argument("--workers", default=1, type=int, help="number of processes")
        made.add_argument("--again", action="store_true", help="repeat runs that have a record")
        made.set_defaults(command=study.command)
    for command in commands.choices.values():
        command.add_argument("--results", type=Path, default=FOLDER, help="folder of the records")
    return parser


if __name__ == "__main__":
    sys.exit(main())

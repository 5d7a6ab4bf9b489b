"""Every method on the same data: `python -m studies.paper.baselines --task pendulum-random`."""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from nopg.errors import MissingExtraError, NopgError
from studies.paper._comparison import Entry, read_entries, run_entry, scores
from studies.paper._methods import METHODS
from studies.paper._parallel import installed, run_side_by_side
from studies.paper._scores import Summary, summarize
from studies.paper._tasks import TASKS
from studies.paper.records import Record

__all__ = ["main", "markdown", "table"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, and print the table."""
    options = _parser().parse_args(arguments)
    entries = [
        Entry(
            options.task,
            options.samples,
            method,
            seed,
            options.updates,
            seed < options.fitted_q_trials,
            options.fitted_q_updates,
        )
        for seed in range(options.trials)
        for method in options.methods
    ]
    missing = [entry for entry in entries if options.fresh or not entry.path(options.out).exists()]
    try:
        for number, record in enumerate(_run(missing, options.out, options.workers), start=1):
            told = f"{record['method']}, seed {record['seed']}: {scores(record).last:.1f}"
            _say(f"{number} of {len(missing)}: {told} ({record['wall_seconds']:.0f} s)", sys.stderr)
    except NopgError as error:
        _say(str(error), sys.stderr)
        return 1
    records = read_entries(options.out, options.task, options.samples)
    _say(table(records, options.task), sys.stdout)
    if options.markdown:
        options.markdown.write_text(markdown(options.out))
    return 0


def table(records: Sequence[Record], task: str) -> str:
    """Return the table of one task and size as text."""
    rows = [["method", "last", "IQM of last [95 %]", "best", "selected", "solved", "seconds", "updates"]]
    rows += _rows(records, TASKS[task].solved)
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.rjust(w) if k else cell.ljust(w) for k, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    lines.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join([*lines, "", *_winners(records), *_judgements(records)])


def markdown(folder: Path) -> str:
    """Return the page of all records in a folder."""
    lines = [
        "# Baselines on the same data",
        "",
        "Made by `python -m studies.paper.baselines … --markdown docs/baselines.md` from the records in "
        "`results/baselines`; do not edit. Every method gets the same transitions, but online DDPG, which "
        "acts in the plant (its updates are steps there); nothing is tuned per method beyond the "
        "supplement's settings and each library's defaults. *last* is the controller at "
        "the end of training, what a user gets; *best* is the best of ten snapshots by running them on the "
        "true plant, which nobody can do offline and which the paper reports of its rivals (of itself it "
        "reports the last); *selected* is the snapshot with the highest return by offline evaluation on "
        "the same data. NOPG with our defaults has one snapshot, what `optimize` returns. Returns are means "
        "over seeds; *solved* counts seeds by their last controller.",
        "",
    ]
    for place in sorted(folder.iterdir()):
        task, _, samples = place.name.rpartition("-")
        records = read_entries(folder, task, int(samples))
        if not records:
            continue
        lines += [f"## {task}, {samples} transitions", ""]
        lines += ["| method | last | IQM of last, 95 % | best | selected | solved | seconds | updates |"]
        lines += ["|---|---|---|---|---|---|---|---|"]
        lines += ["| " + " | ".join(row) + " |" for row in _rows(records, TASKS[task].solved)]
        lines += ["", *_winners(records), "", *_judgements(records), ""]
    return "\n".join([*lines, *_applicability()]) + "\n"


def _rows(records: Sequence[Record], solved: float) -> Iterator[list[str]]:
    for name, method in METHODS.items():
        mine = [record for record in records if record["method"] == name]
        if not mine:
            continue
        each = [scores(record) for record in mine]
        last = summarize([score.last for score in each])
        yield [
            method.label,
            f"{last.mean:.1f}",
            _interval(last),
            f"{statistics.fmean(score.best for score in each):.1f}",
            f"{statistics.fmean(score.selected for score in each):.1f}",
            f"{sum(score.last >= solved for score in each)} of {len(each)}",
            f"{statistics.fmean(record['snapshots'][-1]['seconds'] for record in mine):.0f}",
            f"{statistics.fmean(record['snapshots'][-1]['updates'] for record in mine):.0f}",
        ]


def _interval(summary: Summary) -> str:
    low, high = summary.iqm_interval
    return f"{summary.iqm:.1f} [{low:.1f}, {high:.1f}]"


def _winners(records: Sequence[Record]) -> list[str]:
    """Return who came out first by each score, among all and among those that only read data."""
    if not records:
        return []
    told = []
    for score in ("last", "best", "selected"):
        means = {
            name: statistics.fmean(getattr(scores(r), score) for r in records if r["method"] == name)
            for name in METHODS
            if any(r["method"] == name for r in records)
        }
        offline = {name: mean for name, mean in means.items() if METHODS[name].needs != "simulator"}
        first = max(means, key=means.__getitem__)
        words = f"{score}: {METHODS[first].label} ({means[first]:.1f})"
        if offline and first not in offline:
            reader = max(offline, key=offline.__getitem__)
            words += f", of those that only read data {METHODS[reader].label} ({offline[reader]:.1f})"
        told.append(words)
    return [f"Highest mean. {'; '.join(told)}."]


def _judgements(records: Sequence[Record]) -> list[str]:
    """Return how far two judges from data alone are from the true discounted return."""
    both = [record for record in records if record["fitted_q"] is not None]
    if not both:
        return []
    errors = {
        "offline evaluation": [abs(r["snapshots"][-1]["judged"] - r["discounted"]) for r in both],
        "FQE": [abs(r["fitted_q"] - r["discounted"]) for r in both],
    }
    told = "; ".join(f"{name} {statistics.median(values):.1f}" for name, values in errors.items())
    return [
        f"Discounted return of the last controllers from the data alone, median error over {len(both)}: "
        f"{told}."
    ]


def _applicability() -> list[str]:
    """Return the paper's table of what each method can be used on, as the code behaves."""
    lines = [
        "## What each method needs",
        "",
        "| method | unknown behaviour | unconnected transitions | deterministic policies | settings |",
        "|---|---|---|---|---|",
    ]
    for method in METHODS.values():
        offline = "no data: it asks for the plant" if method.needs == "simulator" else ""
        free = "yes" if method.needs == "transitions" else "no"
        lines.append(
            f"| {method.label} | {offline or free} | {offline or free} | "
            f"{'yes' if method.deterministic else 'no'} | {method.source} |"
        )
    return lines


def _run(entries: Sequence[Entry], folder: Path, workers: int) -> Iterator[Record]:
    """Run entries side by side, and yield records as they come."""
    for package in ("d3rlpy", "stable_baselines3"):
        if entries and not installed(package):
            raise MissingExtraError(package, "benchmark")
    yield from run_side_by_side(partial(run_entry, folder=folder), entries, workers=workers)


def _say(text: str, stream: Any) -> None:
    stream.write(text + "\n")
    stream.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m studies.paper.baselines", description=__doc__)
    parser.add_argument("--task", choices=sorted(TASKS), default="pendulum-random")
    parser.add_argument("--samples", type=int, default=1_000, help="logged transitions")
    parser.add_argument("--trials", type=int, default=3, help="seeds")
    parser.add_argument(
        "--methods",
        nargs="+",
        choices=list(METHODS),
        default=list(METHODS),
        metavar="METHOD",
        help=f"all by default: {', '.join(METHODS)}",
    )
    parser.add_argument("--updates", type=int, help="of every method instead of its own number")
    parser.add_argument("--fitted-q-trials", type=int, default=1, help="in how many trials FQE judges too")
    parser.add_argument("--fitted-q-updates", type=int, help="of FQE instead of what the discount asks for")
    parser.add_argument("--workers", type=int, default=2, help="trials at a time, one thread each")
    parser.add_argument("--out", type=Path, default=Path("results/baselines"), help="folder of the records")
    parser.add_argument("--fresh", action="store_true", help="run again what is recorded already")
    parser.add_argument("--markdown", type=Path, help="write the page of all records here")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""The page that puts our figures beside the paper's."""

from __future__ import annotations

from pathlib import Path

from studies.markdown import table
from studies.paper._catalogue import EXPERIMENTS
from studies.paper._experiment import Experiment
from studies.paper._run import records_of
from studies.records import Record

__all__ = ["page"]

_HEAD = """\
# The paper's experiments

Made by `python -m studies page reproduction` from `results/studies/paper.jsonl`; do not edit. Every
experiment is one command: it runs the trials that have no record yet, draws the figure, and prints the
findings. `python -m studies.paper NAME` sets nothing: it trains with the defaults of `optimize`.
`python -m studies.paper NAME --faithful` takes the paper's model with the supplement's settings. The stored
records of NOPG with our defaults were made before the local model was introduced and will be re-run. Returns
are of the last controller of a training; of DDPG and PWIS, as in the paper, of the best one on the way, which
nobody can know without running them all. Intervals are 95 % bootstrap intervals of the mean over trials.
Seconds are CPU seconds of one trial, training and evaluation, on one thread.
"""


def page(folder: Path, figures: str) -> str:
    """Return the page of all records in a folder.

    Args:
        folder: Folder of the records.
        figures: Where the figures are, as seen from the page.
    """
    records = {name: records_of(name, folder) for name in EXPERIMENTS}
    overview = [
        (f"[{name}](#{_anchor(experiment)})", finding.claim, finding.found, _emphasised(finding.verdict))
        for name, experiment in EXPERIMENTS.items()
        for finding in experiment.findings(records[name])
    ]
    lines = [_HEAD, "## In short", "", *table(("experiment", "must be", "found", "verdict"), overview)]
    for name, experiment in EXPERIMENTS.items():
        lines += ["", *_section(experiment, records[name], figures)]
    return "\n".join(lines) + "\n"


def _section(experiment: Experiment, records: list[Record], figures: str) -> list[str]:
    place = f"{experiment.place} of the paper. " if experiment.place else ""
    lines = [f"## {experiment.title}", "", f"{place}*{experiment.claim}*", ""]
    lines += [f"`python -m studies.paper {experiment.name}`{_cost(records)}", ""]
    if records and experiment.has_figure:
        lines += [f"![{experiment.title}]({figures}/{experiment.name}.png)", ""]
    lines += experiment.tables(records)
    if experiment.deviations:
        lines += ["", "Differences from the paper's set-up:", ""]
        lines += [f"{number}. {text}" for number, text in enumerate(experiment.deviations, start=1)]
    return lines


def _cost(records: list[Record]) -> str:
    if not records:
        return ", not run yet"
    hours = sum(record.cpu_seconds for record in records) / 3600
    return f": {len(records)} trials, {hours:.1f} CPU hours"


def _anchor(experiment: Experiment) -> str:
    kept = "".join(letter for letter in experiment.title.lower() if letter.isalnum() or letter in " -")
    return kept.replace(" ", "-")


def _emphasised(verdict: str) -> str:
    return f"**{verdict}**" if verdict.startswith(("missed", "not")) else verdict

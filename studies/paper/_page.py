"""The page that puts our figures beside the paper's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from studies.paper._catalogue import EXPERIMENTS
from studies.paper._experiment import Experiment
from studies.records import Record, last_of_each
from studies.study import table

_HEAD = """\
# The paper's experiments

Made by `python -m studies page paper` from `results/studies/paper.jsonl`; do not edit. Every
experiment is one command, which makes the runs that have no record yet.
NOPG-D trains a deterministic, NOPG-S a Gaussian policy, in three ways:

- **default model** (`--mode ours`): `optimize(data, discount)`, local polynomials and a multi-step equation;
- **paper's model** (`--mode paper`): `optimize(data, discount, model="paper")`, nothing else set; records at
  155a069 and e0a0952 have the present prior mass and bandwidths, at 4b9ba1b β = 10⁻⁶ and narrower actions;
- **supplement's settings** (`--mode faithful`): the paper's model, bandwidths of single columns by the
  cross-validation of the authors' released code times the supplement's factors, raw inputs, all its updates,
  β = 0. The supplement does not say to what the variance of NOPG-S is decayed, nor how many entries per row
  are kept; we keep the variance, and all entries but 10⁻³ of their weights.

A cell is the mean return over the trials ± half of its 95 % bootstrap interval, and how many trials solved
the task. Returns are of the last controller of a training; of DDPG and PWIS, as in the paper, of the best one
on the way, which nobody can know without running them all. CPU seconds are those of one trial at the smallest
and the largest size, on one thread. A section lists the commits that made its records; where there are
several, the older records have not been made again yet. The paper's plants are development plants.
"""


def records_of(experiment: str, records: Sequence[Record]) -> list[Record]:
    """Return the last record of every run of an experiment, by options, method, size and seed."""
    found = [record for record in last_of_each(records) if record.benchmark == experiment]
    return sorted(found, key=lambda record: (record.run[-1], *record.run[:-1]))


def page(every: Sequence[Record]) -> str:
    """Return the page of the paper's experiments from all records."""
    records = {name: records_of(name, every) for name in EXPERIMENTS}
    overview = [
        (f"[{name}](#{_anchor(experiment)})", finding.claim, finding.found, _emphasised(finding.verdict))
        for name, experiment in EXPERIMENTS.items()
        for finding in experiment.findings(records[name])
    ]
    lines = [_HEAD, "## In short", "", *table(("experiment", "must be", "found", "verdict"), overview)]
    for name, experiment in EXPERIMENTS.items():
        lines += ["", *_section(experiment, records[name])]
    return "\n".join(lines) + "\n"


def _section(experiment: Experiment, records: list[Record]) -> list[str]:
    lines = [f"## {experiment.title}", "", f"{experiment.place} of the paper. *{experiment.claim}*", ""]
    lines += [f"`python -m studies paper {experiment.name}`{_cost(records)}", ""]
    if records:
        lines += [f"![{experiment.title}](../../docs/figures/{experiment.name}.png)", ""]
    lines += experiment.tables(records)
    if experiment.deviations:
        lines += ["", "Differences from the paper's set-up:", ""]
        lines += [f"{number}. {text}" for number, text in enumerate(experiment.deviations, start=1)]
    return lines


def _cost(records: list[Record]) -> str:
    if not records:
        return ", not run yet"
    hours = sum(record.cpu_seconds for record in records) / 3600
    commits = Counter(record.commit.split(",")[0][:7] for record in records)
    made = ", ".join(f"{count} at {commit}" for commit, count in commits.most_common())
    return f": {len(records)} trials, {hours:.1f} CPU hours; commit: {made}"


def _anchor(experiment: Experiment) -> str:
    kept = "".join(letter for letter in experiment.title.lower() if letter.isalnum() or letter in " -")
    return kept.replace(" ", "-")


def _emphasised(verdict: str) -> str:
    return f"**{verdict}**" if verdict.startswith(("missed", "not")) else verdict

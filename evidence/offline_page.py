"""The page on offline evaluation, from the records of `evidence.offline_study`.

python -m evidence.offline_page [--markdown docs/offline-evaluation.md]
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evidence.offline_study import DATASETS, POLICY_SIZE, RISK_SIZE, RISK_STEPS, SIZES, read
from evidence.offline_tasks import NUM_POLICIES, TASKS
from nopg.evaluation import policy_metrics, standard_error
from nopg.evaluation import verdict_of as gate

Row = Mapping[str, Any]
_Z = 1.96
_OFF = 0.2
_ENOUGH = 10
CHOSEN_ON = 36


def error_of(row: Row) -> float:
    """Return the standard error as `OfflineEvaluation` has it."""
    return standard_error(row["return"], row["halves"], row["chance"], row["tail"], floor=True)


def covered(row: Row) -> bool:
    """Return whether the truth lies in the interval."""
    return bool(abs(row["return"] - row["truth"]) <= _Z * error_of(row))


def is_ok(row: Row) -> bool:
    """Return whether the gate says `ok`."""
    return gate(row["unknown"], error_of(row), row["range"], episodes=row["episodes"])[0] == "ok"


def relative_error(row: Row) -> float:
    """Return by which share of itself the truth was missed."""
    return float(abs(row["return"] - row["truth"]) / abs(row["truth"]))


def share(rows: Iterable[bool]) -> str:
    """Return a percentage of how many."""
    found = list(rows)
    return f"{100 * sum(found) / len(found):.0f} % of {len(found)}" if found else "none"


def coverage_lines(rows: Sequence[Row]) -> list[str]:
    """Return the table of coverage and what was wanted of it."""
    cells: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in rows:
        cells[row["task"], row["size"]].append(row)
    lines = [
        "| task | rows | datasets | gate says ok | covered, ok | covered, not ok | error, median |"
        " equation, jackknife | equation, doubly robust |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    worst, hidden = 1.0, []
    for name in TASKS:
        for size in SIZES:
            cell = cells[name, size]
            if not cell:
                continue
            fine, other = [row for row in cell if is_ok(row)], [row for row in cell if not is_ok(row)]
            relative = statistics.median(
                abs(row["return"] - row["truth"]) / abs(row["truth"]) for row in cell
            )
            lines.append(
                f"| {name} | {size} | {len(cell)} | {len(fine)} | {share(map(covered, fine))} | "
                f"{share(map(covered, other))} | {100 * relative:.1f} % | "
                f"{share(_within(row, 'equation') for row in cell)} | "
                f"{share(_within(row, 'robust') for row in cell)} |"
            )
            if len(fine) >= _ENOUGH:
                mean = statistics.mean(map(covered, fine))
                worst = min(worst, mean)
                if mean < 0.8:
                    hidden.append(f"{name} {size}")
    fine = [row for row in rows if is_ok(row)]
    pooled = statistics.mean(map(covered, fine))
    first, second = (
        share(covered(row) for row in fine if (row["seed"] < CHOSEN_ON) == early) for early in (True, False)
    )
    lines += [
        "",
        f"Pooled over all answers that the gate calls ok: {100 * pooled:.1f} % of {len(fine)} (wanted: 90 to "
        f"98 %). The factor and the gate were chosen on the first {CHOSEN_ON} datasets: {first}; "
        f"the later ones: {second}. The least in a cell of at least {_ENOUGH} ok answers: "
        f"{100 * worst:.0f} % (wanted: 85 %). "
        + (f"Ok and under 80 %: {', '.join(hidden)}." if hidden else "No such cell is under 80 %."),
    ]
    return lines


def _within(row: Row, name: str) -> bool:
    return bool(abs(row[name] - row["truth"]) <= _Z * row[f"{name}_error"])


def policy_lines(rows: Sequence[Row]) -> list[str]:
    """Return the comparison with other estimators, task by task, and who is best."""
    names = list(rows[0]["estimates"])
    lines = ["| task | metric | " + " | ".join(names) + " |", "|---|---|" + "---|" * len(names)]
    best: dict[str, int] = defaultdict(int)
    tasks = [name for name in TASKS if any(row["task"] == name for row in rows)]
    for task in tasks:
        mine = [row for row in rows if row["task"] == task]
        truths = [row["truth"] for row in mine]
        found = {name: policy_metrics([row["estimates"][name] for row in mine], truths) for name in names}
        for metric, what, higher in (
            ("absolute_error", "absolute error", False),
            ("rank_correlation", "rank correlation", True),
            ("regret", "regret@1", False),
        ):
            values = [getattr(found[name], metric) for name in names]
            top = max(values) if higher else min(values)
            cells = [f"**{value:.2f}**" if abs(value - top) < 0.005 else f"{value:.2f}" for value in values]
            lines.append(f"| {task} | {what} | " + " | ".join(cells) + " |")
            if abs(values[0] - top) < 0.005:
                best[what] += 1
    counts = ", ".join(
        f"{what} {best[what]} of {len(tasks)}" for what in ("absolute error", "rank correlation", "regret@1")
    )
    return [*lines, "", f"Imagined paths are best or tied (to .005): {counts} (wanted: 4 of 6)."]


def detector(rows: Sequence[Row]) -> str:
    """Return how well the unknown mass, alone or with the error, tells answers that are off by a fifth."""
    wrong = [row for row in rows if relative_error(row) > _OFF]
    alone = _area(rows, lambda row: float(row["unknown"]))
    both = _area(rows, lambda row: row["unknown"] + 4.0 * error_of(row) / (row["range"] or 1.0))
    verdict = _area(rows, lambda row: 0.0 if is_ok(row) else 1.0)
    unseen = sum(row["unknown"] <= 0.05 for row in wrong)
    spared = [row for row in rows if relative_error(row) <= _OFF and row["unknown"] > 0.05]
    return (
        f"{len(wrong)} of {len(rows)} answers were off by more than 20 %. The area under the curve of the "
        f"unknown mass as their detector is {alone:.2f} (wanted: .9"
        + (", **missed**" if alone < 0.9 else "")
        + "); with four times the standard error, in units of the range of returns, added to it "
        f"{both:.2f}; of the verdict {verdict:.2f}. Two things limit it: {unseen} of the wrong answers stay "
        "inside the data, where too few episodes or noise are what is wrong, and the error says so, not "
        f"the unknown mass; and {len(spared)} answers are right although more than 5 % of their weight lies "
        "where no row is, because the plant goes on there as it does at the edge. Nobody could know that "
        "beforehand."
    )


def _area(rows: Sequence[Row], score: Callable[[Row], float]) -> float:
    """Return the area under the curve of a score as a detector of answers that are off by a fifth."""
    wrong = [score(row) for row in rows if relative_error(row) > _OFF]
    right = [score(row) for row in rows if relative_error(row) <= _OFF]
    above = sum((w > r) + 0.5 * (w == r) for w in wrong for r in right)
    return above / max(len(wrong) * len(right), 1)


def risk_lines(rows: Sequence[Row]) -> list[str]:
    """Return how often the truth lay between the bounds."""
    lines = [
        "| task | identifiable | truth inside | widest bounds | smallest upper end |",
        "|---|---|---|---|---|",
    ]
    for name in TASKS:
        mine = [row for row in rows if row["task"] == name]
        known = [row for row in mine if row["verdict"] != "not identifiable"]
        if not mine:
            continue
        inside = share(row["low"] <= row["truth"] <= row["high"] for row in known)
        widest = max((row["high"] - row["low"] for row in known), default=math.nan)
        smallest = min(row["high"] for row in mine)
        lines.append(f"| {name} | {len(known)} of {len(mine)} | {inside} | {widest:.2f} | {smallest:.3f} |")
    known = [row for row in rows if row["verdict"] != "not identifiable"]
    inside = share(row["low"] <= row["truth"] <= row["high"] for row in known)
    return [*lines, "", f"All identifiable cases: {inside} (wanted: 95 %). No upper end is 0."]


def cost_lines(rows: Sequence[Row]) -> list[str]:
    """Return what error bars cost."""
    lines = [
        "| task | rows | products for the interval | 100 draws, in solves | deviation | standard error |",
        "|---|---|---|---|---|---|",
    ]
    return lines + [
        f"| {row['task']} | {row['size']} | {row['products']} | {row['bootstrap_in_solves']:.1f} | "
        f"{row['bootstrap_deviation']:.3g} | {row['standard_error']:.3g} |"
        for row in rows
    ]


_PAGE = """\
# How far answers from data alone can be trusted

Made by `python -m evidence.offline_page` from `results/offline`; do not edit. Six plants whose truth is
known by running them: two regulators, pendulum, cart-pole, mountain car, two tanks. Every plant adds noise to
the actions that nobody logs. Logs are episodes of a noisy controller; the policies asked about are {policies}
per plant, from good ones to ones that run away. Truth: 400 episodes on the plant from the starts of the log.

## Does the interval hold what it says?

The policy goes round with the dataset; {datasets} datasets per row of the table are wanted, it has what was
run so far. An answer took {seconds:.1f} s of CPU time (median). The last two columns are intervals of the
paper's equation on the same data: Ĵ with the infinitesimal jackknife, which knows variance but not the
smoothing of the equation, and the doubly-robust value, which takes out a part of it.

{coverage}

## Does the unknown mass tell which answers are wrong?

{detector}

## Against other estimators

One dataset of {policy_size} rows per task, all policies. Errors and regrets are in units of the range of the
true returns. FQE is d3rlpy's with two layers of 64 and 5 000 updates. Importance sampling is per decision and
weighted; the log's density is known here, and a policy that is deterministic is given half the log's noise,
since it has no density otherwise.

{rivals}

## Risks

The probability of entering a region within {risk_steps} steps, {risk_size} rows.

{risks}

## What error bars of the equation cost

{cost}
"""


def page() -> str:
    """Return the page."""
    coverage, policies, risks, cost = (read(name) for name in ("coverage", "policies", "risks", "cost"))
    return _PAGE.format(
        policies=NUM_POLICIES,
        datasets=DATASETS,
        seconds=statistics.median(row["cpu_seconds"] for row in coverage),
        coverage="\n".join(coverage_lines(coverage)),
        detector=detector(coverage),
        policy_size=POLICY_SIZE,
        rivals="\n".join(policy_lines(policies)),
        risk_steps=RISK_STEPS,
        risk_size=RISK_SIZE,
        risks="\n".join(risk_lines(risks)),
        cost="\n".join(cost_lines(cost)),
    )


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--markdown", type=Path, default=Path("docs/offline-evaluation.md"))
    options = parser.parse_args()
    options.markdown.write_text(page(), encoding="utf-8")
    print(f"page: {options.markdown}")


if __name__ == "__main__":
    main()

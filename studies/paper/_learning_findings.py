"""What the records of the learning studies say of the paper's claims and of ours."""

from __future__ import annotations

from collections.abc import Sequence

from studies.paper._experiment import MODE_WORDS, MODES, Finding
from studies.paper._learning import LearningStudy, fewest_trials, means_of, own_or_recorded, score_of
from studies.paper._methods import LABELS
from studies.records import Record

_BEST_POLICY, _TRIALS = -369.0, 10
_NOPG = ("nopg-d", "nopg-s")
# Trials that must be solved, from this number of transitions or fewer.
_WANTED = {"pendulum-random": (8, 3_000), "cart-pole": (9, 1_500)}


def grid_findings(study: LearningStudy, records: Sequence[Record]) -> list[Finding]:
    """Return whether the paper's means are beaten, and the best policy is reached."""
    found = [_against_the_paper(study, records, method) for method in _NOPG]
    for method in _NOPG:
        mine = [r for r in own_or_recorded(records, "ours", method) if r.rows >= 450]
        lowest = min(means_of(mine).values(), default=None)
        found.append(
            Finding.of(
                f"{LABELS[method]}: from 450 on within 10 % of {_BEST_POLICY:.0f}, "
                "the best policy for γ = .97",
                "not run" if lowest is None else f"lowest mean {lowest:.0f}",
                done=fewest_trials(mine) >= _TRIALS,
                kept=lowest is not None and lowest >= 1.1 * _BEST_POLICY,
            )
        )
    return found


def car_findings(study: LearningStudy, records: Sequence[Record]) -> list[Finding]:
    """Return whether demonstrators and the paper's means are beaten."""
    found = []
    for method in _NOPG:
        mine = [r for r in own_or_recorded(records, "ours", method) if r.rows >= 2]
        beaten = sum(score_of(r) > r.results["demonstrator"] for r in mine)
        found.append(
            Finding.of(
                f"{LABELS[method]}, own demonstrations: above its demonstrator in every trial from 2 on",
                f"{beaten} of {len(mine)}" if mine else "not run",
                done=fewest_trials(mine) >= _TRIALS,
                kept=beaten == len(mine),
            )
        )
        found += [
            _against_the_paper(study, records, method, whose=f", {whose} demonstrations", recorded=recorded)
            for whose, recorded in (("own", False), ("the paper's", True))
        ]
    return found


def random_findings(study: LearningStudy, records: Sequence[Record]) -> list[Finding]:
    """Return from how many transitions on NOPG solves the task, and how many its rivals need."""
    (wanted, most), found, fewest = _WANTED[study.name], [], dict[str, int]()
    for method in _NOPG:
        counts = _solved(study, own_or_recorded(records, "ours", method))
        enough = [size for size, (won, of) in counts.items() if of >= _TRIALS and won >= wanted]
        if enough:
            fewest[method] = min(enough)
        found.append(
            Finding.of(
                f"{LABELS[method]}: solved in {wanted} of 10 trials from {most} transitions or fewer",
                ", ".join(f"{size}: {won} of {of}" for size, (won, of) in counts.items()) or "not run",
                done=any(of >= _TRIALS for _, of in counts.values()),
                kept=fewest.get(method, most + 1) <= most,
            )
        )
    for method in ("ddpg-offline", "pwis", "ddpg-online"):
        mine = own_or_recorded(records, "ours", method)
        planned = sum(len(curve.sizes) * curve.trials for curve in study.curves if curve.method == method)
        claim = f"{LABELS[method]} needs more than ten times the samples of NOPG-D"
        shown, verdict = _needs(study, mine, fewest.get("nopg-d")) if mine else ("not run", "")
        found.append(Finding(claim, shown, verdict if len(mine) >= planned else "not run in full"))
    return found


def _against_the_paper(
    study: LearningStudy, records: Sequence[Record], method: str, *, whose: str = "", recorded: bool = False
) -> Finding:
    """Return by settings at how many sizes the mean is above the paper's, and where it is below."""
    papers, sizes = study.paper[method], set(study.curves[0].sizes)
    shown, done, above = [], True, True
    for mode in MODES:
        mine = own_or_recorded(records, mode, method, recorded=recorded)
        means = means_of(mine)
        done = done and set(means) >= sizes and fewest_trials(mine) >= _TRIALS
        lost = [
            f"{size}: {mean:.0f} < {papers[size]:.0f}" for size, mean in means.items() if mean < papers[size]
        ]
        above = above and not lost
        words = f"{len(means) - len(lost)} of {len(means)} sizes" if means else "not run"
        shown.append(f"{MODE_WORDS[mode]}: {words}" + (f" (not {', '.join(lost)})" if lost else ""))
    claim = f"{LABELS[method]}{whose}: mean above the paper's"
    return Finding.of(claim, "; ".join(shown), done=done, kept=above, words=("beaten", "not reproduced"))


def _needs(study: LearningStudy, records: Sequence[Record], ours: int | None) -> tuple[str, str]:
    """Return how many samples a rival needs, by the best snapshot of most trials, and the verdict."""
    if records[0].method == "ddpg-online":
        needed = sorted(_steps_to_solve(study, record) for record in records)
        first, most = needed[len(needed) // 2], records[0].rows
        each = ", ".join(_steps(_steps_to_solve(study, record)) for record in records)
        shown = f"first solved after (steps, one number per trial, of {most}): {each}"
    else:
        counts = _solved(study, records)
        most = max(counts)
        first = min((size for size, (won, of) in counts.items() if won > of / 2), default=float("inf"))
        won = ", ".join(f"{size}: {won} of {of}" for size, (won, of) in counts.items() if won)
        shown = won or f"never, up to {most}"
    if ours is None:
        return shown, "nothing to compare"
    if first == float("inf"):
        verdict = "reproduced" if most > 10 * ours else "beaten as far as run"
        return f"{shown}; more than {most / ours:.0f} times", verdict
    return f"{shown}; {first / ours:.0f} times", "reproduced" if first > 10 * ours else "not reproduced"


def _steps_to_solve(study: LearningStudy, record: Record) -> float:
    """Return after how many steps an online method first solved the task; infinite if never."""
    solved = [e["transitions"] for e in record.results["evaluations"] if e["return"] >= study.task.solved]
    return min(solved, default=float("inf"))


def _steps(number: float) -> str:
    return "never" if number == float("inf") else f"{number:.0f}"


def _solved(study: LearningStudy, records: Sequence[Record]) -> dict[int, tuple[int, int]]:
    """Return size → (trials solved, trials)."""
    found: dict[int, tuple[int, int]] = {}
    for record in sorted(records, key=lambda r: r.rows):
        won, of = found.get(record.rows, (0, 0))
        found[record.rows] = won + (score_of(record) >= study.task.solved), of + 1
    return found

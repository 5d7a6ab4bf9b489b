"""What the records say: how often verdicts and intervals were right, by fault, and what choices cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from nopg.evaluation._comparison import LOGGED
from studies.records import Record, latest
from studies.study import share, table
from studies.trust.faults import FAULTS

Rows = list[tuple[str, ...]]
# Kinds of plants that a linear fit explains, or nearly.
_KINDS = {
    "linear": ("linear",),
    "nearly linear": ("saturating", "coupled", "tank", "bilinear", "unstable"),
    "others": ("pendulum", "duffing", "dead zone", "double integrator", "heat exchanger"),
}
_ERRORS = 2.0  # standard errors of the truth by which an interval is widened
_HEADS = (
    "answers",
    "`ok`",
    "`ok` and wrong",
    "`ok` and wrong, new starts",
    "weak and wrong",
    "not identifiable",
    "refused logs",
)


def inside(record: Record, *, new: bool = False) -> bool:
    """Tell whether a truth lies within the interval, widened by two standard errors of the truth."""
    low, high = record.summary["interval"]
    truth = record.results["from_new_starts"] if new else record.discounted
    error = record.results["new_error"] if new else record.standard_error
    if truth is None:  # the run diverged
        return False
    slack = _ERRORS * (error or 0.0) + 1e-9 * abs(truth)
    return bool(
        (-math.inf if low is None else low) - slack <= truth <= (math.inf if high is None else high) + slack
    )


def _tables(records: Sequence[Record]) -> list[tuple[str, tuple[str, ...], Rows]]:
    """Return title, heads and rows of every table."""
    found = []
    for role in ("development", "report"):
        every = [record for record in records if record.role == role]
        if not every:
            continue
        found += [
            (f"Verdicts by fault, {role} seeds", ("fault", "controllers", *_HEADS), _by_fault(every)),
            (
                f"Coverage of `ok` answers without a fault by episodes, {role} seeds",
                ("episodes", "controllers", "`ok`", "inside", "inside, new starts"),
                _by_episodes(every),
            ),
            (
                f"Intervals that hold, called `not identifiable`, {role} seeds, no fault",
                ("plants", "controller", "intervals that hold", "of these `not identifiable`"),
                _unidentified(every),
            ),
            (
                f"Choices, {role} seeds",
                (
                    "fault",
                    "logs",
                    "mean regret",
                    "no candidate is better than the log",
                    "regret over .5",
                    "worse than the log",
                    "of these named as no sure gain",
                    "worse, and another was better",
                ),
                _choices(every),
            ),
        ]
    return found


def page(records: Sequence[Record]) -> str:
    """Return the page from all records of the study."""
    records = latest(records, lambda record: (record.seed, *sorted(map(str, record.options.items()))))
    lines = [
        "# Verdicts on random plants and faulty logs",
        "",
        "Made by `python -m studies page trust` from `results/studies/trust.jsonl`; the runs by `python -m",
        "studies trust --role development --seeds 40 --policies given --fault none` and alike.",
        "",
        "Each seed draws a plant of ten kinds, a reward, a discount, noise, a logging controller, rows and",
        "episodes; a fault changes one thing of it. A default of the library may be chosen by development",
        "seeds (0 to 999) alone; report seeds begin at 10 000. Given controllers are the logging one without",
        "exploration, the same with another gain, a stranger to the log, and least squares with LQR; trained",
        "is what `nopg.optimize` returns with defaults. The truth is the mean discounted return of at least",
        "400 simulated paths from the starts of the log with their hidden states, or from new starts. An",
        f"answer is wrong if the truth is outside its interval widened by {_ERRORS:g} standard errors of the",
        "truth. New starts of a drifting plant are after the end of the log.",
        "",
    ]
    for title, heads, rows in _tables(records):
        lines += [f"## {title}", "", *(table(heads, rows) if rows else ["No records yet."]), ""]
    lines += ["## Wrong `ok` answers without a fault", "", *_misses(records), "", "## Faults", ""]
    lines += [f"- `{name}`: {(fault.__doc__ or '').splitlines()[0]}" for name, fault in FAULTS.items()]
    return "\n".join([*lines, "", "## Versions", "", *_versions(records), ""])


def _answers(records: Iterable[Record]) -> list[Record]:
    return [record for record in records if "refused" not in record.summary]


def _by_fault(records: Sequence[Record]) -> Rows:
    rows: Rows = []
    for fault, policies, some in _groups(records):
        answers = _answers(some)
        ok, weak = _of(answers, "ok"), _of(answers, "weak")
        rows.append(
            (
                fault,
                policies,
                str(len(answers)),
                _percent(len(ok), len(answers)),
                _wrong(ok),
                _wrong(ok, new=True),
                _wrong(weak),
                str(len(_of(answers, "not identifiable"))),
                str(len(some) - len(answers)),
            )
        )
    return rows


def _groups(records: Sequence[Record]) -> list[tuple[str, str, list[Record]]]:
    """Return the records by fault, recordings apart, and by kind of controllers; without empty groups."""
    found: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        found.setdefault((_fault(record), record.options["policies"]), []).append(record)
    order = {name: k for k, name in enumerate(FAULTS)}

    def place(key: tuple[str, str]) -> tuple[Any, ...]:
        return ", recording" in key[0], order[key[0].split(",")[0]], key[0], key[1]

    return [(*key, found[key]) for key in sorted(found, key=place)]


def _fault(record: Record) -> str:
    options = record.options
    parts = [str(options["fault"]), "recording" if options["recording"] else ""]
    # None of them in the log: nothing in it can tell.
    parts += ["none in the log" if record.results.get("facts", {}).get("kicks") == 0 else ""]
    parts += [f"{options['episodes']} episodes" if options["episodes"] else "", str(options["pattern"])]
    return ", ".join(part for part in parts if part)


def _by_episodes(records: Sequence[Record]) -> Rows:
    found: dict[tuple[int, str], list[Record]] = {}
    for record in _of(_answers(records), "ok"):
        if record.options["fault"] == "none":
            key = (record.results["facts"]["episodes"], record.options["policies"])
            found.setdefault(key, []).append(record)
    return [
        (str(episodes), policies, str(len(ok)), _share(ok, inside), _share(ok, _inside_new))
        for (episodes, policies), ok in sorted(found.items())
    ]


def _unidentified(records: Sequence[Record]) -> Rows:
    """Return how often known controllers of known plants are refused in vain."""
    some = [
        one for one in _answers(records) if one.options["fault"] == "none" and not one.options["recording"]
    ]
    rows: Rows = []
    for name, kinds in _KINDS.items():
        for method in ("logger", "lqr"):
            holds = [
                one for one in some if (one.benchmark in kinds, one.method) == (True, method) and inside(one)
            ]
            if holds:
                rows.append(
                    (name, method, str(len(holds)), _percent(len(_of(holds, "not identifiable")), len(holds)))
                )
    return rows


def _choices(records: Sequence[Record]) -> Rows:
    rows: Rows = []
    for fault, _, some in _groups(records):
        every = [record.results for record in some if "regret" in record.results]
        if every:
            none = [one for one in every if one["regret"] is None]
            regrets = np.array([one["regret"] for one in every if one["regret"] is not None])
            worse = [one for one in every if _value(one, one["chosen"]) < _value(one, LOGGED)]
            missed = [one for one in worse if one["regret"] is not None]
            warned = [one for one in worse if one["gains"][one["chosen"]][0] <= 0]
            mean = f"{regrets.mean():.3f}" if len(regrets) else ""
            counts = (len(none), int((regrets > 0.5).sum()), len(worse), len(warned), len(missed))
            rows.append((fault, str(len(every)), mean, *map(str, counts)))
    return rows


def _value(one: Any, name: str) -> float:
    return _number(one["candidates"][name])


def _number(value: float | None) -> float:
    return -math.inf if value is None else value


def _misses(records: Sequence[Record]) -> list[str]:
    heads = (
        "role",
        "fault",
        "seed",
        "plant",
        "controller",
        "rows",
        "episodes",
        "interval",
        "truth",
        "new starts",
    )
    rows = []
    for record in records:
        if "refused" in record.summary or record.options["fault"] != "none":
            continue
        if record.summary["verdict"] != "ok" or inside(record):
            continue
        low, high = (math.nan if end is None else end for end in record.summary["interval"])
        facts = record.results["facts"]
        counts = (str(record.rows), str(facts["episodes"]), f"[{low:.4g}, {high:.4g}]")
        truths = (f"{record.true_return:.4g}", f"{_number(record.results['from_new_starts']):.4g}")
        name = (record.role, _fault(record), str(record.seed), record.benchmark, record.method)
        rows.append((*name, *counts, *truths))
    return table(heads, sorted(rows)) if rows else ["None."]


def _versions(records: Sequence[Record]) -> list[str]:
    rows = []
    for role in ("development", "report"):
        for policies in ("given", "trained"):
            some = [r for r in records if (r.role, r.options["policies"]) == (role, policies)]
            if some:
                seconds = float(np.median([record.cpu_seconds for record in some]))
                rows.append((role, policies, ", ".join(sorted({r.commit for r in some})), f"{seconds:.1f}"))
    return table(("seeds", "controllers", "commits", "median CPU seconds per answer"), rows)


def _of(records: Sequence[Record], verdict: str) -> list[Record]:
    return [record for record in records if record.summary["verdict"] == verdict]


def _inside_new(record: Record) -> bool:
    return inside(record, new=True)


def _share(records: Sequence[Record], holds: Callable[[Record], bool]) -> str:
    return share(sum(holds(record) for record in records), len(records))


def _wrong(records: Sequence[Record], *, new: bool = False) -> str:
    return _percent(sum(not inside(record, new=new) for record in records), len(records))


def _percent(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole:.0%})" if whole else ""

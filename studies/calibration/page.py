"""The page of the study: coverage, lower ends and warnings, each figure beside its target."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, get_args

import numpy as np

from studies.calibration.cells import CELLS, Cell, Policies, Role
from studies.calibration.statistics import Score, Share, area_under_curve
from studies.records import Record, latest
from studies.study import table

_OFF = 0.2  # an answer is wrong if it is off by more than this share of the range of returns
_FEWEST, _LEAST = 20, 0.85  # a cell with this many `ok` answers must cover this share
_TARGETS = {"given": "92 to 98 %", "trained": "90 to 98 %"}
_KNOWN = {"expected_return", "standard_error", "unknown_mass", "pessimistic_return"}
_KNOWN |= {"return_range", "logged_return"}


def page(records: Sequence[Record]) -> str:
    """Return the page from all records of the study."""
    known = latest(records, lambda record: (record.run[1], *record.run[3::2]))
    every = [record for record in known if "refused" not in record.summary]
    refused = len(known) - len(every)
    return "\n".join(
        [
            "# How often the evaluator is right",
            "",
            *_introduction(refused),
            "",
            "## Coverage of `ok` answers",
            "",
            *_coverage(every),
            "",
            "## Lower end of trained controllers",
            "",
            *_lower_ends(every),
            "",
            "## Warnings",
            "",
            *_warnings(every),
            "",
            "## Cells",
            "",
            *_cells(every),
            "",
            "## `ok` answers outside their interval",
            "",
            *_misses(every),
            "",
            "## Versions",
            "",
            *_versions(every),
            "",
        ]
    )


def _introduction(refused: int) -> list[str]:
    counts = {role: len({c.plant_name for c in CELLS if c.role == role}) for role in get_args(Role)}
    return [
        "Made by `python -m studies page calibration` from `results/studies/calibration.jsonl`; the runs by",
        "`python -m studies.calibration --role report --policies given --logs 100` and alike.",
        "",
        f"The evaluator may be developed on {counts['development']} plants. The other {counts['report']} are",
        "for the report alone: plants, cells and policies were fixed before any figure of theirs was seen.",
        "One log of each had been evaluated without a look at the answers, to see that it runs, and logs of",
        "`room-heating` and `two-rotors` to measure the time, after which these two got other row numbers",
        "and logs of one episode fewer starts. A truth is the mean discounted return of simulated episodes",
        f"from the starts of the log, 600 or so where the plant is noisy. Logs that were refused: {refused}.",
    ]


def _coverage(records: Sequence[Record]) -> list[str]:
    rows = []
    for role, policies, chosen in _groups(records):
        ok = [record for record in chosen if record.summary["verdict"] == "ok"]
        bad = [name for name, share in _cell_shares(ok).items() if share.total >= _FEWEST and _low(share)]
        rows.append(
            (
                role,
                policies,
                str(len(chosen)),
                f"{Share(len(ok), len(chosen)).value:.0%}",
                str(_share(ok, _inside)),
                _TARGETS[policies],
                str(_share(ok, _inside_new)),
                "none" if not bad else f"{len(bad)}: {'; '.join(bad)}",
            )
        )
    heads = ("plants", "policies", "answers", "`ok` said", "truth inside", "target", "from new starts")
    return [
        *table((*heads, f"cells under {_LEAST:.0%} (none allowed)"), rows),
        "",
        "Shares with 95 % intervals of Clopper and Pearson, which take answers on one log as independent.",
        '"From new starts" compares with the return from other starts of the same distribution: an answer',
        f"is about the starts of its log. Cells count from {_FEWEST} `ok` answers.",
    ]


def _lower_ends(records: Sequence[Record]) -> list[str]:
    rows = []
    for role, policies, chosen in _groups(records):
        if policies == "trained":
            ok = [record for record in chosen if record.summary["verdict"] == "ok"]
            rows.append((role, str(len(chosen)), *(str(_share(some, _too_high)) for some in (chosen, ok))))
    if not rows:
        return ["No records yet."]
    return table(("plants", "logs", "lower end above the truth (target ≤ 5 %)", "of `ok` answers"), rows)


def _warnings(records: Sequence[Record]) -> list[str]:
    names = _warning_names(records)
    fitted = [record for record in records if record.role == "development"]
    wrong = np.array([_off(record) for record in fitted], dtype=bool)
    score = Score.fit(_values(fitted, names), wrong) if wrong.any() and not wrong.all() else None
    rows = []
    for role, policies, chosen in _groups(records):
        off, values = [_off(record) for record in chosen], _values(chosen, names)
        areas = [area_under_curve(column, off) for column in values.T]
        areas.append(math.nan if score is None else area_under_curve(score(values), off))
        rows.append((role, policies, f"{sum(off)} of {len(off)}", *(_figure(area) for area in areas)))
    weights = (
        "" if score is None else ", ".join(f"{n} {w:.2f}" for n, w in zip(names, score.weights, strict=True))
    )
    return [
        f"Area under the ROC curve with which a value finds answers off by more than {_OFF:.0%} of the range",
        "of returns that logged rewards allow. The combination is logistic in the logarithms of the values,",
        f"fitted to development records alone (weights: {weights or 'none, no such answers'}).",
        "",
        *table(("plants", "policies", "wrong answers", *names, "combination (target ≥ .93)"), rows),
    ]


def _cells(records: Sequence[Record]) -> list[str]:
    rows = []
    for cell in CELLS:
        for policies in get_args(Policies):
            chosen = [r for r in records if _cell_name(r) == cell.name and r.options["policies"] == policies]
            ok = [record for record in chosen if record.summary["verdict"] == "ok"]
            share = _share(ok, _inside)
            mark = " **low**" if share.total >= _FEWEST and _low(share) else ""
            if chosen or policies == "given":
                counts = (str(len(chosen)), str(len(ok)), f"{share}{mark}", str(_share(chosen, _inside)))
                rows.append((*_description(cell), policies, *counts))
    heads = ("plant", "role", "logged by", "rows", "γ", "noise", "policies", "answers", "`ok`")
    return table((*heads, "truth inside, `ok`", "truth inside, all"), rows)


def _description(cell: Cell) -> tuple[str, ...]:
    plant = cell.plant
    noise = [
        name for name, sizes in (("state", plant.process_noise), ("sensors", plant.sensor_noise)) if sizes
    ]
    rows = f"{cell.rows} in {f'episodes of {cell.steps}' if cell.steps else 'one episode'}"
    return (plant.name, cell.role, cell.behaviour, rows, f"{cell.discount:g}", ", ".join(noise) or "none")


def _misses(records: Sequence[Record]) -> list[str]:
    """Return a table of the cells and kinds of policies whose `ok` answers missed."""
    found: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        if record.summary["verdict"] == "ok":
            found.setdefault((record.role, _cell_name(record), record.method), []).append(record)
    rows = []
    for (role, cell, method), ok in sorted(found.items()):
        outside = [record for record in ok if not _inside(record)]
        if outside:
            much = sum(_error(record) > 0 for record in outside)
            sizes = [abs(_error(record)) / max(abs(record.true_return), 1e-12) for record in outside]
            counts = (f"{len(outside)} of {len(ok)}", f"{much} / {len(outside) - much}")
            rows.append((role, cell, method, *counts, f"{np.median(sizes):.0%}"))
    heads = ("plants", "cell", "policy", "outside", "promised too much / too little")
    return table((*heads, "median error over truth"), rows) if rows else ["None."]


def _versions(records: Sequence[Record]) -> list[str]:
    rows = []
    for role, policies, chosen in _groups(records):
        commits = sorted({record.commit for record in chosen})
        seconds = float(np.median([record.cpu_seconds for record in chosen]))
        rows.append((role, policies, ", ".join(commits), f"{seconds:.1f}"))
    return table(("plants", "policies", "commits", "median CPU seconds per answer"), rows)


def _groups(records: Sequence[Record]) -> list[tuple[str, str, list[Record]]]:
    """Return the records by role and kind of policies, without empty groups."""
    found = [
        (role, kind, [r for r in records if r.role == role and r.options["policies"] == kind])
        for role in get_args(Role)
        for kind in get_args(Policies)
    ]
    return [group for group in found if group[2]]


def _cell_shares(records: Sequence[Record]) -> dict[str, Share]:
    names = dict.fromkeys(_cell_name(record) for record in records)
    return {name: _share([r for r in records if _cell_name(r) == name], _inside) for name in names}


def _cell_name(record: Record) -> str:
    values = {name: record.options[name] for name in ("behaviour", "steps", "discount")}
    return Cell(plant_name=record.benchmark, rows=record.rows, **values).name


def _share(records: Sequence[Record], holds: Callable[[Record], bool]) -> Share:
    return Share(sum(holds(record) for record in records), len(records))


def _low(share: Share) -> bool:
    return share.value < _LEAST


def _ends(record: Record) -> tuple[float, float]:
    """Return the interval; an end that is no number is infinite."""
    low, high = record.summary["interval"]
    return -math.inf if low is None else low, math.inf if high is None else high


def _inside(record: Record) -> bool:
    low, high = _ends(record)
    return low <= record.true_return <= high


def _inside_new(record: Record) -> bool:
    low, high = _ends(record)
    return bool(low <= record.results["from_new_starts"] <= high)


def _too_high(record: Record) -> bool:
    return _ends(record)[0] > record.true_return


def _error(record: Record) -> float:
    return float(record.summary["expected_return"]) - record.true_return


def _off(record: Record) -> bool:
    return abs(_error(record)) > _OFF * float(record.summary["return_range"])


def _warning_names(records: Sequence[Record]) -> list[str]:
    """Return the warning values: the two of the verdict, and further numbers of all evaluations."""
    further = [
        {name for name, value in record.summary.items() if isinstance(value, (int, float))} - _KNOWN
        for record in records
    ]
    return ["unknown mass", "standard error", *sorted(set.intersection(*further) if further else ())]


def _values(records: Sequence[Record], names: Sequence[str]) -> Any:
    """Return warning values (n, k); a standard error that is no number counts as the whole range."""

    def value(record: Record, name: str) -> float:
        if name == "standard error":
            error = record.summary["standard_error"]
            return 1.0 if error is None else error / max(record.summary["return_range"], 1e-300)
        return float(record.summary[{"unknown mass": "unknown_mass"}.get(name, name)])

    return np.array([[value(record, name) for name in names] for record in records]).reshape(-1, len(names))


def _figure(area: float) -> str:
    return "" if math.isnan(area) else f"{area:.3f}"

"""The page of controllers from logs as plants write them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from studies.logs import LOG_PLANTS
from studies.markdown import table
from studies.records import Record

__all__ = ["page"]

_TRAINED = ("nopg", "td3bc", "arx")
_HEADS = ("plant", "rows", "method", "logs", "true return", "better than", "within", "`ok`")
_INTRODUCTION = """# Controllers from logs

Made by `python -m studies page logs` from `results/studies/logs.jsonl`; do not edit. Logs with set
points that move, delays, and velocities that are not logged. Nothing is set but the roles of the columns
and the discount; on `pipeline` and `industrial` lags are chosen from the data, elsewhere they are those
of `studies/logs`. Returns are discounted, on the true plant, mean over logs. `better than` counts logs;
`within` counts true returns that lie in the printed interval; `ok` counts verdicts.

Two parts of the library were changed after a true return of a report plant was seen, so its figures are
not free of it: after log 1 of `heated-tank` halves of a log came to differ in the moves of a set point,
and a verdict says when there are fewer than 30 moves; after a warning on `pipeline` earlier actions no
longer count in the support.

Report plants: {report}. Development plants: {development}.
"""


def page(records: Sequence[Record]) -> str:
    """Return the page."""
    shown = {one.benchmark for one in records}
    roles = {
        name: plant.role for name, plant in LOG_PLANTS.items() if name in shown or plant.role == "development"
    }
    named = {role: ", ".join(name for name in roles if roles[name] == role) for role in set(roles.values())}
    groups: dict[tuple[str, int, str], list[Record]] = {}
    for one in records:
        groups.setdefault((one.benchmark, one.rows, one.method), []).append(one)
    lines = [_line(key, some, groups) for key, some in groups.items()]
    text = _INTRODUCTION.format(report=named["report"], development=named["development"])
    return text + "\n" + "\n".join(table(_HEADS, lines)) + "\n"


def _line(
    key: tuple[str, int, str], some: Sequence[Record], groups: dict[tuple[str, int, str], list[Record]]
) -> tuple[str, ...]:
    plant, rows, method = key
    mean = f"{fmean(_value(one) for one in some):.4g}"
    if method not in _TRAINED:
        return plant, f"{rows}", method, f"{len(some)}", mean, "", "", ""
    rivals = {other[2]: group for other, group in groups.items() if other[:2] == key[:2]}
    better = [
        f"{name} {_wins(some, group)}" for name, group in rivals.items() if name not in (method, *_TRAINED)
    ]
    judged = [one for one in some if one.summary.get("interval")]
    inside = sum(one.summary["interval"][0] <= _value(one) <= one.summary["interval"][1] for one in judged)
    ok = sum(one.summary.get("verdict") == "ok" for one in judged)
    shown = (f"{inside} of {len(judged)}", f"{ok}") if judged else ("", "")
    return plant, f"{rows}", method, f"{len(some)}", mean, "; ".join(better), *shown


def _wins(some: Sequence[Record], rivals: Sequence[Record]) -> str:
    of_log = {one.seed: _value(one) for one in rivals}
    pairs = [(_value(one), of_log[one.seed]) for one in some if one.seed in of_log]
    return f"{sum(own > other for own, other in pairs)} of {len(pairs)}"


def _value(record: Record) -> float:
    assert record.discounted is not None
    return record.discounted

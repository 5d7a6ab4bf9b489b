"""The page on performance, from the results of the records alone."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from studies.bench.cases import WARM_UP, Case
from studies.markdown import table

__all__ = ["Verdict", "brief", "by_threads", "growth", "markdown", "verdict_lines", "verdicts"]

_CENTRE = Case()
_SMALL = replace(_CENTRE, transitions=10_000)
_LARGE = replace(_CENTRE, transitions=1_000_000)
_PHASES = ("policy", "weights", "solve", "gradient")
_PIECES = ("policy", "responsibilities", "transpose", "gradient", "product", "transposed product")

_LEGEND = (
    "A name says the task, n, K, and what differs from γ = .99, float32 and a deterministic policy, all "
    "with the paper's model; without a K the model chose it. The tasks are the pendulum under uniformly "
    "random transitions, and Swimmer-v5 and HalfCheetah-v5 under random linear policies; d is the number of "
    "state features. Bandwidths are selected on at most 10⁵ rows of the pendulum, by Scott's rule "
    "elsewhere. Products are those of both solves. The graph includes ordering the rows. Memory is the "
    "peak of the whole process. The floor of a Gaussian policy has 15 passes of responsibilities and 15 "
    "gradients."
)

Record = Mapping[str, Any]
"""The results of one case."""
Records = Mapping[str, Record]


class Verdict(NamedTuple):
    """A promise, what was measured, and whether it was kept; None if it has not been measured."""

    name: str
    required: str
    measured: str
    kept: bool | None

    @classmethod
    def at_most(
        cls, name: str, limit: float, measured: float | None, *, unit: str = "", detail: str = ""
    ) -> Verdict:
        """Return the verdict on a number that must not exceed its limit."""
        required = f"≤ {limit:g}{unit}"
        if measured is None:
            return cls(name, required, "not run", None)
        return cls(name, required, f"{measured:.3g}{unit}{detail and f'; {detail}'}", measured <= limit)


def by_threads(records: Sequence[Record]) -> dict[int, Records]:
    """Return the records by number of threads and name."""
    counts = sorted({record["threads"] for record in records})
    return {count: {r["name"]: r for r in records if r["threads"] == count} for count in counts}


def verdicts(records: Records) -> Iterator[Verdict]:
    """Yield what was promised of the records of one number of threads."""
    yield _over_floor("n = 10⁵, K = 32, γ = .99, float32: update over its floor", 3, records, _CENTRE)
    yield _over_floor("n = 10⁶, K = 32, γ = .99, float32: update over its floor", 3.5, records, _LARGE)
    for K in (32, 128):
        name = f"growth of an update from n = 10⁴ to 10⁶ at K = {K}: exponent of n"
        yield Verdict.at_most(name, 1.1, growth(records, K))
    yield _products(records)
    yield from _large(records)
    yield _dense(records)
    yield from _gaussian(records)


def _over_floor(name: str, limit: float, records: Records, case: Case) -> Verdict:
    record = records.get(case.name)
    if record is None:
        return Verdict.at_most(name, limit, None, unit=" ×")
    detail = f"{_time(record['update_seconds'])} over {_time(record['floor_seconds'])}"
    return Verdict.at_most(name, limit, record["ratio"], unit=" ×", detail=detail)


def growth(records: Records, candidates: int) -> float | None:
    """Return the exponent p of seconds ∝ nᵖ by least squares in logarithms, once all three sizes are in."""
    cases = [replace(_CENTRE, transitions=10**power, candidates=candidates) for power in (4, 5, 6)]
    found = [records[case.name] for case in cases if case.name in records]
    if len(found) < len(cases):
        return None
    sizes = [math.log(record["transitions"]) for record in found]
    return statistics.linear_regression(sizes, [math.log(record["update_seconds"]) for record in found]).slope


def _products(records: Records) -> Verdict:
    name, limit = "n = 10⁵: products per update at γ = .999 over those at γ = .97", 1.3
    far, near = (records.get(replace(_CENTRE, discount=gamma).name) for gamma in (0.999, 0.97))
    if far is None or near is None:
        return Verdict.at_most(name, limit, None, unit=" ×")
    detail = f"{far['products']:.1f} over {near['products']:.1f}"
    return Verdict.at_most(name, limit, far["products"] / near["products"], unit=" ×", detail=detail)


def _large(records: Records) -> Iterator[Verdict]:
    record = records.get(_LARGE.name, {})
    peak, predicted = record.get("peak_gigabytes"), record.get("predicted_gigabytes")
    yield Verdict.at_most("n = 10⁶, K = 32: peak memory of the process", 2.5, peak, unit=" GB")
    name, required = "n = 10⁶, K = 32: peak memory over the prediction", "within 1.3 ×"
    if peak is None:
        yield Verdict(name, required, "not run", None)
    elif predicted is None:
        yield Verdict(name, required, "nothing is predicted", None)
    else:
        off = peak / predicted
        yield Verdict(name, required, f"{off:.2f} × {predicted:.2f} GB", 1 / 1.3 <= off <= 1.3)


def _dense(records: Records) -> Verdict:
    name, required = "n = 10⁴, float32: a dense update over ours, in one process", "≥ 300 ×"
    record = records.get(replace(_SMALL, dense=True).name)
    if record is None:
        return Verdict(name, required, "not run", None)
    ratio = record["dense_seconds"] / record["update_seconds"]
    detail = f"{_time(record['dense_seconds'])} over {_time(record['update_seconds'])}"
    return Verdict(name, required, f"{ratio:.0f} ×; {detail}", ratio >= 300)


def _gaussian(records: Records) -> Iterator[Verdict]:
    name = "n = 10⁴, K = 32: update of a Gaussian policy of 15 samples over a deterministic one's"
    gaussian, plain = records.get(replace(_SMALL, policy="gaussian").name), records.get(_SMALL.name)
    if gaussian is None or plain is None:
        yield Verdict.at_most(name, 15, None, unit=" ×")
    else:
        detail = f"{_time(gaussian['update_seconds'])} over {_time(plain['update_seconds'])}"
        ratio = gaussian["update_seconds"] / plain["update_seconds"]
        yield Verdict.at_most(name, 15, ratio, unit=" ×", detail=detail)
    peak = None if gaussian is None else gaussian["peak_gigabytes"]
    yield Verdict.at_most("the same: peak memory of the process", 2, peak, unit=" GB")


# Writing.


def brief(record: Record) -> str:
    """Return a record in a line."""
    parts = [f"update {_time(record['update_seconds'])}"]
    parts.append(f"floor {_time(record['floor_seconds'])}, {record['ratio']:.2f} ×")
    if record["dense"]:
        ratio = record["dense_seconds"] / record["update_seconds"]
        parts.append(f"dense {_time(record['dense_seconds'])}, {ratio:.0f} ×")
    if record["phases"]:
        parts.append(", ".join(f"{name} {_time(value)}" for name, value in record["phases"].items()))
    parts.append(f"{record['products']:.1f} products, K {record['K']}, {record['weights_dtype']}")
    parts.append(f"peak {record['peak_gigabytes']:.2f} GB, predicted {_or_dash(record, '.2f')}")
    if busy := _busy(record):
        parts.append(busy)
    return f"{record['name']}: " + "; ".join(parts)


def verdict_lines(records: Sequence[Record]) -> list[str]:
    """Return the verdicts as lines for a terminal."""
    words = {True: "kept  ", False: "MISSED", None: "open  "}
    return [
        f"{words[each.kept]} {_threads(count)}, {each.name}: {each.measured} (must be {each.required})"
        for count, found in by_threads(records).items()
        for each in verdicts(found)
    ]


def markdown(records: Sequence[Record], *, figure: str) -> str:
    """Return the page; `figure` is the path of the drawing, as seen from the page."""
    lines = [
        "# Performance",
        "",
        "Made by `python -m studies page performance` from `results/studies/bench.jsonl`; do not edit. An "
        "update is an estimate of the gradient and a step of Adam inside a training, residuals below "
        f"10⁻³: the median wall time of the updates after the first {WARM_UP}. Its floor is the least work "
        "in which the same numbers can be had, bare in torch on the same data, pattern and dtype, each piece "
        "the median of several rounds in which they run one after the other: the policy forward and "
        "backward in the best chunk size, one pass of responsibilities, the "
        "permutation of their values for the transposed matrix, one product of 1 + 2 d_a columns for the "
        "gradient, one product in each direction. What an update takes beyond that are the other products "
        "of its solves, and waste.",
        "",
        f"![Seconds per update over the number of transitions]({figure})",
        "",
    ]
    for count, found in by_threads(records).items():
        lines += [f"## {_threads(count)}", "", _made_on(found), ""]
        lines += _verdict_table(found)
        lines += ["### Updates", "", _LEGEND, "", *_update_table(found)]
        lines += ["### Floors", "", *_floor_table(found)]
        lines += ["### Dense", "", *_dense_table(found)]
    return "\n".join(lines).rstrip() + "\n"


def _made_on(records: Records) -> str:
    def every(name: str) -> str:
        return ", ".join(sorted({str(record[name]) for record in records.values()}))

    return f"{every('cpu')}; torch {every('torch')}, Python {every('python')}; {every('date')}."


def _verdict_table(records: Records) -> list[str]:
    words = {True: "kept", False: "**missed**", None: "open"}
    rows = [(*verdict[:-1], words[verdict.kept]) for verdict in verdicts(records)]
    lines = _table(("figure", "must be", "measured", ""), *rows)
    large = records.get(_LARGE.name)
    if large is not None:
        total = large["graph_seconds"] + large["training_seconds"]
        lines += [
            f"The graph and {large['updates']} updates at n = 10⁶, K = 32 take {_time(total)} of wall time: "
            f"{_time(large['graph_seconds'])} and {_time(large['training_seconds'])}.",
            "",
        ]
    return lines


def _update_table(records: Records) -> list[str]:
    head = ("case", "d", "K", "update", "floor", "ratio", *_PHASES, "products", "graph", "peak", "predicted")
    rows = [
        (
            record["name"] + _note(record),
            str(record["features"]),
            str(record["K"]),
            _time(record["update_seconds"]),
            _time(record["floor_seconds"]),
            f"{record['ratio']:.2f}",
            *(_time(record["phases"][phase]) if phase in record["phases"] else "-" for phase in _PHASES),
            f"{record['products']:.1f}",
            _time(record["graph_seconds"]),
            f"{record['peak_gigabytes']:.2f} GB",
            _or_dash(record, ".2f"),
        )
        for record in _ordered(records)
        if not record["dense"]
    ]
    return _table(head, *rows)


def _floor_table(records: Records) -> list[str]:
    rows = [
        (
            record["name"],
            *(_time(record["floor"][piece]) for piece in _PIECES),
            _time(record["floor_seconds"]),
        )
        for record in _ordered(records)
        if not record["dense"]
    ]
    return _table(("case", *_PIECES, "sum"), *rows)


def _dense_table(records: Records) -> list[str]:
    rows = [
        (
            record["name"],
            record["dtype"],
            _time(record["dense_seconds_as_written"]),
            _time(record["dense_seconds"]),
            _time(record["update_seconds"]),
            f"{record['dense_seconds'] / record['update_seconds']:.0f}",
            f"{record['dense_peak_gigabytes']:.2f} GB",
        )
        for record in _ordered(records)
        if record["dense"]
    ]
    return [
        "`studies/bench/dense.py`: n × n kernels, `torch.linalg.solve`, autograd through all of it, ψ "
        "computed beforehand. One update, beside ours of K = 32 in the same process. The ratio is that "
        "of the dense update with the smallest numbers taken for 0 (`torch.set_flush_denormal`); as first "
        "written, it also pays for weights of 10⁻⁴⁰.",
        "",
        *_table(
            ("case", "dtype", "dense as written", "dense, flushed", "ours", "ratio", "peak, dense"), *rows
        ),
    ]


def _ordered(records: Records) -> list[Record]:
    """Return the records by task and size."""
    tasks = ("pendulum", "swimmer", "halfcheetah")

    def rank(record: Record) -> tuple[int, int, int, str]:
        return tasks.index(record["task"]), record["transitions"], record["K"], record["name"]

    return sorted(records.values(), key=rank)


def _note(record: Record) -> str:
    """Return what to know of a record, in parentheses: another dtype than asked for, a busy machine."""
    dtype = record["weights_dtype"]
    notes = [] if dtype == record["dtype"] else [f"computed in {dtype}"]
    notes += [busy] if (busy := _busy(record)) else []
    return f" ({'; '.join(notes)})" if notes else ""


def _busy(record: Record) -> str:
    """Return a warning where others took the processor: alone, one thread's wall time is its CPU time."""
    waited = record["update_seconds"] / record["update_cpu_seconds"]
    if waited <= 1.1 or record["threads"] > 1:
        return ""
    return f"busy machine: wall {waited:.1f} × CPU, which is {record['ratio'] / waited:.2f} × the floor"


def _or_dash(record: Record, style: str) -> str:
    predicted = record["predicted_gigabytes"]
    return "-" if predicted is None else f"{predicted:{style}} GB"


def _threads(count: int) -> str:
    return f"{count} thread" + "s" * (count > 1)


def _time(seconds: float) -> str:
    """Return 3 digits and a unit."""
    if seconds >= 120:
        return f"{seconds / 60:.1f} min"
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{1e3 * seconds:.3g} ms"


def _table(*rows: Sequence[str]) -> list[str]:
    """Return the lines of a table, the first row being its head."""
    return [*table(rows[0], rows[1:]), ""]

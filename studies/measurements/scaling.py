"""Two ranks against one, and what follows for 10⁹ transitions, with the memory that the bench measured."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from studies.markdown import table
from studies.records import ROOT, Record, last_of_each, read

__all__ = ["measure", "page"]

_CENTER = "pendulum-1e6-K32"
_ROWS, _RANK_COUNTS = 1_000_000, (1, 2)
_HEADS = (
    "ranks",
    "seconds per update",
    "against one",
    "products",
    "rows of a rank",
    "halo",
    "bytes sent per product",
    "of an all-gather",
)
_MANY, _UPDATES, _RANKS = 10**9, 2_000, 64


def measure() -> Iterator[dict[str, Any]]:
    """Run the worker alone and under torchrun, one thread a rank, and yield what each rank saw."""
    for ranks in _RANK_COUNTS:
        launcher = [sys.executable, "-m"]
        if ranks > 1:
            launcher += ["torch.distributed.run", "--nproc-per-node", str(ranks), "-m"]
        command = [*launcher, "studies.measurements.scaling_worker", str(_ROWS)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=ROOT)
        for line in run.stdout.splitlines():
            if line.startswith("{"):
                results = json.loads(line)
                name, method = f"{ranks} rank" + "s" * (ranks > 1), f"rank {results['rank']}"
                yield {"benchmark": name, "method": method, "rows": _ROWS, "results": results}


def page(records: Sequence[Record]) -> str:
    """Return the page."""
    found = [record.results for record in records]
    bench = {record.benchmark: record.results for record in last_of_each(read(study="bench"))}
    lines = [*_INTRODUCTION]
    for rows in sorted({one["rows"] for one in found}):
        lines += _comparison([one for one in found if one["rows"] == rows])
    lines += _road(found, bench.get(_CENTER))
    return "\n".join([*lines, *_CLOSING]) + "\n"


def _comparison(records: Sequence[Mapping[str, Any]]) -> list[str]:
    one = [record for record in records if record["ranks"] == 1]
    rows = []
    for ranks in sorted({record["ranks"] for record in records}):
        mine = [record for record in records if record["ranks"] == ranks]
        seconds, own = max(record["update_seconds"] for record in mine), [r["own_rows"] for r in mine]
        sent = sum(sum(record["bytes_sent"]) / 2 for record in mine)
        everything = 4 * mine[0]["rows"] * (ranks - 1)
        rows.append(
            (
                f"{ranks}",
                f"{seconds:.2f}",
                f"{one[0]['update_seconds'] / seconds:.2f} ×" if one else "",
                f"{mine[0]['products']:.1f}",
                f"{min(own)} to {max(own)}",
                f"{sum(record['halo'] for record in mine) / sum(own):.1%}",
                f"{sent:.0f}",
                f"{sent / everything:.1%}" if everything else "",
            )
        )
    return [f"### {records[0]['rows']} transitions", "", *table(_HEADS, rows), ""]


def _road(records: Sequence[Mapping[str, Any]], bench: Mapping[str, Any] | None) -> list[str]:
    """Return what 10⁹ transitions would take, from what was measured."""
    lines = ["## The road to 10⁹ transitions", ""]
    two = [record for record in records if record["ranks"] == 2]
    alone = [record for record in records if record["ranks"] == 1]
    if not (two and alone):
        return [*lines, "Nothing has been measured yet.", ""]
    largest = max(record["rows"] for record in two)
    two = [record for record in two if record["rows"] == largest]
    one = next(record for record in alone if record["rows"] == largest)
    per_row = one["update_seconds"] / one["rows"]
    core_hours = per_row * _MANY * _UPDATES / 3600
    # The border of a region in two dimensions, which the pendulum fills, grows like the root of its rows, and
    # a rank among many has twice the border of one of two halves.
    halo = sum(record["halo"] for record in two) / 2
    border = 2 * halo * math.sqrt(_MANY / _RANKS / (largest / 2))
    lines += [
        f"From {largest} transitions (K = 32, float32, γ = .99, residual 10⁻³, one thread a rank), on paper:",
        "",
    ]
    rows = []
    if bench is not None:
        each = (bench["peak_gigabytes"] - bench["peak_before_gigabytes"]) / bench["transitions"]
        rows += [("bytes per transition, at the peak of a training", f"{each * 1e9:.0f}")]
        rows += [("memory for 10⁹ transitions", f"{each * _MANY / 1e3:.1f} TB")]
    border_name = f"halo of a rank, {_RANKS} ranks, if it grows like the border of a region"
    rows += [
        ("seconds of one core per update and 10⁶ transitions", f"{per_row * 1e6:.2f}"),
        (f"core-hours of {_UPDATES} updates on 10⁹ transitions", f"{core_hours:.0f}"),
        (f"rows of a rank, {_RANKS} ranks", f"{_MANY / _RANKS:.3g}"),
        (border_name, f"{border:.3g} rows"),
        ("sent by a rank per product", f"{4 * border / 1e6:.1f} MB"),
    ]
    return [*lines, *table(("figure", "value"), rows), ""]


_INTRODUCTION = [
    "# Scaling out",
    "",
    "Made by `python -m studies page scaling` from `results/studies/scaling.jsonl` and `bench.jsonl`; do not "
    "edit. Updates of the paper's model on several ranks of torchrun, on one machine. A product with P "
    "fetches a halo of entries that other ranks own, a product with Pᵀ returns them, and gradients are "
    "summed ([record 12](../../docs/decisions/0012-ranks-under-torchrun.md)). "
    "[Long runs](../../docs/guides/long-runs.md) explains the usage.",
    "",
]

_CLOSING = [
    "Limits beyond this: the noise of a stochastic policy is drawn for all rows on every rank; bandwidths "
    "are selected on two million rows at most; the last level of the preconditioner has at most 512 cells. "
    "No GPU was available, so there are no timings on one.",
]

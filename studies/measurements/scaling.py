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
    "edit.",
    "",
    "**Most users need one machine.** A million transitions train on a laptop "
    "([performance.md](performance.md)); a robot joint sampled at 50 Hz needs five and a half hours to log "
    "them. Where the data are more than they say, condense them first (`data.condense(m)`, "
    "[condense.md](condense.md)): while several rows lie within a bandwidth of each other, fewer and "
    "weighted ones lose little.",
    "",
    "## The same script on several ranks",
    "",
    "```",
    "torchrun --nproc-per-node 2 --max-restarts 3 train.py",
    "```",
    "",
    "`train.py` is the script of one process: `nopg.optimize(data, discount, model='paper', "
    "checkpoint='folder')`. All ranks may load the same data; where they are large, each reads its part with "
    "`Transitions.from_parquet(path, part=(rank, of))`. Rows are shared by cells of the next states, a "
    "product with P brings a halo of entries that other ranks own, a product with Pᵀ sends them home, and "
    "gradients are summed ([record 12](../../docs/decisions/0012-ranks-under-torchrun.md)). Several machines "
    "are torchrun's `--nnodes` and `--rdzv-endpoint`, nothing of ours. Only the paper's model runs on "
    "several ranks.",
    "",
]

_CLOSING = [
    "What would break first: the noise of a stochastic policy is drawn for all rows on every rank; "
    "bandwidths are read off two million rows at most, so they are those of two million; the last level of "
    "the preconditioner has at most 512 cells, whatever the rows.",
    "",
    "## On a GPU",
    "",
    "`optimize(…, device='cuda')` computes the updates of the paper's model there: responsibilities, "
    "products, solves, gradient and policy. Neighbours, the order of rows and the cells are found on the "
    "CPU, once before training; the noise of a stochastic policy is drawn there, so that every device has "
    "the same numbers; the answer is solved and certified there, in float64. The local model and several "
    "ranks stay on CPUs and say so.",
    "",
    "**No GPU was at hand: nothing of this has run on one, and we have no timings.** What is tested is that "
    "every tensor follows its operands. On a pretended device, which computes on the CPU and refuses to meet "
    "the CPU's tensors, trainings give the same numbers bit by bit (`tests/models/test_device.py`). Whether "
    "torch has every sparse product for a given device, in which order it adds there, and how fast it is, "
    "that cannot show. Blocks of rows are sized for the caches of a CPU. For several GPUs, NCCL instead of "
    "gloo is a name in `torch.distributed`, and halos would stay on the devices; cuVS could take over the "
    "search. Neither has been begun.",
]

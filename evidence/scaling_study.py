"""Two ranks against one, and what follows for 10⁹ transitions: `python -m evidence.scaling_study`.

Runs the worker alone and under the real torchrun, one thread each, keeps results/scaling.json, and writes
docs/scaling.md from it and from the records of the bench.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from evidence.study import write_records

__all__ = ["markdown", "measure"]

_ROOT = Path(__file__).parent.parent
_RECORDS, _BENCH, _PAGE = (
    _ROOT / "results" / "scaling.json",
    _ROOT / "results" / "bench.json",
    _ROOT / "docs" / "scaling.md",
)
_CENTER = "pendulum-1e6-K32"
_MANY, _UPDATES, _RANKS = 10**9, 2_000, 64


def measure(rows: int, ranks: int) -> list[dict[str, Any]]:
    """Return what each rank saw."""
    launcher = [sys.executable]
    if ranks > 1:
        launcher += ["-m", "torch.distributed.run", "--nproc-per-node", str(ranks)]
    command = [*launcher, str(_ROOT / "evidence" / "scaling_worker.py"), str(rows)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(_ROOT)}
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]


def markdown(records: list[dict[str, Any]], bench: dict[str, Any] | None) -> str:
    """Return the page."""
    lines = [*_INTRODUCTION]
    for rows in sorted({record["rows"] for record in records}):
        lines += _comparison([record for record in records if record["rows"] == rows])
    lines += _road(records, bench)
    return "\n".join([*lines, *_CLOSING]) + "\n"


def _comparison(records: list[dict[str, Any]]) -> list[str]:
    one = [record for record in records if record["ranks"] == 1]
    lines = [
        f"### {records[0]['rows']} transitions",
        "",
        "| ranks | seconds per update | against one | products | rows of a rank | halo | bytes sent per "
        "product | of an all-gather |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for ranks in sorted({record["ranks"] for record in records}):
        mine = [record for record in records if record["ranks"] == ranks]
        seconds = max(record["update_seconds"] for record in mine)
        faster = f"{one[0]['update_seconds'] / seconds:.2f} ×" if one else ""
        halo = sum(record["halo"] for record in mine)
        sent = sum(sum(record["bytes_sent"]) / 2 for record in mine)
        everything = 4 * mine[0]["rows"] * (ranks - 1)
        share = f"{sent / everything:.1%}" if everything else ""
        lines.append(
            f"| {ranks} | {seconds:.2f} | {faster} | {mine[0]['products']:.1f} | "
            f"{min(record['own_rows'] for record in mine)} to {max(record['own_rows'] for record in mine)} | "
            f"{halo / sum(record['own_rows'] for record in mine):.1%} | {sent:.0f} | {share} |"
        )
    return [*lines, ""]


def _road(records: list[dict[str, Any]], bench: dict[str, Any] | None) -> list[str]:
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
        "| figure | value |",
        "|---|---|",
    ]
    if bench is not None:
        peak = bench["peak_gigabytes"] - bench["peak_before_gigabytes"]
        lines.append(
            f"| bytes per transition, at the peak of a training | {peak * 1e9 / bench['transitions']:.0f} |"
        )
        lines.append(f"| memory for 10⁹ transitions | {peak / bench['transitions'] * _MANY / 1e3:.1f} TB |")
    lines += [
        f"| seconds of one core per update and 10⁶ transitions | {per_row * 1e6:.2f} |",
        f"| core-hours of {_UPDATES} updates on 10⁹ transitions | {core_hours:.0f} |",
        f"| rows of a rank, {_RANKS} ranks | {_MANY / _RANKS:.3g} |",
        f"| halo of a rank, {_RANKS} ranks, if it grows like the border of a region | {border:.3g} rows |",
        f"| sent by a rank per product | {4 * border / 1e6:.1f} MB |",
        "",
    ]
    return lines


_INTRODUCTION = [
    "# Scaling out",
    "",
    "Made by `python -m evidence.scaling_study` from `results/scaling.json` and `results/bench.json`; do not "
    "edit.",
    "",
    "**Most users need one machine.** A million transitions train on a laptop "
    "([performance.md](performance.md)); a robot joint sampled at 50 Hz needs five and a half hours to log "
    "them. Where the data are more than they say, condense them first (`data.condense(m)`, "
    "[condense.md](condense.md)): while several rows stand within a bandwidth of each other, fewer and "
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
    "`nopg.read_parquet(path, part=(rank, of))`. Rows are shared by cells of the next states, a "
    "product with P brings a halo of entries that other ranks own, a product with Pᵀ sends them home, and "
    "gradients are summed ([record 12](decisions/0012-ranks-under-torchrun.md)). Several machines are "
    "torchrun's `--nnodes` and `--rdzv-endpoint`, nothing of ours. Only the paper's model runs on several "
    "ranks.",
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


def main() -> None:
    """Measure what is asked for, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table-only", action="store_true", help="write the page from the stored records")
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000_000])
    parser.add_argument("--ranks", type=int, nargs="*", default=[1, 2])
    options = parser.parse_args()
    records: list[dict[str, Any]] = json.loads(_RECORDS.read_text()) if _RECORDS.exists() else []
    if not options.table_only:
        for rows in options.rows:
            for ranks in options.ranks:
                new = measure(rows, ranks)
                print(new, flush=True)
                records = [one for one in records if (one["rows"], one["ranks"]) != (rows, ranks)] + new
                write_records(_RECORDS, records)
    bench = json.loads(_BENCH.read_text()) if _BENCH.exists() else []
    center = next((record for record in bench if record["name"] == _CENTER), None)
    _PAGE.write_text(markdown(records, center))


if __name__ == "__main__":
    main()

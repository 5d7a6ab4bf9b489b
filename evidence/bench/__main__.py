"""Measure updates against their floor: `make bench`, or `python -m evidence.bench --only pendulum-1e5`.

Every case runs in a process of its own and is one record of results/bench.json, stored as soon as it is done;
what is stored is not run again unless --fresh asks for it. docs/performance.md is made from the records.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evidence.bench.cases import QUICK_BANDWIDTHS, Case, quick, star
from evidence.bench.page import brief, markdown, verdict_lines
from evidence.bench.plot import draw
from evidence.bench.store import Record, load, save

_ROOT = Path(__file__).parent.parent.parent
_RECORDS = _ROOT / "results" / "bench.json"
_PAGE = _ROOT / "docs" / "performance.md"
_FIGURE = _ROOT / "docs" / "figures" / "performance.svg"

Selected = Mapping[tuple[str, int], Mapping[str, list[float]]]
"""Bandwidths by the task and the number of rows they were selected on."""


def _run(cases: Sequence[Case], records: Path, *, threads: int, known: Selected) -> int:
    """Measure and store the cases; return how many ended in an error, which is shown and not stored."""
    selected, errors = dict(known), 0
    for case in cases:
        if not case.can_run:
            print(f"{case.name}: skipped, MuJoCo is not installed; pip install 'nopg[mujoco]'", flush=True)
            continue
        task, rows = case.selection
        try:
            if case.selection not in selected:
                selected[case.selection] = _in_a_process({"select": {"task": task, "rows": rows}}, threads)
            asked = {"case": asdict(case), "bandwidths": selected[case.selection]}
            record = _in_a_process(asked, threads)
        except subprocess.CalledProcessError as error:
            errors += 1
            last = error.stderr.strip().splitlines()[-1:] or ["no message"]
            print(f"{case.name}: exit code {error.returncode}, {last[0]}", flush=True)
        else:
            save(records, record)
            print(brief(record), flush=True)
    return errors


def _in_a_process(asked: dict[str, Any], threads: int) -> Record:
    """Return what `evidence.bench.measure` answers in a fresh process: memory and threads are its own."""
    count = str(threads)
    answer = subprocess.run(
        [sys.executable, "-m", "evidence.bench.measure"],
        input=json.dumps({**asked, "threads": threads}),
        capture_output=True,
        text=True,
        check=True,
        cwd=_ROOT,
        env={**os.environ, "OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count},
    )
    record: Record = json.loads(answer.stdout)
    return record


def _chosen(cases: Sequence[Case], name: str) -> list[Case]:
    """Return the case of this name, or those that begin so if there is none."""
    exact = [case for case in cases if case.name == name]
    return exact or [case for case in cases if case.name.startswith(name)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, then write the page; the exit code says whether a case ended in an error."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--only", default="", metavar="NAME", help="the case of this name, or those that begin so"
    )
    parser.add_argument("--list", action="store_true", help="print the names of the cases, and stop")
    parser.add_argument("--quick", action="store_true", help="small cases, in seconds; nothing is kept")
    parser.add_argument("--threads", type=int, default=1, help="of torch, in every case")
    parser.add_argument("--fresh", action="store_true", help="run also what is stored")
    parser.add_argument("--table-only", action="store_true", help="write the page from the stored records")
    options = parser.parse_args(arguments)
    cases = _chosen(list(quick() if options.quick else star()), options.only)
    if options.list:
        print("\n".join(case.name for case in cases))
        return 0
    if options.quick:
        known: Selected = {case.selection: QUICK_BANDWIDTHS for case in cases}
        with tempfile.TemporaryDirectory() as folder:
            return int(_run(cases, Path(folder) / "bench.json", threads=options.threads, known=known) > 0)

    errors = 0
    if not options.table_only:
        stored = [] if options.fresh else load(_RECORDS)
        done = {record["name"] for record in stored if record["threads"] == options.threads}
        known = {Case.from_record(record).selection: record["bandwidths"] for record in stored}
        missing = [case for case in cases if case.name not in done]
        print(f"{len(cases) - len(missing)} of {len(cases)} cases are stored already", flush=True)
        errors = _run(missing, _RECORDS, threads=options.threads, known=known)
    records = load(_RECORDS)
    _FIGURE.parent.mkdir(exist_ok=True)
    draw(records, _FIGURE)
    _PAGE.write_text(markdown(records, figure=f"figures/{_FIGURE.name}"))
    print("\n".join(verdict_lines(records)))
    return 1 if errors else 0


if __name__ == "__main__":
    raise SystemExit(main())

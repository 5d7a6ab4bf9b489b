"""Measure updates against their floor: `python -m studies.bench --threads 2`.

Every case runs in a process of its own and appends a record when it is done; a case with a record is not run
again unless --fresh asks for it. `python -m studies page performance` writes the page.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from studies.bench.cases import QUICK_BANDWIDTHS, Case, quick, star
from studies.bench.page import brief, verdict_lines
from studies.printing import say
from studies.records import FOLDER, ROOT, Record, append, code_version, last_of_each, read

__all__ = ["main"]

Selected = Mapping[tuple[str, int], Mapping[str, list[float]]]
"""Bandwidths by the task and the number of rows they were selected on."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the missing cases; the exit code says whether a case ended in an error."""
    given = _parser().parse_args(arguments)
    cases = _chosen(list(quick() if given.quick else star()), given.only)
    if given.list:
        say("\n".join(case.name for case in cases))
        return 0
    if given.quick:
        known: Selected = {case.selection: QUICK_BANDWIDTHS for case in cases}
        return int(_run(cases, None, threads=given.threads, known=known) > 0)
    stored = [] if given.fresh else [record.results for record in last_of_each(read(given.out, "bench"))]
    done = {one["name"] for one in stored if one["threads"] == given.threads}
    known = {Case.from_results(one).selection: one["bandwidths"] for one in stored}
    missing = [case for case in cases if case.name not in done]
    say(f"{len(cases) - len(missing)} of {len(cases)} cases are stored already")
    errors = _run(missing, given.out, threads=given.threads, known=known)
    say("\n".join(verdict_lines([record.results for record in last_of_each(read(given.out, "bench"))])))
    return int(errors > 0)


def _run(cases: Sequence[Case], out: Path | None, *, threads: int, known: Selected) -> int:
    """Measure the cases and append them; return the number of errors, which are shown and not stored."""
    selected, errors = dict(known), 0
    for case in cases:
        if not case.can_run:
            say(f"{case.name}: skipped, MuJoCo is not installed; pip install 'nopg[mujoco]'")
            continue
        task, rows = case.selection
        try:
            if case.selection not in selected:
                selected[case.selection] = _in_a_process({"select": {"task": task, "rows": rows}}, threads)
            asked = {"case": asdict(case), "bandwidths": selected[case.selection]}
            results = _in_a_process(asked, threads)
        except subprocess.CalledProcessError as error:
            errors += 1
            last = error.stderr.strip().splitlines()[-1:] or ["no message"]
            say(f"{case.name}: exit code {error.returncode}, {last[0]}")
        else:
            say(brief(results))
            if out is not None:
                append(_record(case, threads, results), out)
    return errors


def _record(case: Case, threads: int, results: Mapping[str, Any]) -> Record:
    return Record(
        study="bench",
        benchmark=case.name,
        method=case.policy,
        rows=case.transitions,
        options={"threads": threads},
        commit=code_version("src/nopg"),
        results=results,
    )


def _in_a_process(asked: dict[str, Any], threads: int) -> dict[str, Any]:
    """Return the answer of `studies.bench.measure` in a new process, with its own memory and threads."""
    count = str(threads)
    answer = subprocess.run(
        [sys.executable, "-m", "studies.bench.measure"],
        input=json.dumps({**asked, "threads": threads}),
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count},
    )
    results: dict[str, Any] = json.loads(answer.stdout)
    return results


def _chosen(cases: Sequence[Case], name: str) -> list[Case]:
    """Return the case of this name, or those that begin with it if there is none."""
    exact = [case for case in cases if case.name == name]
    return exact or [case for case in cases if case.name.startswith(name)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m studies.bench", description=__doc__)
    parser.add_argument("--only", default="", metavar="NAME", help="case, or beginning of the names of cases")
    parser.add_argument("--list", action="store_true", help="print the names of the cases and end")
    parser.add_argument("--quick", action="store_true", help="small cases, in seconds; nothing is stored")
    parser.add_argument("--threads", type=int, default=1, help="number of threads of torch")
    parser.add_argument("--fresh", action="store_true", help="run also the cases that are stored")
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of the records")
    return parser


if __name__ == "__main__":
    sys.exit(main())

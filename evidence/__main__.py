"""Measure every promised figure: `make evidence`, or `python -m evidence --only cost`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

import nopg
from evidence.figure import Figure, markdown

_ROOT = Path(__file__).parent.parent
_RECORDS = _ROOT / "results" / "evidence.json"
_TABLE = _ROOT / "docs" / "evidence.md"


def _sections() -> dict[str, Callable[[], Iterable[Figure]]]:
    sys.path.insert(0, str(_ROOT / "tests"))  # the cases that the tests hold to the same limits
    from evidence.correctness import correctness
    from evidence.cost import cost
    from evidence.pendulum import pendulum
    from evidence.rivals import rivals

    return {
        "correctness": correctness,
        "cost": cost,
        "pendulum": pendulum,
        "rivals": rivals,
    }


def _measure(only: str | None) -> list[dict[str, Any]]:
    """Measure the sections, print each row as it comes, and return all records, old ones of others kept."""
    stored = json.loads(_RECORDS.read_text())["figures"] if only and _RECORDS.exists() else []
    sections = _sections()
    records = {name: [row for row in stored if row["group"] == name] for name in sections}
    for name, section in sections.items():
        if only in {None, name}:
            records[name] = []
            for figure in section():
                records[name].append({"group": name, **figure.record()})
                verdict = "kept  " if figure.kept else "MISSED"
                print(f"{verdict} {figure.name}: {figure.measured} (must be {figure.required})", flush=True)
    return [row for rows in records.values() for row in rows]


def main() -> int:
    """Run the command; the exit code says whether every promise was kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    groups = ["correctness", "cost", "pendulum", "rivals"]
    parser.add_argument("--only", choices=groups, help="measure one group")
    parser.add_argument("--table-only", action="store_true", help="write the table from the stored records")
    options = parser.parse_args()

    if not options.table_only:
        machine = {
            "nopg": nopg.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
        }
        records = {"machine": machine, "figures": _measure(options.only)}
        _RECORDS.parent.mkdir(exist_ok=True)
        _RECORDS.write_text(json.dumps(records, indent=1, ensure_ascii=False) + "\n")

    stored = json.loads(_RECORDS.read_text())
    machine = stored["machine"]
    note = (
        "What `make evidence` measured, made from `results/evidence.json`; do not edit. "
        f"Python {machine['python']}, torch {machine['torch']}, {machine['cores']} cores, "
        f"{machine['threads']} thread. The tests hold the rows on correctness to the same limits."
    )
    _TABLE.write_text(markdown(stored["figures"], note=note))
    missed = [row["name"] for row in stored["figures"] if not row["kept"]]
    print(
        f"{len(stored['figures']) - len(missed)} of {len(stored['figures'])} kept; table in docs/evidence.md"
    )
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())

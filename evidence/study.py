"""A study: measure, keep the records, write the page from the records."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

__all__ = ["run_study", "write_records"]

_ROOT = Path(__file__).parent.parent


def write_records(path: Path, records: Iterable[dict[str, Any]]) -> None:
    """Write records, one to a line; the file is the old one or the new one, never half of it."""
    lines = [json.dumps(record, ensure_ascii=False) for record in records]
    path.parent.mkdir(exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    unfinished.replace(path)


def run_study(
    name: str, measure: Callable[[], Any], markdown: Callable[[Any], str], *, description: str | None
) -> None:
    """Run the command of a study: results/NAME.json by measuring, docs/NAME.md from that."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--table-only", action="store_true", help="write the page from the stored records")
    records, page = _ROOT / "results" / f"{name}.json", _ROOT / "docs" / f"{name}.md"
    if not parser.parse_args().table_only:
        records.parent.mkdir(exist_ok=True)
        records.write_text(json.dumps(measure(), indent=1) + "\n")
    page.write_text(markdown(json.loads(records.read_text())))

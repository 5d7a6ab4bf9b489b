"""Pages: one self-contained HTML file from a template and one dictionary."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from nopg._version import __version__
from nopg.errors import ArgumentError
from nopg.inspect._wording import chance, count_of, share_of
from nopg.report._style import Picture, csv_table, png, steps_text
from nopg.report._wording import closed, interval, number, readable

# Numbers of a figure that a page holds, and those that JSON holds.
MOST_CELLS = 6_000


@cache
def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("nopg.report", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=lambda value: readable(value) if type(value) is str else value,
    )
    found.filters |= {
        "number": number,
        "interval": interval,
        "chance": chance,
        "share": share_of,
        "count": count_of,
        "steps": steps_text,
        "closed": closed,
        "dashes": lambda text: text.replace("-", "−"),
    }
    return found


def render(template: str, facts: Mapping[str, Any], pictures: Mapping[str, Picture]) -> str:
    """Return a page with facts and figures by name; the template says where these stand."""
    page = _environment().get_template(template)
    return page.render(
        **facts, version=__version__, drawn=list(pictures), figure=partial(_figure, _environment(), pictures)
    )


def _figure(environment: Environment, pictures: Mapping[str, Picture], name: str) -> Markup:
    """Return a figure with a link to its numbers."""
    picture = pictures[name]
    numbers = picture.thinned(MOST_CELLS)
    rows, kept = len(next(iter(picture.table.values()))), len(next(iter(numbers.values())))
    return Markup(
        environment.get_template("figure.html").render(
            image=base64.b64encode(png(picture.figure)).decode("ascii"),
            numbers=base64.b64encode(csv_table(numbers, digits=6).encode()).decode("ascii"),
            file=re.sub(r"[^\w.-]+", "_", name)[:60] + ".csv",
            text=picture.text,
            thinned=f" ({kept} of {rows} rows)" if kept < rows else "",
        )
    )


def free_path(path: str | os.PathLike[str], *, overwrite: bool, beside: str | None = None) -> list[Path]:
    """Return the paths of a page and of the file with a suffix beside it; refuse existing files."""
    page = Path(path)
    if page.suffix.lower() not in {".html", ".htm"}:
        raise ArgumentError(f"{page} does not end in .html; a page is one HTML file")
    files = [page] if beside is None else [page, page.with_suffix(beside)]
    if not overwrite and (taken := [str(file) for file in files if file.exists()]):
        verb = "exists" if len(taken) == 1 else "exist"
        raise ArgumentError(f"{' and '.join(taken)} {verb} already; give another path, or overwrite")
    return files

"""Where the sources of a controller are written, and their comments."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from nopg.deploy._control_program import ControlProgram
from nopg.errors import ArgumentError

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
# Words of C that a file may not be called.
_KEYWORDS = (
    "auto bool break case char const continue default do double else enum extern false float for goto if "
    "inline int long main register restrict return short signed sizeof static struct switch true typedef "
    "union unsigned void volatile while"
)


def source_target(path: str | os.PathLike[str], suffix: str, overwrite: bool, *, also: str = "") -> Path:
    """Return where to write; a name that is no identifier, or that exists, is refused."""
    target, example = Path(path), f"'tank{suffix}'"
    if target.suffix != suffix:
        raise ArgumentError(f"the path is {str(target)!r}; give one that ends in {suffix}, such as {example}")
    if not _NAME.fullmatch(target.stem) or target.stem.lower() in _KEYWORDS.split():
        raise ArgumentError(
            f"the file is called {target.stem!r}, and functions are named after it; use letters, digits and "
            f"_, such as {example}"
        )
    for one in (target, *([target.with_suffix(also)] if also else [])):
        if one.exists() and not overwrite:
            raise ArgumentError(f"{one} exists already; give another name, or overwrite=True")
    return target


def plain_text(text: str) -> str:
    """Return a text that may stand in a comment: what is no letter, digit or mark of a unit becomes `_`."""
    return re.sub(r"[^A-Za-z0-9 _.,:;/%()\[\]^+<>=-]", "_", text)


def column_lines(program: ControlProgram) -> Iterator[str]:
    """Yield what the elements of inputs and outputs are, and the saved controller, for comments."""
    columns = program.columns
    if program.bundle is not None:
        yield f"the saved controller has the SHA-256 {program.bundle}"
    for what, names in (("measured", columns.measured), ("actions", columns.actions)):
        for k, one in enumerate(names):
            unit = f" [{columns.units[one]}]" if one in columns.units else ""
            limits = f", {program.low[k]:.6g} to {program.high[k]:.6g}" if what == "actions" else ""
            yield plain_text(f"{what}[{k}] = {one}{unit}{limits}")

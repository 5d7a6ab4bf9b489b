"""What printed controllers share: where they are written, names, and comments."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from nopg.deploy._control_program import ControlProgram
from nopg.errors import ArgumentError

__all__ = ["bare", "column_lines", "plain_text", "source_target"]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
# Words of C and of Structured Text that a file may not be called.
_KEYWORDS = (
    "action array auto bool break by case char const continue default do double else enum exit extern false "
    "float for function goto if inline int long main mod not of or program real register restrict retain "
    "return short signed sizeof static step struct switch task then time to true type typedef union unsigned "
    "until var void volatile while with xor"
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


def bare(text: str) -> str:
    """Return an expression without parentheses around the whole of it."""
    depth = 0
    for place, mark in enumerate(text):
        depth += {"(": 1, ")": -1}.get(mark, 0)
        if depth == 0 and place < len(text) - 1:
            return text
    return text[1:-1] if text.startswith("(") else text


def column_lines(program: ControlProgram) -> Iterator[str]:
    """Yield what the elements of inputs and outputs are, for comments."""
    columns = program.columns
    for what, names in (("measured", columns.measured), ("actions", columns.actions)):
        for k, one in enumerate(names):
            unit = f" [{columns.units[one]}]" if one in columns.units else ""
            limits = f", {program.low[k]:.6g} to {program.high[k]:.6g}" if what == "actions" else ""
            yield plain_text(f"{what}[{k}] = {one}{unit}{limits}")

"""Docstrings as Sphinx reads them.

Ours are written for the reader of the source, with the Markdown that needs no explanation: headings, tables,
|absolute values|, formulas and drawings set off by indentation. Google's sections are left to napoleon.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from sphinx.application import Sphinx
from sphinx.domains.python._object import PyObject
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.typing import ExtensionMetadata

_SECTION = re.compile(r"(Args|Attributes|Example|Examples|Raises|Returns|Yields):")
_BEFORE_NAPOLEON = 400


def _as_rst(lines: list[str]) -> Iterator[str]:
    """Yield the lines as reStructuredText."""
    prose = True  # until the first of Google's sections, whose own indentation means something
    for blank, group in groupby(lines, key=lambda line: not line.strip()):
        block = list(group)
        prose = prose and not any(map(_SECTION.fullmatch, block))
        if blank:
            yield ""
        elif block[0].startswith("|---") or (len(block) > 1 and block[1].startswith("|---")):
            yield from _table(block)
        elif any(mark in line for line in block for mark in "├└") or (prose and block[0].startswith("    ")):
            yield from (".. code-block:: text", "", *(f"    {line}" for line in block))
        elif block[0].startswith("## "):
            yield from (f".. rubric:: {block[0][3:]}", "", *block[1:])
        else:
            yield from (re.sub(r"(?<!\\)\|", r"\|", line) for line in block)


def _table(lines: list[str]) -> Iterator[str]:
    """Yield a table of Markdown as a list-table."""
    yield from (".. list-table::", "   :header-rows: 1", "")
    for line in lines:
        if not line.startswith("|---"):
            first, *others = (cell.strip() for cell in line.strip("|").split("|"))
            yield from (f"   * - {first}", *(f"     - {other}" for other in others))


def _of_constant(name: str) -> list[str]:
    """Return what stands below a constant in the private module that defines it."""
    package, _, constant = name.rpartition(".")
    for module in [module for module in sys.modules if module.startswith(f"{package}.")]:
        if found := ModuleAnalyzer.for_module(module).find_attr_docs().get(("", constant)):
            return found
    return []


def _process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    del app, obj, options
    lines[:] = _as_rst(_of_constant(name) if what == "data" else lines)
    if lines and what in {"attribute", "data", "property"}:
        lines[0] = f": {lines[0]}"  # napoleon takes what stands before the first colon for a type


def _sign(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Return a signature without what no reader would write: forward references, factories of defaults."""
    del app, what, name, obj, options
    aliased = re.compile(r"TypeAliasForwardRef\('(\w+)'\)")
    signature = signature and aliased.sub(r"\1", signature).replace("<factory>", "...")
    return signature, returned and aliased.sub(r"\1", returned)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the translation."""
    for field in PyObject.doc_field_types:
        if field.name == "variable":
            field.label = "Attributes"
    app.connect("autodoc-process-docstring", _process, priority=_BEFORE_NAPOLEON)
    app.connect("autodoc-process-signature", _sign)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

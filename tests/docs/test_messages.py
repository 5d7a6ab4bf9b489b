"""The page on trust has a row for every finding, reason and warning, and none that the code does not know."""

import ast
import re
from collections.abc import Iterator

import pytest

from docs.pages import ROOT
from nopg.models._residuals import _MEANING

PAGE = (ROOT / "docs/guides/trusting.md").read_text(encoding="utf-8")
SOURCE = ROOT / "src" / "nopg"
# Where reasons and warnings are written. Shorter texts are parts of them, as are those that go on.
WRITTEN = ("evaluation/_verdict.py", "training/_judge.py", "training/_starts.py", "training/_constraints.py")
FEWEST_WORDS = 7


def rows(*headings: str) -> list[str]:
    """Return the first cells of the tables below headings."""
    tables = [PAGE.partition(f"\n## {one}\n")[2].partition("\n## ")[0] for one in headings]
    return [cell for table in tables for cell in re.findall(r"^\| (.+?) \|", table, re.MULTILINE)[1:]]


def topics() -> set[str]:
    """Return the topics of all findings of `describe`."""
    text = "".join(path.read_text(encoding="utf-8") for path in (SOURCE / "inspect").glob("*.py"))
    called = re.findall(r'\b(?:ok|warning|error|graded)\(\s*"([^"]+)"', text)
    return {*called, *re.findall(r'\btopic(?:, \w+)* = "([^"]+)"', text)}


def texts(node: ast.AST) -> Iterator[str]:
    """Yield the texts in a part of code, … for what is filled in; no docstrings and no errors."""
    match node:
        case ast.Raise() | ast.Expr(value=ast.Constant()):
            return
        case ast.JoinedStr(values=values):
            yield "".join(str(one.value) if isinstance(one, ast.Constant) else "…" for one in values)
        case ast.Constant(value=str() as text):
            yield text
        case _:
            for child in ast.iter_child_nodes(node):
                yield from texts(child)


def messages() -> Iterator[str]:
    """Yield all reasons and warnings as they stand in the code."""
    yield from (what for what, _ in _MEANING.values())
    for name in WRITTEN:
        for text in texts(ast.parse((SOURCE / name).read_text(encoding="utf-8"))):
            if len(text.split()) >= FEWEST_WORDS and not text.startswith(";"):
                yield text


def test_every_finding_has_a_row() -> None:
    assert {*rows("Findings of `describe`")} == topics()


@pytest.mark.parametrize("message", sorted({*messages()}))
def test_every_reason_and_warning_has_a_row(message: str) -> None:
    assert [row for row in rows("Reasons of a verdict", "Warnings") if row in message]


def test_every_row_is_in_a_message_of_the_code() -> None:
    code = " ".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    code = re.sub(r'"\s+f?"', "", code)
    assert not [row for row in rows("Reasons of a verdict", "Warnings") if row not in code]

"""The pages of the repository, and the code in them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]

PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"))
    if "_build" not in path.parts
)


@dataclass(frozen=True, slots=True)
class Code:
    """Code in a page.

    Attributes:
        text: As it stands there.
        language: What its fence says; "" where there is none.
        kind: `fence`, `indented` or `inline`.
        line: Where it begins, from 1.
    """

    text: str
    language: str
    kind: str
    line: int


@cache
def tokens(page: str) -> tuple[Token, ...]:
    """Return the page as Markdown's tokens, those inside of lines too."""
    return tuple(_flat(MarkdownIt().enable("table").parse((ROOT / page).read_text(encoding="utf-8"))))


def code(page: str) -> list[Code]:
    """Return all code in a page."""
    kinds = {"fence": "fence", "code_block": "indented", "code_inline": "inline"}
    found, line = [], 0
    for token in tokens(page):
        line = token.map[0] + 1 if token.map else line
        if token.type in kinds:
            found.append(Code(token.content, token.info.strip(), kinds[token.type], line))
    return found


def links(page: str) -> list[str]:
    """Return where the links and pictures of a page lead."""
    found = [token.attrGet("href") or token.attrGet("src") for token in tokens(page)]
    return [str(target) for target in found if target]


def _flat(parsed: list[Token]) -> Iterator[Token]:
    for token in parsed:
        yield token
        yield from _flat(token.children or [])

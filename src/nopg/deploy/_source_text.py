"""What printed controllers share: where they are written, names, and comments."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from nopg.deploy._control_program import ControlProgram
from nopg.deploy._program import Call, Comment, Expression, If, Item, Loop, Number, Set, Statement
from nopg.errors import ArgumentError

__all__ = ["Printer", "bare", "column_lines", "plain_text", "source_target"]

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
    """Yield what the elements of inputs and outputs are, and the saved controller, for comments."""
    columns = program.columns
    if program.bundle is not None:
        yield f"manifest.json of the saved controller has the SHA-256 {program.bundle}"
    for what, names in (("measured", columns.measured), ("actions", columns.actions)):
        for k, one in enumerate(names):
            unit = f" [{columns.units[one]}]" if one in columns.units else ""
            limits = f", {program.low[k]:.6g} to {program.high[k]:.6g}" if what == "actions" else ""
            yield plain_text(f"{what}[{k}] = {one}{unit}{limits}")


class Printer(ABC):
    """Statements as lines of a language, whose forms a subclass gives.

    Attributes:
        comment: With the place of the text.
        assignment: With those of the target and of the value.
        loop: First and last line, with the places of the index, the count and the last index.
        condition: First line with the place of the condition, the line of the other case, and the last.
        flags: Of false and of true.
    """

    comment: ClassVar[str]
    assignment: ClassVar[str]
    loop: ClassVar[tuple[str, str]]
    condition: ClassVar[tuple[str, str, str]]
    flags: ClassVar[tuple[str, str]]

    def lines(self, statements: Sequence[Statement], depth: int) -> Iterator[str]:
        """Yield the lines of statements."""
        indent = "    " * depth
        for one in statements:
            match one:
                case Comment(text):
                    yield indent + self.comment.format(plain_text(text))
                case Set(target, value):
                    yield indent + self.assignment.format(self.text(target), bare(self.text(value)))
                case Loop(index, count, body):
                    begin, end = self.loop
                    yield indent + begin.format(index=index, count=count, last=count - 1)
                    yield from self.lines(body, depth + 1)
                    yield indent + end
                case If(condition, then, otherwise):
                    begin, other, end = self.condition
                    yield indent + begin.format(bare(self.text(condition)))
                    yield from self.lines(then, depth + 1)
                    if otherwise:
                        yield indent + other
                        yield from self.lines(otherwise, depth + 1)
                    yield indent + end

    def text(self, expression: Expression) -> str:
        """Return an expression, in parentheses where it has an operator between two parts."""
        match expression:
            case Number(bool() as flag):
                return self.flags[flag]
            case Number(value):
                return f"({self.number(value)})" if value < 0 else self.number(value)
            case Item(name, index):
                place = self.place(name)
                return place if index is None else f"{place}[{bare(self.text(index))}]"
            case Call(function, arguments):
                return self.call(function, [self.text(one) for one in arguments])
        raise AssertionError(expression)

    def number(self, value: float) -> str:
        """Return a constant; a float has a point or an exponent."""
        return repr(value)

    def place(self, name: str) -> str:
        """Return how a variable is named."""
        return name

    @abstractmethod
    def call(self, function: str, arguments: list[str]) -> str:
        """Return an operator or a function of printed arguments."""

"""Type-checked access to the fields of an untrusted JSON document."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from nopg.errors import BundleError

_WANTED = {str: "text", bool: "true or false", int: "a whole number", dict: "an object", list: "a list"}
_NOT_FINITE = ("inf", "-inf", "nan")
T = TypeVar("T")


class Fields:
    """A JSON object; a field of another type than requested raises an error with its name.

    Args:
        values: The object.
        place: The name of the document, for messages.

    Example:
        >>> fields = Fields({"discount": 0.97, "units": {"level": "m"}}, "result.json")
        >>> fields.number("discount"), fields.object("units").text("level")
        (0.97, 'm')
        >>> fields.text("discount")
        Traceback (most recent call last):
        nopg.errors.BundleError: result.json: 'discount' is 0.97, not text
    """

    def __init__(self, values: Mapping[str, Any], place: str) -> None:
        self.values, self.place = dict(values), place

    @classmethod
    def parse(cls, content: str, place: str) -> Fields:
        """Parse a JSON object."""
        try:
            values = json.loads(content, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            raise BundleError(f"{place} is not JSON: {error}") from None
        if not isinstance(values, dict):
            raise BundleError(f"{place} is not a JSON object")
        return cls(values, place)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all fields."""
        return tuple(self.values)

    def has(self, name: str) -> bool:
        """Return whether a field is present and not null."""
        return self.values.get(name) is not None

    def text(self, name: str) -> str:
        """Return a text."""
        return self._typed(name, str)

    def flag(self, name: str) -> bool:
        """Return true or false."""
        return self._typed(name, bool)

    def integer(self, name: str, *, least: int = 0) -> int:
        """Return a whole number of at least `least`."""
        value = self._typed(name, int)
        if isinstance(value, bool) or not least <= value < 2**63:
            raise self._wrong(name, f"a whole number from {least} on")
        return value

    def number(self, name: str, *, finite: bool = True) -> float:
        """Return a number; one that is not finite is stored as text, and refused unless finite is False."""
        value = self.values.get(name)
        if not finite and value in _NOT_FINITE:
            return float(value)
        try:
            number = float(value) if type(value) in {int, float} else math.nan  # type: ignore[arg-type]
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise self._wrong(name, "a number")
        return number

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts."""
        values = self._typed(name, list)
        if not all(isinstance(value, str) for value in values):
            raise self._wrong(name, "a list of texts")
        return tuple(values)

    def object(self, name: str) -> Fields:
        """Return an object within this one."""
        return Fields(self._typed(name, dict), f"{self.place}: {name}")

    def each(self, name: str, read: Callable[[Fields, str], T]) -> dict[str, T]:
        """Return an object of values of one type by name; empty if there is none."""
        inner = self.object(name) if self.has(name) else Fields({}, self.place)
        return {key: read(inner, key) for key in inner.names}

    def sequence(self, name: str, *, finite: bool = True) -> tuple[float, ...]:
        """Return a list of numbers."""
        values = {str(k): value for k, value in enumerate(self._typed(name, list))}
        inner = Fields(values, f"{self.place}: {name}")
        return tuple(inner.number(key, finite=finite) for key in inner.names)

    def interval(self, name: str) -> tuple[float, float]:
        """Return a list of two numbers, which need not be finite."""
        ends = self.sequence(name, finite=False)
        if len(ends) != 2:
            raise self._wrong(name, "two numbers")
        return ends[0], ends[1]

    def _typed(self, name: str, kind: type[T]) -> T:
        value = self.values.get(name)
        if not isinstance(value, kind):
            raise self._wrong(name, _WANTED[kind])
        return value

    def _wrong(self, name: str, wanted: str) -> BundleError:
        if name not in self.values:
            return BundleError(f"{self.place}: {name!r} is missing")
        return BundleError(f"{self.place}: {name!r} is {self.values[name]!r:.60}, not {wanted}")


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not a JSON number")

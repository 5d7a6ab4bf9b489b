"""Type-checked access to the fields of an untrusted JSON document."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, TypeVar

from nopg.errors import BundleError

_WANTED = {str: "text", bool: "true or false", int: "a whole number", dict: "an object", list: "a list"}
T = TypeVar("T")
_NOT_FINITE = ("inf", "-inf", "nan")


class Fields:
    """A JSON object; a field of another type than requested raises an error with its name.

    Args:
        values: The object.
        place: The name of the document, for messages.

    Example:
        >>> fields = Fields({"discount": 0.97, "units": {"level": "m"}}, "result.json")
        >>> fields.number("discount")
        0.97
        >>> fields.object("units").text("level")
        'm'
        >>> fields.text("discount")
        Traceback (most recent call last):
        nopg.errors.BundleError: result.json: 'discount' is 0.97, not text
    """

    def __init__(self, values: Mapping[str, Any], place: str) -> None:
        self._values, self.place = values, place

    @classmethod
    def parse(cls, content: bytes, place: str) -> Fields:
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
        return tuple(self._values)

    @property
    def values(self) -> dict[str, Any]:
        """A copy of all fields."""
        return dict(self._values)

    def has(self, name: str) -> bool:
        """Return whether a field is present and not null."""
        return self._values.get(name) is not None

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
        value = self._values.get(name)
        if not finite and value in _NOT_FINITE:
            return float(value)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._wrong(name, "a number")
        try:
            number = float(value)
        except OverflowError:
            raise self._wrong(name, "a number") from None
        if not math.isfinite(number):
            raise self._wrong(name, "a finite number")
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

    def numbers(self, name: str, *, finite: bool = True) -> dict[str, float]:
        """Return an object of numbers by name."""
        inner = self.object(name)
        return {key: inner.number(key, finite=finite) for key in inner.names}

    def sequence(self, name: str) -> tuple[float, ...]:
        """Return a list of finite numbers."""
        values = {str(k): value for k, value in enumerate(self._typed(name, list))}
        inner = Fields(values, f"{self.place}: {name}")
        return tuple(inner.number(key) for key in inner.names)

    def interval(self, name: str) -> tuple[float, float]:
        """Return a list of two numbers, which need not be finite."""
        values = self._typed(name, list)
        if len(values) != 2:
            raise self._wrong(name, "two numbers")
        ends = Fields(dict(zip(("low", "high"), values, strict=True)), f"{self.place}: {name}")
        return ends.number("low", finite=False), ends.number("high", finite=False)

    def _typed(self, name: str, kind: type[T]) -> T:
        value = self._values.get(name)
        if not isinstance(value, kind):
            raise self._wrong(name, _WANTED[kind])
        return value

    def _wrong(self, name: str, wanted: str) -> BundleError:
        if name not in self._values:
            return BundleError(f"{self.place}: {name!r} is missing")
        text = repr(self._values[name])
        shortened = text if len(text) <= 60 else text[:57] + "…"
        return BundleError(f"{self.place}: {name!r} is {shortened}, not {wanted}")


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not a JSON number")

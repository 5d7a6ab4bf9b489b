"""Type-checked access to the fields of an untrusted JSON document."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from nopg.errors import BundleError

T = TypeVar("T")


class Fields:
    """A JSON object; a field of another type than requested raises an error with its name.

    Args:
        values: The object.
        place: The name of the document, for messages.
    """

    def __init__(self, values: Mapping[str, Any], place: str) -> None:
        self.values, self.place = dict(values), place

    @classmethod
    def parse(cls, content: str, place: str) -> Fields:
        try:
            values = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise BundleError(f"{place} is not JSON: {error}") from None
        if not isinstance(values, dict):
            raise BundleError(f"{place} is not a JSON object")
        return cls(values, place)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.values)

    def has(self, name: str) -> bool:
        """Return whether a field is present and not null."""
        return self.values.get(name) is not None

    def text(self, name: str) -> str:
        return self._typed(name, str, "text")

    def flag(self, name: str) -> bool:
        return self._typed(name, bool, "true or false")

    def integer(self, name: str, *, least: int = 0) -> int:
        """Return a whole number of at least `least`."""
        value = self.values.get(name)
        fits = type(value) is int and least <= value < 2**63
        return int(self._checked(name, value, fits, f"a whole number from {least} on"))

    def number(self, name: str, *, finite: bool = True) -> float:
        """Return a number; one that is not finite is stored as text, and refused unless finite is False."""
        value = self.values.get(name)
        if not finite and value in ("inf", "-inf", "nan"):
            return float(value)
        fits = type(value) in {int, float} and abs(value) <= sys.float_info.max  # type: ignore[arg-type]
        return float(self._checked(name, value, fits, "a number"))

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts."""
        values, wanted = self._typed(name, list, "a list"), "a list of texts"
        return tuple(self._checked(name, values, all(isinstance(one, str) for one in values), wanted))

    def object(self, name: str) -> Fields:
        return Fields(self._typed(name, dict, "an object"), f"{self.place}: {name}")

    def each(self, name: str, read: Callable[[Fields, str], T]) -> dict[str, T]:
        """Return an object of values of one type by name; empty if there is none."""
        inner = self.object(name) if self.has(name) else Fields({}, self.place)
        return {key: read(inner, key) for key in inner.names}

    def sequence(self, name: str, *, finite: bool = True) -> tuple[float, ...]:
        """Return a list of numbers."""
        values = {str(k): value for k, value in enumerate(self._typed(name, list, "a list"))}
        inner = Fields(values, f"{self.place}: {name}")
        return tuple(inner.number(key, finite=finite) for key in inner.names)

    def interval(self, name: str) -> tuple[float, float]:
        """Return a list of two numbers, which need not be finite."""
        ends = self.sequence(name, finite=False)
        low, high = self._checked(name, ends, len(ends) == 2, "two numbers")
        return low, high

    def _typed(self, name: str, kind: type[T], wanted: str) -> T:
        value = self.values.get(name)
        found: T = self._checked(name, value, isinstance(value, kind), wanted)
        return found

    def _checked(self, name: str, value: Any, fits: bool, wanted: str) -> Any:
        if name not in self.values:
            raise BundleError(f"{self.place}: {name!r} is missing")
        if not fits:
            raise BundleError(f"{self.place}: {name!r} is {self.values[name]!r:.60}, not {wanted}")
        return value

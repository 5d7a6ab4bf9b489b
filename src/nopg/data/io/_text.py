"""The encoding of a text file: by its mark, else UTF-8, else cp1252 with a note."""

from __future__ import annotations

import codecs
from pathlib import Path

from nopg.errors import ArgumentError, DataError

_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_CHUNK = 1 << 20


def find_encoding(file: Path, given: str | None) -> tuple[str, tuple[str, ...]]:
    """Return the encoding in which the whole file can be read, and what to note about it.

    A file that is no UTF-8 is read as cp1252, the usual code of Western Windows, and noted.
    """
    if given is not None:
        try:
            codecs.lookup(given)
        except LookupError:
            raise ArgumentError(f"encoding is {given!r}; give a known one, e.g. utf-8 or cp1252") from None
        return _checked(file, given), ()
    with file.open("rb") as stream:
        start = stream.read(4)
    if (marked := next((name for mark, name in _MARKS if start.startswith(mark)), None)) is not None:
        return _checked(file, marked), () if marked == "utf-8-sig" else (f"encoding {marked}",)
    if (wrong := _first_fault(file, "utf-8")) is None:
        return "utf-8", ()
    if _first_fault(file, "cp1252") is not None:
        raise DataError(f"{file} is text neither in UTF-8 nor in cp1252 ({wrong}); give encoding=…")
    return "cp1252", (f"encoding cp1252, as it is not UTF-8 ({wrong})",)


def _checked(file: Path, encoding: str) -> str:
    if (wrong := _first_fault(file, encoding)) is not None:
        raise DataError(f"{file} is not text in {encoding} ({wrong}); save it again, as UTF-8")
    return encoding


def _first_fault(file: Path, encoding: str) -> str | None:
    """Return where the file cannot be decoded, or None; a NUL is no text in any encoding."""
    decoder, line = codecs.getincrementaldecoder(encoding)(), 1
    with file.open("rb") as stream:
        while True:
            chunk = stream.read(_CHUNK)
            try:
                text = decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                line += error.object[: error.start].count(b"\n")
                return f"byte 0x{error.object[error.start]:02x} in line {line}"
            if "\0" in text:
                line += text[: text.index("\0")].count("\n")
                raise DataError(
                    f"{file} holds a NUL byte in line {line}: it is no text, or was cut off while it was "
                    "written, or is UTF-16 without a mark (then give encoding='utf-16-le')"
                )
            line += text.count("\n")
            if not chunk:
                return None

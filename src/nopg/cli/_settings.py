"""What a log is and how it is trained on: options of the command line over the keys of one TOML file."""

from __future__ import annotations

import inspect
import json
import math
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from nopg._checks import check_target
from nopg.errors import ArgumentError

_LARGEST = 1 << 20

TEMPLATE = (Path(__file__).parent / "settings.toml").read_text(encoding="utf-8")
"""Every setting with its meaning and examples; `nopg init` writes it with guesses in place of examples."""
_EXAMPLE = re.compile(r"^#(\w+) = (.+)$", re.MULTILINE)

SETTINGS: Mapping[str, str] = dict(_EXAMPLE.findall(TEMPLATE))
"""Examples of every setting in TOML, ` | ` between them."""
_TRAINING = dict(_EXAMPLE.findall(TEMPLATE.partition("## Training")[2].partition("\n## ")[0]))
LOG = SETTINGS.keys() - (_TRAINING.keys() - {"starts"})
"""Those that say how a log is read; but for a few, arguments of `nopg.read_csv`."""
# In place of each other: the one that is typed counts, not the one in the file.
_EITHER = (("reward", "cost"), ("discount", "horizon"))


def option(text: str, *names: str, default: bool | str = False, **further: Any) -> Any:
    """Return an option with its help, and what is shown as its default."""
    return typer.Option(*names, help=text, show_default=default, **further)


def argument(name: str, text: str) -> Any:
    """Return an argument with its name in the usage and its help."""
    return typer.Argument(metavar=name, help=text, show_default=False)


AsJson = Annotated[bool, option("Print JSON.", "--json")]
Overwrite = Annotated[bool, option("Replace existing files.", "--overwrite")]
Run = Annotated[Path, argument("RUN", "A controller saved by `nopg fit`.")]
Texts = list[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """A log and the roles of its columns, as options of a command."""

    data: Annotated[Texts, argument("DATA...", "CSV or Parquet files, globs, a folder, or `minari:ID`.")] = (
        None
    )
    states: Annotated[Texts, option("State column; repeat for each.", "--state", "-s")] = None
    actions: Annotated[Texts, option("Action column; repeat for each.", "--action", "-a")] = None
    exogenous: Annotated[Texts, option("State that no action moves, e.g. a set point.")] = None
    reward: Annotated[str | None, option("Reward: a column or a formula.", "--reward", "-r")] = None
    cost: Annotated[str | None, option("Cost: a column or a formula, e.g. `(level - goal)**2`.")] = None
    time: Annotated[str | None, option("Time column.")] = None
    episode: Annotated[str | None, option("Column with another value in each episode.")] = None
    assigned: Annotated[Texts, option("Any setting, e.g. `lags.valve=2`.", "--set", metavar="KEY=VALUE")] = (
        None
    )
    config: Annotated[Path | None, option("File of settings, from `nopg init`.")] = None

    def settings(self, typed: Mapping[str, Any] | None = None, *, needs_data: bool = True) -> dict[str, Any]:
        """Return all settings by name; those `typed` or set on the command line go before the file."""
        options = {part.name: getattr(self, part.name) for part in fields(self)} | dict(typed or {})
        path, assigned = options.pop("config"), from_texts(options.pop("assigned") or ())
        given = assigned | {name: value for name, value in options.items() if value is not None}
        check(given, "the command line")
        kept = {} if path is None else read_toml(path)
        check(kept, str(path))
        for pair in _EITHER:
            if not given.keys().isdisjoint(pair):
                kept = {name: value for name, value in kept.items() if name not in pair}
            if {*pair} <= kept.keys() | given.keys():
                raise ArgumentError(f"a {pair[0]} and a {pair[1]} are given; name one of them")
        if needs_data and not (kept | given).get("data"):
            raise ArgumentError("no log is given; name its file, or a file of settings with --config")
        return kept | given


def from_texts(texts: Sequence[str]) -> dict[str, Any]:
    """Return the settings of `--set`: TOML, in which a text may stand without quotes.

    Example:
        >>> from_texts(["lags.valve=2", "lags.flow=1", "policy=pi"])
        {'lags': {'valve': 2, 'flow': 1}, 'policy': 'pi'}
    """
    lines = []
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise ArgumentError(f"--set {text!r} has no value; write e.g. --set lags.valve=2")
        lines.append(f"{key} = {value}")
        try:
            check(parse_toml(lines[-1], ""), "")
        except ArgumentError:
            lines[-1] = f"{key} = {json.dumps(value)}"
    found = parse_toml("\n".join(lines), f"--set {' '.join(texts)}")
    check(found, "--set")
    return found


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file."""
    try:
        with path.open("rb") as stream:
            content = stream.read(_LARGEST)  # of a device, not all there is
    except (OSError, ValueError) as error:
        raise ArgumentError(f"{path} cannot be read ({error})") from None
    return parse_toml(content, str(path))


def parse_toml(text: str | bytes, where: str) -> dict[str, Any]:
    """Return the content of a text, which `where` names in an error."""
    try:
        return tomllib.loads(text if isinstance(text, str) else text.decode())
    except (RecursionError, ValueError) as error:  # also what is no UTF-8
        raise ArgumentError(f"{where} cannot be read as TOML ({error})") from None


def check(values: Mapping[str, Any], where: str) -> None:
    """Refuse a setting that is not known or has another type than its examples; `where` says whose it is."""
    check_keys(values, SETTINGS, where)
    for name, value in values.items():
        if not takes(name, value):
            forms = SETTINGS[name].replace(" | ", " or ")
            raise ArgumentError(f"{where}: {name} is {repr(value)[:60]}; write e.g. {name} = {forms}")


def check_keys(table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    """Refuse a table with a key that nothing reads."""
    names = sorted(known)
    for name in sorted({*table} - {*names}):
        near = get_close_matches(name, names, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
        raise ArgumentError(f"{where} has {name!r}, which is not known; {hint}")


def examples(name: str) -> list[Any]:
    """Return the examples of a setting as values."""
    return [tomllib.loads(f"x = {text}")["x"] for text in SETTINGS[name].split(" | ")]


def takes(name: str, value: Any) -> bool:
    """Return whether a value is like an example of a setting; a text has to be one of several forms."""
    known = examples(name)
    if isinstance(value, str) and len(known) > 1 and name != "missing":  # whose texts hold a number
        return value in known
    return _fits(value, known)


def _fits(value: Any, examples: Sequence[Any]) -> bool:
    """Return whether a value has the type of an example, as have all that it holds."""
    if isinstance(value, dict | list):
        same = [one for one in examples if isinstance(one, type(value))]
        inner = [part for one in same for part in (one.values() if isinstance(one, dict) else one)]
        return bool(inner) and all(
            _fits(part, inner) for part in (value.values() if isinstance(value, dict) else value)
        )
    known = {type(example) for example in examples}
    if type(value) is int:
        return abs(value) < 2**63 and not known.isdisjoint({int, float})
    return type(value) in known and (not isinstance(value, float) or math.isfinite(value))


def check_writable(path: Path | None, *, overwrite: bool) -> None:
    """Refuse a file that cannot be written, before the work that it is to hold."""
    if path is None:
        return
    check_target(path, overwrite=overwrite)
    folder = next(one for one in path.absolute().parents if one.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ArgumentError(f"{path} cannot be written: {folder} is not a folder that you may write to")


def expand_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that takes the fields of its dataclass parameters as options of their own."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for name, one in inspect.signature(command, eval_str=True).parameters.items():
        expanded, kind = [one], one.annotation
        if is_dataclass(kind) and isinstance(kind, type):
            groups[name] = kind
            expanded = [*inspect.signature(kind, eval_str=True).parameters.values()]
        parameters += (option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in expanded)

    @wraps(command)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run

"""Options of derived columns, missing values and exogenous columns, from the text of a command line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nopg.cli._screen import ERR, show
from nopg.errors import ArgumentError, DataError

if TYPE_CHECKING:
    from nopg.data import Schema, Transitions

_INTEGRAL = re.compile(r"(\w+)\s*=(?!=)\s*(.+)", re.DOTALL)


def missing_of(texts: Sequence[str]) -> str | dict[str, str] | None:
    """Return the rules for missing values of `--missing hold:5` or `--missing flow=interpolate:3`.

    Example:
        >>> missing_of(["hold:5"]), missing_of(["flow=drop", "level=hold:2"])
        ('hold:5', {'flow': 'drop', 'level': 'hold:2'})
    """
    pairs = [(text.rpartition("=")[0], text.rpartition("=")[2]) for text in texts]
    everywhere = [rule for name, rule in pairs if not name]
    if len(everywhere) > 1 or (everywhere and len(pairs) > 1):
        raise ArgumentError(
            f"the rules for missing values are {', '.join(texts)}; give one for all columns, e.g. "
            "--missing hold:5, or one per column, e.g. --missing flow=interpolate:3"
        )
    return everywhere[0] if everywhere else dict(pairs) or None


def exogenous_of(texts: Sequence[str]) -> dict[str, str]:
    """Return what rollouts assume of columns, of `--exogenous setpoint` or `--exogenous weather=hold`.

    Example:
        >>> exogenous_of(["setpoint", "weather=hold"])
        {'setpoint': 'log', 'weather': 'hold'}
    """
    found = {}
    for text in texts:
        name, equals, kind = text.rpartition("=")
        found[name if equals else text] = kind if equals else "log"
    return found


def derive(
    data: Transitions, lags: Sequence[str], differences: Sequence[str], integrals: Sequence[str]
) -> Transitions:
    """Return the dataset with the columns of `--lags`, `--difference` and `--integral`."""
    counts: dict[str, int] = {}
    if "auto" in lags:
        from nopg.models import select_lags

        choice = select_lags(data)
        show(f"lags: {choice}", ERR)
        counts |= choice.lags
    for text in lags:
        if text != "auto":
            name, _, count = text.rpartition("=")
            if not (name and count.isdigit()):
                raise ArgumentError(f"{text!r} is no number of lags; write --lags valve=3, or --lags auto")
            counts[name] = int(count)
    sums = dict(map(_integral, integrals))
    if len(sums) < len(integrals):
        raise ArgumentError("two integrals have one name; write --integral total='level - setpoint'")
    return data.derive(lags=counts, differences=differences, integrals=sums)


def uses_derived(
    formula: str, lags: Sequence[str], differences: Sequence[str], integrals: Sequence[str]
) -> bool:
    """Return whether the formula of a reward names a column that is derived after reading."""
    from nopg._expressions import Expression

    if not (lags or differences or integrals):
        return False
    try:
        names = Expression(formula).names
    except DataError:
        return False  # a column, or a text that the reader refuses
    plain = {re.sub(r"^(?:next|diff)\((.*)\)$", r"\1", name) for name in names}
    known = {f"{name}_diff" for name in differences} | {_integral(text)[0] for text in integrals}
    lagged = {text.rpartition("=")[0] for text in lags}
    return any(
        name in known
        or ((lag := re.fullmatch(r"(.+)_lag\d+", name)) and ("auto" in lags or lag[1] in lagged))
        for name in plain
    )


def chosen_lags(schema: Schema) -> list[str]:
    """Return the options that give a schema its lags.

    Example:
        >>> from nopg.data import Transitions
        >>> data = Transitions.from_arrays([0.0, 1.0, 2.0], [0.0] * 3, [0.0] * 3, [1.0, 2.0, 3.0])
        >>> chosen_lags(data.derive(lags={"a0": 2}).schema)
        ['a0=2']
    """
    columns = (*schema.measured, *schema.actions)
    counts: Mapping[str, int] = {
        name: sum(f"{name}_lag{k}" in schema.derived for k in range(1, 1 + len(schema.derived)))
        for name in columns
    }
    return [f"{name}={count}" for name, count in counts.items() if count]


def _integral(text: str) -> tuple[str, str]:
    named = _INTEGRAL.fullmatch(text.strip())
    return (named[1], named[2]) if named else ("integral", text)

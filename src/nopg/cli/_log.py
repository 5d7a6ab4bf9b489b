"""Another log of the same plant, read with the columns of a saved controller."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nopg.cli._data import DataOptions
from nopg.errors import DataError

if TYPE_CHECKING:
    from nopg.bundles import Bundle
    from nopg.data import Schema, Transitions
    from nopg.training import TrainingResult

__all__ = ["LogOptions", "check_schema", "roles_of"]

_LISTS, _FLAGS = ("state", "action", "next_state"), ("drop_invalid",)
_TEXTS = ("reward", "cost", "terminated", "truncated", "episode", "time", "separator", "decimal")
_ARRAYS = (".h5", ".hdf5", ".npz")
# Both halves of a log, to which models are fitted, need twice the rows of a linear law's coefficients.
_ROWS_PER_COEFFICIENT = 4


def _column(text: str) -> Any:
    return typer.Option(help=text, rich_help_panel="Columns of the log", show_default="as in the log of RUN")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """Another log of the plant of a saved controller, as options of a command."""

    log: Annotated[
        str | None,
        typer.Option(
            help="Another log of the same plant, with the columns of the log of RUN.",
            show_default=False,
        ),
    ] = None
    reward: Annotated[str | None, _column("Reward column.")] = None
    cost: Annotated[str | None, _column("Cost column; the reward is its negative.")] = None
    episode: Annotated[str | None, _column("Episode column.")] = None
    time: Annotated[str | None, _column("Time column.")] = None

    def read(self, run: Path, result: TrainingResult) -> Transitions:
        """Return the transitions of the log with the schema of a saved controller, or refuse it."""
        from nopg.bundles import open_bundle

        bundle, schema = open_bundle(run), result.policy.schema
        options = self._options(bundle, schema)
        try:
            data = options.read()
        except DataError as error:
            roles = ", ".join(f"{name} {value}" for name, value in _spelled(options))
            raise DataError(f"{error} (as in {run}: {roles})") from None
        check_schema(data.schema, schema, str(self.log), str(run))
        data = replace(data, schema=schema)
        fewest = _ROWS_PER_COEFFICIENT * (1 + len(schema.states) + len(schema.actions))
        if len(data) < fewest:
            raise DataError(
                f"{self.log} is too short: it has {len(data)} transitions; give at least {fewest}"
            )
        _check_ranges(data, _known_values(bundle, result), str(self.log), str(run))
        return data

    def _options(self, bundle: Bundle, schema: Schema) -> DataOptions:
        """Return how the log of the saved controller was read, with what is given here instead."""
        roles: dict[str, Any] = {}
        if bundle.manifest.has("log"):
            saved = bundle.manifest.object("log")
            roles |= {name: list(saved.texts(name)) for name in _LISTS if saved.has(name)}
            roles |= {name: saved.flag(name) for name in _FLAGS if saved.has(name)}
            roles |= {name: saved.text(name) for name in _TEXTS if saved.has(name)}
        if self.reward or self.cost:
            roles = {name: role for name, role in roles.items() if name not in {"reward", "cost"}}
        given = {name: getattr(self, name) for name in ("reward", "cost", "episode", "time")}
        roles |= {name: value for name, value in given.items() if value}
        source = str(self.log)
        if not (source.startswith("minari:") or source.lower().endswith(_ARRAYS)):  # a table
            roles = {"state": list(schema.states), "action": list(schema.actions)} | roles
            roles |= {} if "cost" in roles else {"reward": roles.get("reward", "reward")}
        return DataOptions(data=source, **roles)


def roles_of(options: DataOptions) -> dict[str, Any]:
    """Return the roles of columns as `LogOptions` reads them from a saved controller."""
    known = {*_LISTS, *_FLAGS, *_TEXTS}
    chosen = {field.name: getattr(options, field.name) for field in fields(options) if field.name in known}
    return {name: value for name, value in chosen.items() if value}


def check_schema(schema: Schema, wanted: Schema, name: str, run: str) -> None:
    """Refuse other columns, or other units where both declare them."""
    for kind in ("states", "actions"):
        if (found := getattr(schema, kind)) != (columns := getattr(wanted, kind)):
            raise DataError(
                f"{name} has the {kind} {', '.join(found)}; those of {run} are {', '.join(columns)}"
            )
    for declared, known, what in (
        (schema.units, wanted.units, "is declared in"),
        (schema.angles, wanted.angles, "has the period"),
    ):
        for column in declared.keys() & known.keys():
            if declared[column] != known[column]:
                raise DataError(
                    f"{column} {what} {declared[column]} in {name} and {known[column]} in {run}; convert it"
                )


def _spelled(options: DataOptions) -> Iterator[tuple[str, str]]:
    for name, value in roles_of(options).items():
        if name in {*_LISTS, *_TEXTS} - {"separator", "decimal"}:
            yield name.replace("_", "-"), ", ".join(value) if isinstance(value, list) else value


def _known_values(bundle: Bundle, result: TrainingResult) -> Mapping[str, Any]:
    """Return the values of the saved log by kind; only those of typical states if it was not saved."""
    from nopg.training._saving import DATA

    if bundle.has(DATA):
        return bundle.arrays(DATA)
    return {"states": result.policy.schema.decode(result.condensed_support.places)}


def _check_ranges(data: Transitions, known: Mapping[str, Any], name: str, run: str) -> None:
    """Refuse a column most of whose values lie more than a range away from the range of the saved log.

    A controller may lead the plant beyond what was logged, but hardly that far: such a column is in other
    units. Angles are left out, as they may count turns.
    """
    import torch

    schema = data.schema
    for names, kind in ((schema.states, "states"), (schema.actions, "actions"), (("reward",), "rewards")):
        before = torch.as_tensor(known.get(kind, [])).reshape(-1, len(names))
        values = getattr(data, kind).reshape(-1, len(names))
        for column, old, new in zip(names, before.T, values.T, strict=True):
            if len(old) == 0 or column in schema.angles:
                continue
            low, high = float(old.min()), float(old.max())
            far = (new < 2 * low - high) | (new > 2 * high - low)
            if high > low and float(far.double().mean()) > 0.5:
                raise DataError(
                    f"{name}: {column} lies between {float(new.min()):.4g} and {float(new.max()):.4g}, in "
                    f"the log of {run} between {low:.4g} and {high:.4g}; convert it if it is in other units"
                )

"""What a dataset knows besides its rows, as JSON that travels inside a file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from nopg.data._columns import Columns
from nopg.errors import DataError

if TYPE_CHECKING:
    from nopg.data._transitions import Transitions

__all__ = ["KEY", "dump", "load"]

KEY = "nopg"


def dump(data: Transitions) -> str:
    """Return the schema and the declared starts as JSON; floats come back to the bit."""
    starts = data.initial_states
    return json.dumps(
        {
            "version": 1,
            "states": data.schema.states,
            "actions": data.schema.actions,
            "angles": dict(data.schema.angles),
            "units": dict(data.schema.units),
            "bounds": {name: list(bounds) for name, bounds in data.schema.bounds.items()},
            "initial_states": None if starts is None else starts.tolist(),
            "connected": data.episodes is not None,
            "weighted": data.weights is not None,
        }
    )


def load(text: str | bytes, source: str) -> tuple[Columns, bool]:
    """Return the arguments that `dump` wrote down, and whether the rows form episodes."""
    try:
        known: dict[str, Any] = json.loads(text)
        columns = Columns(
            states=[str(name) for name in known["states"]],
            actions=[str(name) for name in known["actions"]],
            angles={str(name): float(period) for name, period in known["angles"].items()},
            units={str(name): str(unit) for name, unit in known["units"].items()},
            bounds={str(name): (float(low), float(high)) for name, (low, high) in known["bounds"].items()},
            initial_states=known["initial_states"],
            weight="weight" if known.get("weighted") else None,
        )
        return columns, bool(known["connected"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{source}: the description stored under {KEY!r} is damaged ({error}); name the columns yourself"
        ) from error

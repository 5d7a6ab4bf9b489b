"""The schema and the declared starts of a dataset as JSON inside a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nopg._columns import Derived
from nopg.data._transitions import Transitions
from nopg.errors import DataError

KEY = "nopg"


def dump(data: Transitions) -> str:
    """Return the schema and the declared starts as JSON; floats are read back to the bit."""
    starts = data.initial_states
    return json.dumps(
        {
            "version": 1,
            **data.schema.to_dict(),
            "initial_states": None if starts is None else starts.tolist(),
            "connected": data.episodes is not None,
            "weighted": data.weights is not None,
            "marked": data.begins is not None,
        }
    )


def load(text: str | bytes, source: str) -> dict[str, Any]:
    """Return the values that `dump` stored, by the names of a reader's arguments, and `connected`."""
    try:
        known: dict[str, Any] = json.loads(text)
        return {
            "states": [str(name) for name in known["states"]],
            "actions": [str(name) for name in known["actions"]],
            "angles": {str(name): float(period) for name, period in known["angles"].items()},
            "units": {str(name): str(unit) for name, unit in known["units"].items()},
            "bounds": {str(name): (float(low), float(high)) for name, (low, high) in known["bounds"].items()},
            "reward": known.get("reward"),
            "derived": {str(name): Derived(*one) for name, one in known.get("derived", {}).items()},
            "exogenous": dict(known.get("exogenous", {})),
            "interval": known.get("interval"),
            "hold": dict(known.get("hold", {})),
            "levels": {str(name): tuple(map(float, one)) for name, one in known.get("levels", {}).items()},
            "initial_states": known["initial_states"],
            "weight": "weight" if known.get("weighted") else None,
            "begins": "begins" if known.get("marked") else None,
            "connected": bool(known["connected"]),
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{source}: the description stored under {KEY!r} is damaged ({error}); name the columns yourself"
        ) from error


def complete(known: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a reader, with stored values for those that are absent."""
    return {**known, **{name: value for name, value in given.items() if value is not None}}

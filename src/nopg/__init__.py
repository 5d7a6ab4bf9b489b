"""Logged data of a plant in, a better controller out, with a statement of what it will do.

`describe` takes a first look at logged transitions, `optimize` trains a controller from them,
`evaluate_offline` and `compare` say what any controller will do, `advise` which experiment would tell more,
`load` brings back one that was saved, `Monitor` watches it run. These packages are public too: `nopg.data`,
`nopg.data.io`, `nopg.models`, `nopg.bellman`, `nopg.paper`,
`nopg.policies`, `nopg.baselines`, `nopg.training`, `nopg.evaluation`, `nopg.planning`, `nopg.inspect`,
`nopg.report`, `nopg.bundles`, `nopg.deploy` (a saved controller runs without torch), `nopg.monitoring`,
`nopg.advice` and `nopg.envs`.

Names are imported when they are first used, so that what needs no torch does not import it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nopg._version import __version__

if TYPE_CHECKING:
    from nopg.advice import advise
    from nopg.data import Schema, Transitions
    from nopg.data.io import from_dataframe, read_csv, read_parquet
    from nopg.evaluation import compare, evaluate_offline
    from nopg.inspect import describe
    from nopg.models import LocalModel
    from nopg.monitoring import Monitor
    from nopg.paper import Bandwidths, PaperModel, select_bandwidths
    from nopg.training import TrainingConfig, TrainingResult, load, optimize

__all__ = [
    "Bandwidths",
    "LocalModel",
    "Monitor",
    "PaperModel",
    "Schema",
    "TrainingConfig",
    "TrainingResult",
    "Transitions",
    "__version__",
    "advise",
    "compare",
    "describe",
    "evaluate_offline",
    "from_dataframe",
    "load",
    "optimize",
    "read_csv",
    "read_parquet",
    "select_bandwidths",
]

_HOMES = {
    name: package
    for package, names in {
        "advice": ("advise",),
        "data": ("Schema", "Transitions"),
        "data.io": ("from_dataframe", "read_csv", "read_parquet"),
        "evaluation": ("compare", "evaluate_offline"),
        "inspect": ("describe",),
        "models": ("LocalModel",),
        "monitoring": ("Monitor",),
        "paper": ("Bandwidths", "PaperModel", "select_bandwidths"),
        "training": ("TrainingConfig", "TrainingResult", "load", "optimize"),
    }.items()
    for name in names
}
_PACKAGES = (
    "advice", "baselines", "bellman", "bundles", "data", "deploy", "envs", "errors", "evaluation", "inspect",
    "large_logs", "models", "monitoring", "paper", "planning", "policies", "report", "training",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import what is asked for from its package, or a package."""
    if name in _PACKAGES:
        return import_module(f"nopg.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'nopg' has no attribute {name!r}")
    value = getattr(import_module(f"nopg.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_PACKAGES})

"""`nopg compare`: a saved controller beside other controllers and the logged behaviour."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from nopg.cli._log import LogOptions, check_schema
from nopg.cli._options import AsJson, Run, run_name
from nopg.cli._screen import OUT, evaluation_values, print_json, show
from nopg.errors import ArgumentError, NopgError

if TYPE_CHECKING:
    import torch

    from nopg.data import Schema
    from nopg.evaluation import Comparison, OfflineEvaluator
    from nopg.training import TrainingResult

__all__ = ["compare"]

_LOGGED = "logged"


def compare(
    run: Run,
    *,
    others: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            help="Another controller; repeat for each. `FILE.py:NAME`: a function of raw states (m, d_s), or "
            "an object with such a call, without memory; [bold]the file is executed[/bold]. A folder or zip: "
            "another RUN. `logged`: the logged behaviour, which is always shown.",
            show_default=False,
        ),
    ] = None,
    new: LogOptions,
    as_json: AsJson = False,
) -> None:
    """Predict what controllers earn, and what each gains over the logged behaviour.

    On the model that RUN was trained on, or on a model of another log. All controllers are judged on the same
    model with the same noise, so a gain is more certain than the two returns.

    Example: `nopg compare tank --with pi.py:controller --with older-tank --log may.csv`
    """
    from nopg.training import load

    result = load(run)
    schema = result.policy.schema
    policies: dict[str, Any] = {run_name(run): result.policy}
    for text in others or []:
        if text in policies:
            raise ArgumentError(f"{text!r} is given twice; give each controller once")
        if text != _LOGGED:
            policies[text] = _policy(text, schema, run)
    found = _evaluator(run, result, new).compare(policies)
    if not as_json:
        _print(found)
        return
    print_json(
        {
            "discount": result.discount,
            "log": new.log,
            "best": found.best,
            "policies": {
                name: {
                    **evaluation_values(one),
                    "gain": asdict(found.gains[name]) if name in found.gains else None,
                }
                for name, one in found.evaluations.items()
            },
            "seen": None if found.seen is None else asdict(found.seen),
        }
    )


def _evaluator(run: Path, result: TrainingResult, new: LogOptions) -> OfflineEvaluator:
    from nopg.bundles import open_bundle
    from nopg.evaluation import OfflineEvaluator
    from nopg.training._saving import DATA

    if new.log is not None:
        return OfflineEvaluator(new.read(run, result), result.discount)
    if not open_bundle(run).has(DATA):
        raise ArgumentError(f"{run} was saved without its data; give a log of its plant with --log")
    return result.evaluator


def _policy(text: str, schema: Schema, run: Path) -> Any:
    """Return the controller that a text names: a function of a file, or that of another saved controller."""
    from nopg.training import load

    file, colon, name = text.rpartition(":")
    if not (colon and file.endswith(".py")):
        if text.endswith(".py"):
            raise ArgumentError(f"{text} is a file; name its function too, e.g. --with {text}:controller")
        policy = load(text).policy
        check_schema(policy.schema, schema, text, str(run))
        return policy
    return _checked(_from_file(Path(file), name), text, schema)


def _from_file(path: Path, name: str) -> Any:
    """Return an object of a Python file, which is executed."""
    if not path.is_file():
        raise ArgumentError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(f"_nopg_with_{path.stem}", path)
    assert spec is not None  # its name ends in .py
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # dataclasses look it up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ArgumentError(f"{path} cannot be executed: {type(error).__name__}: {error}") from error
    if not hasattr(module, name):
        functions = [known for known, one in vars(module).items() if callable(one) and known[0] != "_"]
        raise ArgumentError(f"{path} has no {name!r}; it has {', '.join(functions) or 'no function'}")
    return getattr(module, name)


def _checked(policy: Any, name: str, schema: Schema) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a controller whose failures name it."""
    from nopg._typing import as_tensor
    from nopg.evaluation import control_law

    law = control_law(policy, schema)

    def act(states: torch.Tensor) -> torch.Tensor:
        try:
            actions = as_tensor(law(states))
        except NopgError:
            raise
        except Exception as error:
            raise ArgumentError(
                f"{name} failed: {type(error).__name__}: {error}. It gets a torch tensor of shape (m, "
                f"{len(schema.states)}) with the columns {', '.join(schema.states)}"
            ) from error
        if not bool(actions.isfinite().all()):
            raise ArgumentError(f"{name} returned an action that is not finite; it must return numbers")
        return actions

    return act


def _print(found: Comparison) -> None:
    from nopg.inspect._wording import chance

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("policy", overflow="fold")
    for name in ("return", "gain over logged", "better", "verdict"):
        table.add_column(name)
    for name, one in found.evaluations.items():
        gain, mark = found.gains.get(name), " *" if name == found.best else ""
        table.add_row(
            f"{name}{mark}",
            _over(f"{one.expected_return:.4g}", one.interval, ".4g"),
            "" if gain is None else _over(f"{gain.mean:+.3g}", gain.interval, "+.3g"),
            "" if gain is None else chance(gain.probability_better),
            one.verdict,
        )
    OUT.print(table)
    notes = ["* best: the highest lower end of the return. Intervals are 95 %."]
    if found.seen is not None:
        seen = found.seen
        notes.append(
            f"The {seen.episodes} logged episodes that are long enough earned {seen.mean:.4g} ± "
            f"{seen.standard_error:.2g} (standard error)."
        )
    for line in (*notes, *_reasons(found)):
        show(line)


def _over(value: str, interval: Sequence[float], form: str) -> str:
    low, high = interval
    return f"{value}\n[{low:{form}}, {high:{form}}]"


def _reasons(found: Comparison) -> list[str]:
    """Return every reason of a verdict once, with the names it holds for."""
    names: dict[str, list[str]] = {}
    for name, one in found.evaluations.items():
        for reason in one.reasons:
            names.setdefault(reason, []).append(name)
    return [f"{', '.join(those)}: {reason}" for reason, those in names.items()]

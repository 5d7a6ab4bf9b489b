"""`nopg compare`: a saved controller beside other controllers and the logged behaviour."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from nopg.cli._log import has_data, read_log
from nopg.cli._options import AsJson, Log, Run, run_name
from nopg.cli._screen import OUT, print_json, show
from nopg.errors import ArgumentError

if TYPE_CHECKING:
    import torch

    from nopg.data import Schema
    from nopg.evaluation import Comparison


def compare(
    run: Run,
    *,
    others: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            help="Another controller; repeat for each. `FILE.py:NAME`: a function of raw states (m, d_s), or "
            "an object with such a call, without memory; [bold]the file is executed[/bold]. Another RUN. "
            "`lqr`, `mpc`, `cloning`, `simc`, `neural`: a baseline made of the same log; "
            "`td3bc`, `iql`, `cql`: one by d3rlpy, in minutes. `logged`: the logged behaviour, always shown.",
            show_default=False,
        ),
    ] = None,
    log: Log = None,
    as_json: AsJson = False,
) -> None:
    """Predict what controllers earn, and what each gains over the logged behaviour.

    All are judged on one model with the same noise: that of RUN, or one of another log.

    Example: `nopg compare tank --with lqr --with pi.py:controller --with older-tank`
    """
    from nopg.baselines import BASELINES
    from nopg.evaluation import OfflineEvaluator
    from nopg.training import load

    result = load(run)
    policies: dict[str, Any] = {run_name(run): result.policy}
    baselines: list[str] = []
    for text in others or []:
        if text in policies or text in baselines:
            raise ArgumentError(f"{text!r} is given twice; give each controller once")
        if text in BASELINES:
            baselines.append(text)
        elif text != "logged":
            policies[text] = _policy(text, result.policy.schema)
    if log is not None:
        evaluator = OfflineEvaluator(read_log(log, run, result), result.discount)
    elif has_data(run):
        evaluator = result.evaluator
    else:
        raise ArgumentError(f"{run} was saved without its data; give a log of its plant with --log")
    found = evaluator.compare(policies, baselines=baselines)
    if not as_json:
        _print(found)
        return
    print_json(
        {
            "discount": result.discount,
            "log": log,
            "best": found.best,
            "evaluations": {name: one.to_dict() for name, one in found.evaluations.items()},
            "gains": {name: gain.to_dict() for name, gain in found.gains.items()},
            "seen": None if found.seen is None else asdict(found.seen),
        }
    )


def _policy(text: str, schema: Schema) -> Any:
    """Return the controller that a text names: a function of a file, or that of another saved controller."""
    from nopg.evaluation._other_log import check_columns
    from nopg.training import load

    if text.endswith(".py"):
        raise ArgumentError(f"{text} is a file; name its function too, e.g. --with {text}:controller")
    file, _, name = text.rpartition(":")
    if file.endswith(".py"):
        return _checked(_execute(Path(file), name), text, schema)
    policy = load(text).policy
    check_columns(policy.schema, schema, text)
    return policy


def _execute(path: Path, name: str) -> Any:
    """Execute a Python file and return an object of it."""
    module = sys.modules["nopg_compared"] = ModuleType("nopg_compared")  # dataclasses look it up there
    module.__file__ = str(path)
    try:
        exec(compile(path.read_bytes(), path, "exec"), vars(module))
    except OSError:
        raise
    except Exception as error:
        raise ArgumentError(f"{path} cannot be executed: {type(error).__name__}: {error}") from error
    if name not in vars(module):
        known = [key for key, one in vars(module).items() if callable(one) and not key.startswith("_")]
        raise ArgumentError(f"{path} has no {name!r}; it has {', '.join(known) or 'no function'}")
    return getattr(module, name)


def _checked(policy: Any, name: str, schema: Schema) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a controller whose failures name it."""
    from nopg._typing import as_tensor
    from nopg.evaluation import control_law

    law = control_law(policy, schema)

    def act(states: torch.Tensor) -> torch.Tensor:
        try:
            actions = as_tensor(law(states))
        except Exception as error:
            raise ArgumentError(
                f"{name} failed: {type(error).__name__}: {error}. It is given a torch tensor of shape (m, "
                f"{len(schema.states)}), the columns {', '.join(schema.states)}"
            ) from error
        if not bool(actions.isfinite().all()):
            raise ArgumentError(f"{name} returned an action that is not a finite number")
        return actions

    return act


def _print(found: Comparison) -> None:
    from nopg.inspect._wording import chance

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("policy", overflow="fold")
    for name in ("return", "gain over logged", "better", "verdict"):
        table.add_column(name)
    reasons: dict[str, list[str]] = {}
    best = found.best
    for name, one in found.evaluations.items():
        gain = found.gains.get(name)
        table.add_row(
            Text(f"{name} *" if name == best else name),
            Text("{:.4g}\n[{:.4g}, {:.4g}]".format(one.expected_return, *one.interval)),
            Text("{:+.3g}\n[{:+.3g}, {:+.3g}]".format(gain.mean, *gain.interval) if gain else ""),
            chance(gain.probability_better) if gain else "",
            one.verdict,
        )
        for reason in one.reasons:
            reasons.setdefault(reason, []).append(name)
    OUT.print(table)
    if found.legend:
        show(found.legend)
    show("* the simplest that no other is better than beyond doubt; intervals are 95 %")
    if seen := found.seen:
        show(f"logged episodes earned {seen.mean:.4g} ± {seen.standard_error:.2g} (n = {seen.episodes})")
    for reason, names in reasons.items():
        show(f"{', '.join(names)}: {reason}")

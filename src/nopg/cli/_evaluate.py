"""`nopg evaluate`: a saved controller in an environment, or judged from another log of its plant."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nopg.cli._log import read_log
from nopg.cli._options import AsJson, Log, Run
from nopg.cli._screen import in_interval, predicted, print_json, print_rows, verdict
from nopg.errors import ArgumentError, MissingExtraError

if TYPE_CHECKING:
    from nopg.evaluation import Evaluation
    from nopg.evaluation._other_log import Realised
    from nopg.training import TrainingResult


def evaluate(
    run: Run,
    *,
    env: Annotated[
        str | None,
        typer.Option(help="Id of a Gymnasium environment, e.g. nopg/Pendulum-v0.", show_default=False),
    ] = None,
    log: Log = None,
    episodes: Annotated[int, typer.Option(min=1, help="Number of episodes in the environment.")] = 10,
    steps: Annotated[int, typer.Option(min=1, help="Maximum number of steps of an episode.")] = 500,
    seed: Annotated[int, typer.Option(help="Random seed of the initial states.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Show what a controller earns beside what was promised: in an environment, or by another log.

    A log gives a prediction of its own, and, if it was recorded under the controller, what that earned.

    Examples: `nopg evaluate tank --log may.csv`, `nopg evaluate pendulum --env nopg/Pendulum-v0`
    """
    from nopg.training import load

    if (env is None) == (log is None):
        raise ArgumentError("give one of --env and --log")
    result = load(run)
    if log is not None:
        _judge(run, result, log, as_json)
    elif env is not None:
        _simulate(result, env, {"episodes": episodes, "steps": steps, "seed": seed}, as_json)


def _judge(run: Path, result: TrainingResult, log: str, as_json: bool) -> None:
    """Show a controller by another log."""
    from nopg.evaluation import evaluate_on_log

    found = evaluate_on_log(result, read_log(log, run, result))
    predicted_return, promised = found.assessment, found.promised
    if as_json:
        print_json({"log": log, "discount": result.discount, **found.to_dict()})
        return
    rows = {"predicted return": predicted(predicted_return, result.discount)}
    rows["verdict"] = verdict(predicted_return.verdict, predicted_return.reasons)
    rows["notes"] = "\n".join(predicted_return.notes)
    rows["starts"] = f"{found.starts}, of {log if found.of_this_log else f'the log of {run}'}"
    rows["leaves the data"] = f"{100 * predicted_return.unknown_mass:.2f} % of the time, discounted"
    rows["promised"] = in_interval(promised.expected_return, promised.interval)
    rows["this log says"] = found.against_promise or "nothing certain"
    if found.against_promise and predicted_return.verdict == "weak":
        rows["this log says"] += ", a rough answer"
    rows["recorded under"] = "this controller" if found.realised else "another controller"
    rows["recorded under"] += f": {100 * found.own_actions:.0f} % of the actions are its own"
    if found.realised:
        rows["realised return"] = _realised(found.realised)
    print_rows(rows)


def _realised(found: Realised) -> str:
    count = len(found.returns)
    if found.mean is None:
        return f"unknown: no episode has the {found.steps_needed} steps that the discount needs"
    over = f"over {count} episode{'s' if count > 1 else ''}"
    if found.promised is None:
        return f"{in_interval(found.mean, found.interval)}, {over}"
    against = found.against_promise or "promised without certainty"
    return f"{found.mean:.5g} {over}, {against} ({found.promised:.5g})"


def _simulate(result: TrainingResult, env: str, settings: dict[str, int], as_json: bool) -> None:
    """Run a controller in an environment."""
    from nopg.evaluation import evaluate as run_in

    environment = _make(env)
    try:
        found = run_in(result.policy, environment, **settings)
    finally:
        environment.close()
    discounted = found.discounted(result.discount)
    if as_json:
        print_json(
            {
                "env": env,
                "episodes": settings["episodes"],
                "returns": found.returns.tolist(),
                "mean_return": found.mean,
                "lengths": found.lengths.tolist(),
                "discounted_return": discounted,
                "expected_return": result.expected_return,
                "interval": result.interval,
                "verdict": result.verdict,
                "notes": result.notes,
                "discount": result.discount,
            }
        )
        return
    print_rows(
        {
            "return": _returns(found),
            "episode": f"{float(found.lengths.double().mean()):.4g} steps on average",
            f"discounted by {result.discount:g}": f"{discounted:.5g}",
            "predicted": f"{predicted(result, result.discount)}, from the data's initial states",
            "verdict": verdict(result.verdict, result.reasons),
            "notes": "\n".join(result.notes),
        }
    )


def _make(name: str) -> Any:
    """Return a Gymnasium environment by its id."""
    try:
        import gymnasium
    except ImportError as error:
        raise MissingExtraError("gymnasium", "gymnasium") from error
    import_module("nopg.envs.gymnasium")  # registers ours
    try:
        return gymnasium.make(name)
    except gymnasium.error.Error as error:
        ours = ", ".join(sorted(known for known in gymnasium.registry if known.startswith("nopg/")))
        raise ArgumentError(f"there is no environment {name!r} ({error}); of ours there are {ours}") from None


def _returns(found: Evaluation) -> str:
    low, high, count = float(found.returns.min()), float(found.returns.max()), len(found.returns)
    spread = "" if low == high else f" (from {low:.5g} to {high:.5g})"
    return f"{found.mean:.5g} over {count} episode{'s' if count > 1 else ''}{spread}"

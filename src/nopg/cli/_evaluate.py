"""`nopg evaluate`: a saved controller in an environment, or judged from another log of its plant."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nopg.cli._log import has_data, read_log
from nopg.cli._options import AsJson, Log, Run
from nopg.cli._screen import in_interval, predicted, print_json, print_rows, verdict
from nopg.errors import ArgumentError, MissingExtraError

if TYPE_CHECKING:
    import torch

    from nopg.data import Transitions
    from nopg.evaluation import Assessment, Evaluation
    from nopg.training import TrainingResult

# A log is the controller's own if so many of its actions differ by at most this share of their range.
_OWN_ROWS, _SAME_ACTION = 0.95, 0.01
# Fewer episodes do not tell how much their returns vary.
_FEWEST_EPISODES = 3


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
    """Judge a controller from another log."""
    from nopg.evaluation import OfflineEvaluator

    data = read_log(log, run, result)
    here = _promise(run, result, data.starts)
    promise = here or result  # as saved, which holds for the starts of RUN alone
    starts = data.starts if here else result.start_support.states
    evaluator = OfflineEvaluator(data.with_starts(starts), result.discount)
    found = evaluator.assess(result.policy)
    # Both returns are from these starts, which are no sample in a comparison.
    exact = OfflineEvaluator(data.starting_at(starts), result.discount, model=evaluator.model)
    from_these = exact.assess(result.policy).interval
    own = _own_share(result, data)
    realised = _realised(run, result, data) if own >= _OWN_ROWS else None
    against = _against(from_these, promise) if found.verdict != "not identifiable" else None
    if as_json:
        print_json(
            {
                "log": log,
                "rows": len(data),
                "starts": {"of": "log" if here else "run", "number": len(starts)},
                "discount": result.discount,
                "predicted": found.to_dict(),
                "promised": {
                    name: getattr(promise, name) for name in ("expected_return", "interval", "verdict")
                },
                "against_promise": against,
                "own_actions": own,
                "realised": realised,
            }
        )
        return
    rows = {"predicted return": predicted(found, result.discount)}
    rows["verdict"] = verdict(found.verdict, found.reasons)
    rows["notes"] = "\n".join(found.notes)
    rows["starts"] = f"{len(starts)}, of {log if here else f'the log of {run}'}"
    rows["leaves the data"] = f"{100 * found.unknown_mass:.2f} % of the time, discounted"
    rows["promised"] = in_interval(promise.expected_return, promise.interval)
    rows["this log says"] = against or "nothing certain"
    rows["this log says"] += ", a rough answer" if against and found.verdict == "weak" else ""
    rows["recorded under"] = "this controller" if realised else "another controller"
    rows["recorded under"] += f": {100 * own:.0f} % of the actions are its own"
    if realised:
        rows["realised return"] = _realised_text(realised)
    print_rows(rows)


def _promise(run: Path, result: TrainingResult, starts: torch.Tensor) -> Assessment | None:
    """Return what the model of the training predicts from other starts; None if it was not saved."""
    from nopg.evaluation import OfflineEvaluator

    if not has_data(run):
        return None
    problem = result.problem.multistep
    v, data = problem.unknown_value, problem.data.with_starts(starts)
    model = OfflineEvaluator(data, result.discount, model=problem.model, unknown_value=v)
    return model.assess(result.policy)


def _own_share(result: TrainingResult, data: Transitions) -> float:
    """Return the share of rows whose actions are those of the controller."""
    import torch

    from nopg.evaluation._control_law import PolicyLaw

    own = PolicyLaw.of(result.policy, data.schema).mode(data.features)
    both = torch.cat([own, data.actions])
    tolerance = _SAME_ACTION * (both.amax(dim=0) - both.amin(dim=0))
    return float(((own - data.actions).abs() <= tolerance).all(dim=1).double().mean())


def _realised(run: Path, result: TrainingResult, data: Transitions) -> dict[str, Any]:
    """Return what the episodes of a log under the controller earned, and how that compares with the promise.

    Where the model of the training was saved, every episode is compared with the promise from its own start,
    so that the spread of the starts does not count as chance.
    """
    import torch

    from nopg.evaluation._assessment import DEVIATIONS
    from nopg.evaluation._behavior import UNSEEN, episode_returns

    starts, returns = episode_returns(data, result.discount, continued=True)
    count = len(returns)
    if count == 0:
        needed = math.ceil(math.log(UNSEEN) / math.log(result.discount))
        return {"episodes": 0, "steps_needed": needed}
    chance, apart, promise = 0.0, returns, _promise(run, result, starts)
    if promise:
        paths = promise.paths.returns[0].view(promise.paths.repeats, -1)
        chance = float(paths.var(dim=0).mean().sqrt()) if len(paths) > 1 else 0.0
        own = {tuple(state): k for k, state in enumerate(promise.paths.by_start.starts.states.tolist())}
        predicted = promise.paths.by_start.returns
        apart = torch.stack(  # the model may have been asked about some of many starts
            [
                one - predicted[own[start]]
                for one, start in zip(returns, map(tuple, starts.tolist()), strict=True)
                if start in own
            ]
        )
    spread = max(chance, float(apart.std()) if len(apart) >= _FEWEST_EPISODES else 0.0)
    mean, half = float(returns.mean()), DEVIATIONS * spread / len(apart) ** 0.5
    known = promise is not None or count >= _FEWEST_EPISODES
    return {
        "mean": mean,
        "interval": (mean - half, mean + half) if known else None,
        "episodes": count,
        "returns": returns.tolist(),
        "promised": promise.expected_return if promise else None,
        "against_promise": _against((mean - half, mean + half), promise) if promise else None,
    }


def _realised_text(realised: dict[str, Any]) -> str:
    count = realised["episodes"]
    if not count:
        return f"unknown: no episode has the {realised['steps_needed']} steps that the discount needs"
    over = f"over {count} episode{'s' if count > 1 else ''}"
    if realised["promised"] is None:
        return f"{in_interval(realised['mean'], realised['interval'])}, {over}"
    against = realised["against_promise"] or "promised without certainty"
    return f"{realised['mean']:.5g} {over}, {against} ({realised['promised']:.5g})"


def _against(interval: tuple[float, float], promise: TrainingResult | Assessment) -> str | None:
    """Return on which side of a promised interval another lies; None if nothing certain was promised."""
    if promise.interval is None or promise.verdict == "not identifiable":
        return None
    if interval[1] < promise.interval[0]:
        return "less than promised"
    return "more than promised" if interval[0] > promise.interval[1] else "as promised"


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
    from nopg.envs import register

    register()
    try:
        return gymnasium.make(name)
    except gymnasium.error.Error as error:
        ours = ", ".join(sorted(known for known in gymnasium.registry if known.startswith("nopg/")))
        raise ArgumentError(f"there is no environment {name!r} ({error}); of ours there are {ours}") from None


def _returns(found: Evaluation) -> str:
    low, high, count = float(found.returns.min()), float(found.returns.max()), len(found.returns)
    spread = "" if low == high else f" (from {low:.5g} to {high:.5g})"
    return f"{found.mean:.5g} over {count} episode{'s' if count > 1 else ''}{spread}"

"""`nopg evaluate`: run a saved controller in an environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from nopg.cli._options import AsJson, Run
from nopg.cli._screen import predicted, print_json, print_rows, verdict
from nopg.errors import ArgumentError, MissingExtraError

if TYPE_CHECKING:
    from nopg.evaluation import Evaluation

__all__ = ["evaluate"]


def evaluate(
    run: Run,
    *,
    env: Annotated[str, typer.Option(help="Id of a Gymnasium environment, e.g. nopg/Pendulum-v0.")],
    episodes: Annotated[int, typer.Option(min=1, help="Number of episodes.")] = 10,
    steps: Annotated[int, typer.Option(min=1, help="Maximum number of steps of an episode.")] = 500,
    seed: Annotated[int, typer.Option(help="Random seed of the initial states.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Run a controller in an environment and show its return beside the predicted one.

    Example: `nopg evaluate pendulum --env nopg/Pendulum-v0 --episodes 1`
    """
    from nopg.evaluation import evaluate as run_in
    from nopg.training import load

    result = load(run)
    environment = _make(env)
    try:
        found = run_in(result.policy, environment, episodes=episodes, steps=steps, seed=seed)
    finally:
        environment.close()
    discounted = found.discounted(result.discount)
    if as_json:
        print_json(
            {
                "env": env,
                "episodes": episodes,
                "returns": found.returns.tolist(),
                "mean_return": found.mean,
                "lengths": found.lengths.tolist(),
                "discounted_return": discounted,
                "expected_return": result.expected_return,
                "interval": result.interval,
                "verdict": result.verdict,
                "discount": result.discount,
            }
        )
        return
    print_rows(
        {
            "return": _returns(found),
            "episode": f"{float(found.lengths.double().mean()):.4g} steps on average",
            f"discounted by {result.discount:g}": f"{discounted:.5g}",
            "predicted": f"{predicted(result)}, from the data's initial states",
            "verdict": verdict(result),
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

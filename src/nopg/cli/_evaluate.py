"""`nopg evaluate`: run a saved controller in an environment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nopg.cli._screen import figures_that_matter, guarded, predicted, print_json, verdict
from nopg.errors import ArgumentError, MissingExtraError
from nopg.evaluation import Evaluation
from nopg.evaluation import evaluate as run_in
from nopg.training import load

__all__ = ["Run", "evaluate", "make_environment"]

Run = Annotated[
    Path, typer.Argument(metavar="RUN", help="What `nopg fit` wrote: a folder or zip.", show_default=False)
]


@guarded
def evaluate(
    run: Run,
    *,
    env: Annotated[str, typer.Option(help="The id of a Gymnasium environment, e.g. nopg/Pendulum-v0.")],
    episodes: Annotated[int, typer.Option(min=1, help="Number of episodes.")] = 10,
    steps: Annotated[int, typer.Option(min=1, help="The length of an episode that does not end.")] = 500,
    seed: Annotated[int, typer.Option(help="Random seed of the initial states.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Run a controller in an environment, beside what was predicted of it.

    Example: `nopg evaluate pendulum --env nopg/Pendulum-v0 --episodes 1`
    """
    result = load(run)
    environment = make_environment(env)
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
    figures_that_matter(
        {
            "return": _returns(found),
            "episode": f"{float(found.lengths.double().mean()):.4g} steps on average",
            f"discounted by {result.discount:g}": f"{discounted:.5g}",
            "predicted": f"{predicted(result)}, from the data's initial states",
            "verdict": verdict(result),
        }
    )


def make_environment(name: str) -> Any:
    """Return an environment of Gymnasium by its id, ours among them."""
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
    low, high = float(found.returns.min()), float(found.returns.max())
    spread = "" if low == high else f" (from {low:.5g} to {high:.5g})"
    return (
        f"{found.mean:.5g} over {len(found.returns)} episode{'s' if len(found.returns) > 1 else ''}{spread}"
    )

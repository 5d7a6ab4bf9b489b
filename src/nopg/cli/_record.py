"""`nopg record`: a person steers, and a dataset comes out."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from nopg.cli._screen import ERR, print_json
from nopg.errors import ArgumentError, MissingExtraError

__all__ = ["record"]


def record(
    env: Annotated[str, typer.Argument(metavar="ENV", help="The id of a Gymnasium environment.")],
    *,
    dataset: Annotated[str, typer.Option(help="The id of the new Minari dataset, e.g. car/human-v0.")],
    episodes: Annotated[int, typer.Option(min=1, help="How many.")] = 10,
    device: Annotated[Literal["keyboard", "mouse"], typer.Option(help="What steers.")] = "keyboard",
    frames_per_second: Annotated[
        float | None, typer.Option("--fps", help="Steps per second.", show_default="the environment's")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of the first episode.", show_default="none")] = None,
    author: Annotated[str | None, typer.Option(help="Who steers; kept with the dataset.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Steer an environment in a window; every episode is saved as it ends.

    P starts and pauses, arrows steer, Esc ends. Example: `nopg record MountainCarContinuous-v0 --dataset
    car/human-v0`, then `nopg fit minari:car/human-v0 …`
    """
    try:
        import gymnasium
    except ImportError as error:
        raise MissingExtraError("gymnasium", "render,minari") from error
    from nopg.envs import register
    from nopg.envs._record import record as steer

    register()
    try:
        made = gymnasium.make(env, render_mode="rgb_array")
    except gymnasium.error.Error as error:
        raise ArgumentError(f"there is no environment {env!r} that draws itself ({error})") from None
    try:
        found = steer(
            made,
            dataset_id=dataset,
            episodes=episodes,
            device=device,
            frames_per_second=frames_per_second,
            seed=seed,
            author=author,
        )
    finally:
        made.close()
    count = 0 if found is None else int(found.total_episodes)
    if as_json:
        print_json({"dataset": dataset if count else None, "episodes": count})
    elif count:
        ERR.print(f"{count} episodes in minari:{dataset}")
    else:
        ERR.print("nothing was recorded")

"""Records demonstrations: a person controls a Gymnasium environment in a window (mountain-car study).

    python -m studies.recorder MountainCarContinuous-v0 --dataset car/human-v0

writes a Minari dataset, which `nopg.Transitions` and `nopg fit minari:car/human-v0` read. Needs
`pip install 'nopg[render,minari]'`.
"""

from __future__ import annotations

import argparse
import copy
import json
import logging
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import numpy as np
import numpy.typing as npt

from nopg.errors import ArgumentError, MissingExtraError, NopgError

if TYPE_CHECKING:
    import gymnasium
    import minari

__all__ = ["record"]

_log = logging.getLogger(__name__)

Device = Literal["keyboard", "mouse"]

# For each action the key of its lower bound and the key of its upper bound.
_KEYS = (("left", "right"), ("down", "up"), ("a", "d"), ("s", "w"))
_MOUSE_AXES = 2
_PANEL_HEIGHT = 56  # pixels below the picture, for two lines of text


def record(
    env: gymnasium.Env[Any, Any],
    *,
    dataset_id: str,
    episodes: int = 10,
    device: Device = "keyboard",
    frames_per_second: float | None = None,
    seed: int | None = None,
    author: str | None = None,
    description: str | None = None,
) -> minari.MinariDataset | None:
    """Let a person control an environment in a window, and save the episodes as a Minari dataset.

    Each episode starts when P is pressed. The keys ← → set the first action to its bounds, ↓ ↑ the second,
    A D the third and S W the fourth. Without a key, an action is 0, or the value nearest to 0 within its
    bounds. With the mouse, the horizontal position of the pointer sets the first action and the vertical
    position the second. P pauses and resumes. Esc, or closing the window, ends the recording; the current
    episode is saved as truncated.

    Each episode is saved when it ends. The stored action is the one passed to the environment, within its
    bounds; termination and truncation are stored as the environment reports them.

    Args:
        env: Made with `render_mode="rgb_array"`, with finite bounds on one to four continuous actions (two
            with the mouse). The caller closes it.
        dataset_id: The name of a new Minari dataset, such as `mountaincar/human-v0`.
        episodes: Number of episodes to record, at least 1.
        device: Keyboard or mouse.
        frames_per_second: Steps per second; by default the `render_fps` of the environment, else 30.
        seed: Episode k is reset with seed + k; without a seed the starts are not reproducible.
        author: Stored in the metadata of the dataset.
        description: Stored in the metadata of the dataset.

    Returns:
        The dataset, or None if the recording ended before the first step.
    """
    if episodes < 1:
        raise ArgumentError(f"episodes must be at least 1, got {episodes}")
    controls = Controls.for_env(env, device)
    writer = _DatasetWriter(env, dataset_id, author=author, description=description)
    window = _PygameWindow(
        f"nopg: {dataset_id}", frames_per_second or float(env.metadata.get("render_fps") or 30)
    )
    try:
        for k in range(episodes):
            title = f"episode {k + 1} of {episodes}"
            log, quit_ = record_episode(
                env, controls, window, title=title, seed=None if seed is None else seed + k
            )
            writer.add(log)
            if quit_:
                break
    finally:
        window.close()
    return writer.dataset


@dataclass(frozen=True, slots=True)
class UserInput:
    """Keyboard and mouse since the last poll.

    Attributes:
        pressed: The names of the keys that are or were down.
        pointer: Position of the mouse in the picture: (0, 0) at the lower left, (1, 1) at the upper right.
        pause: P was pressed an odd number of times.
        quit: Esc was pressed, or the window closed.
    """

    pressed: frozenset[str] = frozenset()
    pointer: tuple[float, float] = (0.5, 0.5)
    pause: bool = False
    quit: bool = False


class Window(Protocol):
    """Input and display: a pygame window, or a script in a test."""

    def poll(self) -> UserInput:
        """Return the input since the last call."""

    def show(self, picture: npt.NDArray[np.uint8], lines: Sequence[str]) -> None:
        """Show a picture (height, width, 3) and lines of text, and wait until the next step is due."""


@dataclass(frozen=True, slots=True, eq=False)
class Controls:
    """The map from user input to an action within its bounds."""

    low: npt.NDArray[Any]
    high: npt.NDArray[Any]
    device: Device = "keyboard"

    @classmethod
    def for_env(cls, env: gymnasium.Env[Any, Any], device: Device) -> Controls:
        """Return the controls of an environment; one that cannot be controlled is refused."""
        gymnasium = _gymnasium()
        if device not in get_args(Device):
            raise ArgumentError(f"device is {device!r}; give one of {', '.join(get_args(Device))}")
        if env.render_mode != "rgb_array":
            raise ArgumentError(
                f"the environment's render_mode is {env.render_mode!r}; "
                "make it with gymnasium.make(…, render_mode='rgb_array')"
            )
        space, most = env.action_space, len(_KEYS) if device == "keyboard" else _MOUSE_AXES
        if not isinstance(space, gymnasium.spaces.Box) or not np.issubdtype(space.dtype, np.floating):
            raise ArgumentError(f"the action space is {space}; recording needs a Box of continuous actions")
        if len(space.shape) != 1 or not 1 <= space.shape[0] <= most:
            raise ArgumentError(
                f"actions have shape {space.shape}; the {device} controls 1 to {most} of them"
            )
        if not space.is_bounded():
            raise ArgumentError(
                f"the action space is {space}; recording needs finite bounds, such as RescaleAction gives"
            )
        return cls(space.low, space.high, device)

    @property
    def help(self) -> str:
        """One line of instructions."""
        if self.device == "mouse":
            return "mouse: action"
        return " ".join(f"{low}/{high}" for low, high in _KEYS[: len(self.low)]) + ": action"

    def action(self, given: UserInput) -> npt.NDArray[Any]:
        """Return the action (d_a,) in the dtype of the bounds and within them."""
        action = np.zeros_like(self.low)
        if self.device == "mouse":
            action[:] = self.low + np.asarray(given.pointer[: len(action)]) * (self.high - self.low)
        else:
            for k, (down, up) in enumerate(_KEYS[: len(action)]):
                if (down in given.pressed) != (up in given.pressed):
                    action[k] = self.low[k] if down in given.pressed else self.high[k]
        return np.asarray(np.clip(action, self.low, self.high))


@dataclass(slots=True)
class EpisodeLog:
    """One episode during the recording, with one more observation than steps."""

    observations: list[Any]
    seed: int | None = None
    actions: list[npt.NDArray[Any]] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    terminations: list[bool] = field(default_factory=list)
    truncations: list[bool] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def ended(self) -> bool:
        """Whether the last step terminated or truncated the episode."""
        return bool(self.rewards) and (self.terminations[-1] or self.truncations[-1])

    def add(
        self, action: npt.NDArray[Any], observation: object, reward: float, *, ends: tuple[bool, bool]
    ) -> None:
        """Add a step: the applied action, its outcome, and the flags (terminated, truncated)."""
        self.actions.append(action.copy())
        # Some environments return the array that they change in the next step.
        self.observations.append(copy.deepcopy(observation))
        self.rewards.append(float(reward))
        self.terminations.append(bool(ends[0]))
        self.truncations.append(bool(ends[1]))

    def truncate(self) -> None:
        """Mark the last step as truncated unless the episode has ended."""
        if self.rewards and not self.ended:
            self.truncations[-1] = True


def record_episode(
    env: gymnasium.Env[Any, Any],
    controls: Controls,
    window: Window,
    *,
    title: str = "",
    seed: int | None = None,
) -> tuple[EpisodeLog, bool]:
    """Record one episode; return its log, and whether the person quit."""
    observation, _ = env.reset(seed=seed)
    log = EpisodeLog([copy.deepcopy(observation)], seed=seed)
    paused = True
    while not log.ended:
        given = window.poll()
        if given.quit:
            log.truncate()
            return log, True

        paused ^= given.pause
        if not paused:
            action = controls.action(given)
            observation, reward, terminated, truncated, _ = env.step(action.copy())
            log.add(action, observation, float(reward), ends=(terminated, truncated))

        state = ("press P to start" if len(log) == 0 else "paused, press P") if paused else controls.help
        status = f"{title}   step {len(log)}   return {sum(log.rewards):.2f}"
        picture = np.asarray(env.render(), dtype=np.uint8)
        window.show(picture, [status, f"{state}   P: pause   Esc: end"])
    return log, False


class _DatasetWriter:
    """The Minari dataset, created with the first episode and extended by each further one."""

    def __init__(
        self, env: gymnasium.Env[Any, Any], dataset_id: str, *, author: str | None, description: str | None
    ) -> None:
        library = _minari()
        # Checked before the first episode is recorded.
        try:
            library.dataset.minari_dataset.parse_dataset_id(dataset_id)
        except ValueError as error:
            raise ArgumentError(
                f"dataset_id is {dataset_id!r}; give something like 'mountaincar/human-v0'"
            ) from error
        if library.storage.datasets_root_dir.get_dataset_path(dataset_id).exists():
            raise ArgumentError(f"a dataset {dataset_id!r} exists already; give the next version number")
        self.env, self.dataset_id = env, dataset_id
        self.author, self.description = author, description
        self.dataset: minari.MinariDataset | None = None

    def add(self, log: EpisodeLog) -> None:
        """Save an episode, unless it has no step."""
        if len(log) == 0:
            return
        buffer = _minari().data_collector.EpisodeBuffer(
            seed=log.seed,
            observations=_stacked(self.env.observation_space, log.observations),
            actions=log.actions,
            rewards=log.rewards,
            terminations=log.terminations,
            truncations=log.truncations,
        )
        if self.dataset is None:
            self.dataset = self._create(buffer)
        else:
            self.dataset.update_dataset_from_buffer([buffer])
        _log.info("%s: saved an episode of %d steps, return %g", self.dataset_id, len(log), sum(log.rewards))

    def _create(self, buffer: object) -> minari.MinariDataset:
        with warnings.catch_warnings():
            # Minari warns about missing contact details.
            warnings.filterwarnings("ignore", message=".*(is set to None|env_spec is None)")
            return _minari().create_dataset_from_buffers(
                self.dataset_id,
                [buffer],
                env=self.env.spec,
                observation_space=self.env.observation_space,
                action_space=self.env.action_space,
                algorithm_name="a person (studies.recorder of nopg)",
                author=self.author,
                description=self.description,
                jpeg_encoding=False,
            )


class _PygameWindow:
    """A window with keyboard and mouse."""

    def __init__(self, title: str, frames_per_second: float) -> None:
        self.pygame = _pygame()
        self.pygame.display.init()
        self.pygame.font.init()
        self.pygame.display.set_caption(title)
        self.font = self.pygame.font.Font(None, 24)
        self.clock, self.frames_per_second = self.pygame.time.Clock(), frames_per_second
        self.size = (1, 1)  # of the picture
        self.held: set[str] = set()

    def poll(self) -> UserInput:
        pg = self.pygame
        pressed, pause, quit_ = set(self.held), False, False
        if pg.display.get_surface() is None:
            return UserInput()
        for event in pg.event.get():
            if event.type == pg.QUIT:
                quit_ = True
            elif event.type == pg.KEYDOWN:
                name = pg.key.name(event.key)
                self.held.add(name)
                pressed.add(name)
                pause ^= event.key == pg.K_p
                quit_ |= event.key == pg.K_ESCAPE
            elif event.type == pg.KEYUP:
                self.held.discard(pg.key.name(event.key))

        (x, y), (width, height) = pg.mouse.get_pos(), self.size
        pointer = x / max(width - 1, 1), 1 - y / max(height - 1, 1)
        return UserInput(frozenset(pressed), pointer, pause, quit_)

    def show(self, picture: npt.NDArray[np.uint8], lines: Sequence[str]) -> None:
        pg = self.pygame
        height, width = picture.shape[:2]
        self.size = (width, height)
        screen = pg.display.get_surface()
        if screen is None or screen.get_size() != (width, height + _PANEL_HEIGHT):
            screen = pg.display.set_mode((width, height + _PANEL_HEIGHT))

        screen.fill((245, 245, 245))
        screen.blit(pg.surfarray.make_surface(picture.swapaxes(0, 1)), (0, 0))
        for k, line in enumerate(lines):
            screen.blit(self.font.render(line, True, (20, 20, 20)), (10, height + 6 + 24 * k))
        pg.display.flip()
        self.clock.tick(self.frames_per_second)

    def close(self) -> None:
        self.pygame.display.quit()


def _stacked(space: gymnasium.Space[Any], values: list[Any]) -> Any:
    """Turn a list of observations into an observation of lists, as Minari stores it."""
    spaces = _gymnasium().spaces
    if isinstance(space, spaces.Dict):
        return {key: _stacked(part, [value[key] for value in values]) for key, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_stacked(part, [value[k] for value in values]) for k, part in enumerate(space))
    return values


def _gymnasium() -> Any:
    try:
        import gymnasium
    except ImportError as error:
        raise MissingExtraError("gymnasium", "gymnasium") from error
    return gymnasium


def _pygame() -> Any:
    try:
        import pygame
    except ImportError as error:
        raise MissingExtraError("pygame-ce", "render") from error
    return pygame


def _minari() -> Any:
    try:
        import h5py  # noqa: F401  Minari itself would import them only to save the first episode.
        import minari.data_collector
        import minari.dataset.minari_dataset
        import minari.storage.datasets_root_dir
        import PIL  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("minari[hdf5]", "minari") from error
    return minari


def main(arguments: Sequence[str] | None = None) -> int:
    """Record a dataset from the command line and return the exit code."""
    given = _parser().parse_args(arguments)
    try:
        count = _record_from(given)
    except NopgError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if given.json:
        sys.stdout.write(json.dumps({"dataset": given.dataset if count else None, "episodes": count}) + "\n")
    else:
        sys.stderr.write(f"{count} episodes in minari:{given.dataset}\n" if count else "nothing recorded\n")
    return 0


def _record_from(given: argparse.Namespace) -> int:
    """Return the number of recorded episodes."""
    gymnasium = _gymnasium()
    from nopg.envs import register

    register()
    try:
        env = gymnasium.make(given.env, render_mode="rgb_array")
    except gymnasium.error.Error as error:
        raise ArgumentError(f"there is no environment {given.env!r} with pictures ({error})") from None
    try:
        dataset = record(
            env,
            dataset_id=given.dataset,
            episodes=given.episodes,
            device=given.device,
            frames_per_second=given.fps,
            seed=given.seed,
            author=given.author,
        )
    finally:
        env.close()
    return 0 if dataset is None else int(dataset.total_episodes)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m studies.recorder",
        description="Control an environment in a window and save each episode when it ends. P starts and "
        "pauses, the arrow keys set the action, Esc ends.",
    )
    parser.add_argument("env", metavar="ENV", help="Id of a Gymnasium environment.")
    parser.add_argument("--dataset", required=True, help="Id of the new Minari dataset, e.g. car/human-v0.")
    parser.add_argument("--episodes", type=int, default=10, help="Number of episodes (10).")
    parser.add_argument("--device", choices=get_args(Device), default="keyboard", help="Input (keyboard).")
    parser.add_argument("--fps", type=float, help="Steps per second (the environment's own).")
    parser.add_argument("--seed", type=int, help="Seed of the first episode (none).")
    parser.add_argument("--author", help="Stored in the metadata of the dataset.")
    parser.add_argument("--json", action="store_true", help="Print JSON.")
    return parser


if __name__ == "__main__":
    sys.exit(main())

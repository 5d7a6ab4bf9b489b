"""Demonstrations: a person steers a Gymnasium environment in a window, and every episode is saved."""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import numpy as np
import numpy.typing as npt

from nopg.errors import ArgumentError, MissingExtraError

if TYPE_CHECKING:
    import gymnasium
    import minari

__all__ = ["record"]

_log = logging.getLogger(__name__)

Device = Literal["keyboard", "mouse"]

# For each action dimension the key that pushes it down and the key that pushes it up.
_KEYS = (("left", "right"), ("down", "up"), ("a", "d"), ("s", "w"))
_MOUSE_DIRECTIONS = 2  # x and y
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
    """Let a person steer an environment in a window, and write what happens as a Minari dataset.

    Every episode waits for P. The arrows ← → push the first action to its bounds, ↓ ↑ the second, A D the
    third and S W the fourth; without a key an action is 0, or the nearest to it that its bounds allow. With
    the mouse, the pointer's place in the picture sets the first action from left to right and the second
    from bottom to top. P pauses and goes on. Esc, or closing the window, ends the recording: the episode
    under way is kept as truncated.

    An episode is on the disk as soon as it ends, so nothing but the one under way can be lost. The stored
    action is the one given to the environment, inside its bounds; termination and truncation are stored as
    the environment reported them.

    Args:
        env: Made with `render_mode="rgb_array"`, with finite bounds on one to four continuous actions (two
            with the mouse). It stays open.
        dataset_id: The name of a new Minari dataset, such as `mountaincar/human-v0`.
        episodes: After how many episodes the recording ends, at least 1.
        device: What steers, the keyboard or the mouse.
        frames_per_second: Steps per second; the environment's own `render_fps`, or else 30, if absent.
        seed: Episode k is reset with seed + k; without a seed the starts are not reproducible.
        author: Who steered; kept with the dataset.
        description: What was demonstrated; kept with the dataset.

    Returns:
        The dataset, or None if the person left before the first step.

    Example:
        >>> import gymnasium  # doctest: +SKIP
        >>> env = gymnasium.make("MountainCarContinuous-v0", render_mode="rgb_array")  # doctest: +SKIP
        >>> record(env, dataset_id="mountaincar/human-v0", episodes=10)  # doctest: +SKIP
    """
    if episodes < 1:
        raise ArgumentError(f"episodes must be at least 1, got {episodes}")
    wheel = Wheel.of(env, device)
    archive = _Archive(env, dataset_id, author=author, description=description)
    pace = frames_per_second or float(env.metadata.get("render_fps") or 30)

    window = _PygameWindow(f"nopg: {dataset_id}", pace)
    try:
        for k in range(episodes):
            title = f"episode {k + 1} of {episodes}"
            log, left = drive(env, wheel, window, title=title, seed=None if seed is None else seed + k)
            archive.add(log)
            if left:
                break
    finally:
        window.close()
    return archive.dataset


@dataclass(frozen=True, slots=True)
class Hands:
    """What the person did since the last look.

    Attributes:
        pressed: The names of the keys that are down, or were for a moment.
        pointer: Where the mouse is in the picture: (0, 0) at the lower left, (1, 1) at the upper right.
        pause: P was pressed an odd number of times.
        leave: Esc was pressed, or the window closed.
    """

    pressed: frozenset[str] = frozenset()
    pointer: tuple[float, float] = (0.5, 0.5)
    pause: bool = False
    leave: bool = False


class Cockpit(Protocol):
    """Where the person sits: a window, or a script in a test."""

    def hands(self) -> Hands:
        """Return what the person did since the last call."""

    def show(self, picture: npt.NDArray[np.uint8], lines: Sequence[str]) -> None:
        """Show a picture (height, width, 3) and lines of text until the next step is due."""


@dataclass(frozen=True, slots=True, eq=False)
class Wheel:
    """The map from hands to an action inside the bounds."""

    low: npt.NDArray[Any]
    high: npt.NDArray[Any]
    device: Device = "keyboard"

    @classmethod
    def of(cls, env: gymnasium.Env[Any, Any], device: Device) -> Wheel:
        """Return the wheel for an environment, or refuse one that cannot be steered."""
        gymnasium = _gymnasium()
        if device not in get_args(Device):
            raise ArgumentError(f"device is {device!r}; give one of {', '.join(get_args(Device))}")
        if env.render_mode != "rgb_array":
            raise ArgumentError(
                f"the environment's render_mode is {env.render_mode!r}; "
                "make it with gymnasium.make(…, render_mode='rgb_array')"
            )
        space, most = env.action_space, len(_KEYS) if device == "keyboard" else _MOUSE_DIRECTIONS
        if not isinstance(space, gymnasium.spaces.Box) or not np.issubdtype(space.dtype, np.floating):
            raise ArgumentError(f"the action space is {space}; recording needs a Box of continuous actions")
        if len(space.shape) != 1 or not 1 <= space.shape[0] <= most:
            raise ArgumentError(f"actions have shape {space.shape}; the {device} steers 1 to {most} of them")
        if not space.is_bounded():
            raise ArgumentError(
                f"the action space is {space}; a push needs finite bounds, such as RescaleAction gives"
            )
        return cls(space.low, space.high, device)

    @property
    def help(self) -> str:
        """One line that says how to steer."""
        if self.device == "mouse":
            return "mouse: push"
        keys = " ".join(f"{low}/{high}" for low, high in _KEYS[: len(self.low)])
        return f"{keys}: push"

    def action(self, hands: Hands) -> npt.NDArray[Any]:
        """Return the action (d_a,) the hands ask for, in the dtype of the bounds and inside them."""
        action = np.zeros_like(self.low)
        if self.device == "mouse":
            action[:] = self.low + np.asarray(hands.pointer[: len(action)]) * (self.high - self.low)
        else:
            for k, (down, up) in enumerate(_KEYS[: len(action)]):
                if (down in hands.pressed) != (up in hands.pressed):
                    action[k] = self.low[k] if down in hands.pressed else self.high[k]
        return np.asarray(np.clip(action, self.low, self.high))


@dataclass(slots=True)
class EpisodeLog:
    """One episode while it is being recorded; observations are one more than steps."""

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
        """Whether the last step ended the episode, for either reason."""
        return bool(self.rewards) and (self.terminations[-1] or self.truncations[-1])

    @property
    def return_so_far(self) -> float:
        """The undiscounted sum of the rewards."""
        return sum(self.rewards)

    def add(
        self, action: npt.NDArray[Any], observation: object, reward: float, *, ends: tuple[bool, bool]
    ) -> None:
        """Note a step: the applied action, what it led to, and the flags (terminated, truncated)."""
        self.actions.append(action.copy())
        # Some environments return the very array they go on changing.
        self.observations.append(copy.deepcopy(observation))
        self.rewards.append(float(reward))
        self.terminations.append(bool(ends[0]))
        self.truncations.append(bool(ends[1]))

    def cut(self) -> None:
        """Mark the end of the recording where the episode itself had not ended."""
        if self.rewards and not self.ended:
            self.truncations[-1] = True


def drive(
    env: gymnasium.Env[Any, Any], wheel: Wheel, cockpit: Cockpit, *, title: str = "", seed: int | None = None
) -> tuple[EpisodeLog, bool]:
    """Let the person steer one episode; return its log, and whether the person left."""
    observation, _ = env.reset(seed=seed)
    log = EpisodeLog([copy.deepcopy(observation)], seed=seed)
    waiting = True
    while not log.ended:
        hands = cockpit.hands()
        if hands.leave:
            log.cut()
            return log, True

        waiting ^= hands.pause
        if not waiting:
            action = wheel.action(hands)
            observation, reward, terminated, truncated, _ = env.step(action.copy())
            log.add(action, observation, float(reward), ends=(terminated, truncated))

        state = ("press P to start" if len(log) == 0 else "paused, press P") if waiting else wheel.help
        status = f"{title}   step {len(log)}   return {log.return_so_far:.2f}"
        cockpit.show(_picture(env), [status, f"{state}   P: pause   Esc: end"])
    return log, False


class _Archive:
    """The Minari dataset, which comes to be with the first episode and grows with each."""

    def __init__(
        self, env: gymnasium.Env[Any, Any], dataset_id: str, *, author: str | None, description: str | None
    ) -> None:
        library = _minari()
        # Found out now, not when the person has driven an episode.
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
        """Save an episode; one without a step holds nothing to save."""
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
        _log.info("%s: saved an episode of %d steps, return %g", self.dataset_id, len(log), log.return_so_far)

    def _create(self, buffer: object) -> minari.MinariDataset:
        with warnings.catch_warnings():
            # Minari asks for contact details, which a person at a private desk need not leave.
            warnings.filterwarnings("ignore", message=".*(is set to None|env_spec is None)")
            return _minari().create_dataset_from_buffers(
                self.dataset_id,
                [buffer],
                env=self.env.spec,
                observation_space=self.env.observation_space,
                action_space=self.env.action_space,
                algorithm_name="a person at the controls (nopg.envs.record)",
                author=self.author,
                description=self.description,
                jpeg_encoding=False,
            )


class _PygameWindow:
    """A cockpit with a real window, keyboard and mouse."""

    def __init__(self, title: str, frames_per_second: float) -> None:
        self.pygame = _pygame()
        self.pygame.display.init()
        self.pygame.font.init()
        self.pygame.display.set_caption(title)
        self.font = self.pygame.font.Font(None, 24)
        self.clock, self.frames_per_second = self.pygame.time.Clock(), frames_per_second
        self.size = (1, 1)  # of the picture
        self.held: set[str] = set()

    def hands(self) -> Hands:
        pg = self.pygame
        touched, pause, leave = set(self.held), False, False
        if pg.display.get_surface() is None:
            return Hands()
        for event in pg.event.get():
            if event.type == pg.QUIT:
                leave = True
            elif event.type == pg.KEYDOWN:
                name = pg.key.name(event.key)
                self.held.add(name)
                touched.add(name)
                pause ^= event.key == pg.K_p
                leave |= event.key == pg.K_ESCAPE
            elif event.type == pg.KEYUP:
                self.held.discard(pg.key.name(event.key))

        (x, y), (width, height) = pg.mouse.get_pos(), self.size
        return Hands(frozenset(touched), (x / max(width - 1, 1), 1 - y / max(height - 1, 1)), pause, leave)

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


def _picture(env: gymnasium.Env[Any, Any]) -> npt.NDArray[np.uint8]:
    return np.asarray(env.render(), dtype=np.uint8)


def _stacked(space: gymnasium.Space[Any], values: list[Any]) -> Any:
    """Turn a list of observations into an observation of lists, the order Minari stores."""
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
        import h5py  # noqa: F401  Minari would miss them only when the first episode is to be saved.
        import minari.data_collector
        import minari.dataset.minari_dataset
        import minari.storage.datasets_root_dir
        import PIL  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("minari[hdf5]", "minari") from error
    return minari

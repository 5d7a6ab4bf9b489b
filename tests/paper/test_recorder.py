"""Recording without a real screen: input to actions, the log of an episode, the dataset, the command."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

pytest.importorskip("gymnasium", reason="recording needs gymnasium")
pytest.importorskip("pygame", reason="recording needs pygame-ce")
pytest.importorskip("minari", reason="recording needs minari")

import gymnasium
import minari
import pygame

from nopg.errors import ArgumentError, MissingExtraError
from studies import recorder
from studies.recorder import Controls, EpisodeLog, UserInput, main, record, record_episode

START, STOP, ESCAPE = UserInput(pause=True), UserInput(pause=True), UserInput(quit=True)
RIGHT, LEFT, IDLE = UserInput(frozenset({"right"})), UserInput(frozenset({"left"})), UserInput()
START_RIGHT = UserInput(frozenset({"right"}), pause=True)


class Track(gymnasium.Env[Any, Any]):
    """A line from 0: terminated at 3, truncated after 6 steps; it returns the array it goes on changing."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 1000}  # noqa: RUF012

    def __init__(self, low: Sequence[float] = (-1.0,), high: Sequence[float] = (1.0,)) -> None:
        self.render_mode = "rgb_array"
        bounds = np.array(low, dtype=np.float32), np.array(high, dtype=np.float32)
        self.action_space = gymnasium.spaces.Box(*bounds)
        self.observation_space = gymnasium.spaces.Box(-10, 10, (1,), np.float64)
        self.place, self.steps = np.zeros(1), 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.place[:], self.steps = 0.0, 0
        return self.place, {}

    def step(self, action: npt.NDArray[Any]) -> Any:
        self.place += action[0]
        action[:] = 99  # what an environment does to its argument is no part of the record
        self.steps += 1
        return self.place, -1.0, bool(self.place[0] >= 3), self.steps >= 6, {}

    def render(self) -> Any:
        return np.full((40, 60, 3), 200, dtype=np.uint8)


class Script:
    """A window whose input follows a script and is idle after it."""

    def __init__(self, *inputs: UserInput) -> None:
        self.script, self.shown = list(inputs), list[Sequence[str]]()

    def poll(self) -> UserInput:
        assert len(self.shown) < 1000, "the recording does not end"
        return self.script.pop(0) if self.script else IDLE

    def show(self, picture: npt.NDArray[np.uint8], lines: Sequence[str]) -> None:
        self.shown.append(lines)

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def no_screen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Script]:
    """Replace the window by a script."""

    def use(*inputs: UserInput) -> Script:
        script = Script(*inputs)
        monkeypatch.setattr(recorder, "_PygameWindow", lambda title, pace: script)
        return script

    return use


def controls(
    low: Sequence[float] = (-1.0,), high: Sequence[float] = (1.0,), device: Any = "keyboard"
) -> Controls:
    return Controls.for_env(Track(low, high), device)


# UserInput to actions.


@pytest.mark.parametrize(
    ("keys", "expected"),
    [((), 0.0), (("right",), 2.0), (("left",), -1.0), (("left", "right"), 0.0), (("x", "up", "space"), 0.0)],
)
def test_arrows_push_to_the_bounds_and_cancel_each_other(keys: Sequence[str], expected: float) -> None:
    action = controls((-1.0,), (2.0,)).action(UserInput(frozenset(keys)))
    assert action.tolist() == [expected]
    assert action.dtype == np.float32


def test_further_actions_have_their_own_keys() -> None:
    four = controls([-1.0, -2.0, -3.0, -4.0], [1.0, 2.0, 3.0, 4.0])
    assert four.action(UserInput(frozenset({"left", "up", "a", "w"}))).tolist() == [-1.0, 2.0, -3.0, 4.0]
    assert four.help == "left/right down/up a/d s/w: action"


def test_no_input_gives_the_action_nearest_to_zero_inside_the_bounds() -> None:
    assert controls([2.0, -5.0], [3.0, -4.0]).action(IDLE).tolist() == [2.0, -4.0]


@pytest.mark.parametrize(
    ("x", "expected"), [(0.0, -1.0), (0.5, 0.5), (0.75, 1.25), (1.0, 2.0), (1.2, 2.0), (-0.1, -1.0)]
)
def test_the_pointer_sets_the_action_linearly_and_never_beyond_the_bounds(x: float, expected: float) -> None:
    assert controls((-1.0,), (2.0,), "mouse").action(UserInput(pointer=(x, 0.0))).tolist() == [expected]


def test_the_height_of_the_pointer_sets_the_second_action() -> None:
    both = controls([-1.0, 0.0], [1.0, 8.0], "mouse")
    assert both.action(UserInput(pointer=(0.25, 0.75))).tolist() == [-0.5, 6.0]


def test_an_environment_that_cannot_be_controlled_is_refused_with_the_reason() -> None:
    discrete, unseen = Track(), Track()
    discrete.action_space = gymnasium.spaces.Discrete(3)
    unseen.render_mode = None
    with pytest.raises(ArgumentError, match="continuous"):
        Controls.for_env(discrete, "keyboard")
    with pytest.raises(ArgumentError, match="render_mode='rgb_array'"):
        Controls.for_env(unseen, "keyboard")
    with pytest.raises(ArgumentError, match="finite bounds"):
        controls([-np.inf], [1.0])
    with pytest.raises(ArgumentError, match="1 to 4"):
        controls([-1.0] * 5, [1.0] * 5)
    with pytest.raises(ArgumentError, match="mouse controls 1 to 2"):
        controls([-1.0] * 3, [1.0] * 3, "mouse")
    with pytest.raises(ArgumentError, match="keyboard, mouse"):
        controls(device="pedals")


# One episode.


def recorded(*inputs: UserInput) -> tuple[EpisodeLog, bool, Script]:
    script = Script(*inputs)
    log, left = record_episode(Track(), controls(), script, title="episode 1 of 1", seed=7)
    return log, left, script


def test_an_episode_waits_for_the_start_key() -> None:
    log, _, script = recorded(IDLE, RIGHT, RIGHT, START_RIGHT, RIGHT, RIGHT)
    assert np.ravel(log.actions).tolist() == [1.0] * 3
    assert "press P to start" in script.shown[0][1]


def test_a_terminated_episode_is_not_truncated() -> None:
    log, left, _ = recorded(START_RIGHT, RIGHT, RIGHT)
    assert log.terminations == [False, False, True]
    assert log.truncations == [False] * 3
    assert not left


def test_a_truncated_episode_is_not_terminated() -> None:
    log, left, _ = recorded(START_RIGHT)
    assert log.truncations == [False] * 5 + [True]
    assert log.terminations == [False] * 6
    assert not left


def test_a_pause_takes_no_step() -> None:
    log, _, script = recorded(START_RIGHT, STOP, RIGHT, LEFT, START, LEFT)
    assert np.ravel(log.actions).tolist() == [1.0, 0.0, -1.0, 0.0, 0.0, 0.0]
    assert "paused" in script.shown[2][1]


def test_leaving_keeps_the_episode_as_truncated() -> None:
    log, left, _ = recorded(START_RIGHT, LEFT, ESCAPE)
    assert log.truncations == [False, True]
    assert log.terminations == [False, False]
    assert left


def test_leaving_before_the_first_step_keeps_nothing() -> None:
    log, left, _ = recorded(IDLE, ESCAPE)
    assert (len(log), left, log.ended) == (0, True, False)


def test_the_sum_of_rewards_is_shown_with_every_step() -> None:
    log, _, script = recorded(START_RIGHT, RIGHT, RIGHT)
    assert [lines[0] for lines in script.shown] == [
        f"episode 1 of 1   step {k}   return -{k}.00" for k in (1, 2, 3)
    ]
    assert sum(log.rewards) == -3


def test_observations_and_actions_are_copies() -> None:
    log, _, _ = recorded(START_RIGHT, LEFT, RIGHT, RIGHT, RIGHT)
    assert np.ravel(log.observations).tolist() == [0, 1, 0, 1, 2, 3]
    assert np.ravel(log.actions).tolist() == [1, -1, 1, 1, 1]


# The dataset.


def test_a_recording_becomes_a_dataset_with_both_flags(scripted: Callable[..., Script]) -> None:
    scripted(START_RIGHT, RIGHT, RIGHT, START, LEFT)
    dataset = record(Track(), dataset_id="track/human-v0", episodes=2, seed=3, author="A", description="B")
    assert dataset is not None

    loaded = minari.load_dataset("track/human-v0")
    first, second = loaded.iterate_episodes()
    assert first.observations.ravel().tolist() == [0.0, 1.0, 2.0, 3.0]
    assert first.terminations.tolist() == [False, False, True]
    assert first.truncations.tolist() == [False] * 3
    assert second.actions.ravel().tolist() == [0.0, -1.0, 0.0, 0.0, 0.0, 0.0]
    assert second.rewards.tolist() == [-1.0] * 6
    assert second.truncations.tolist() == [False] * 5 + [True]
    assert not second.terminations.any()
    metadata = loaded.storage.metadata
    assert (metadata["author"], metadata["description"]) == ({"A"}, "B")
    assert [row["seed"] for row in loaded.storage.get_episode_metadata([0, 1])] == [3, 4]


def test_every_episode_is_saved_as_it_ends(scripted: Callable[..., Script]) -> None:
    class PowerCutError(Exception):
        """The power goes off."""

    script = scripted(START_RIGHT, RIGHT, RIGHT, START)
    show = script.show

    def crash(picture: npt.NDArray[np.uint8], lines: Sequence[str]) -> None:
        show(picture, lines)
        if "episode 2" in lines[0]:
            raise PowerCutError

    script.show = crash  # type: ignore[method-assign]
    with pytest.raises(PowerCutError):
        record(Track(), dataset_id="track/human-v0", episodes=2)
    assert minari.load_dataset("track/human-v0").total_episodes == 1


def test_escape_ends_the_recording_and_keeps_what_was_driven(scripted: Callable[..., Script]) -> None:
    scripted(START_RIGHT, RIGHT, RIGHT, START, LEFT, ESCAPE)
    dataset = record(Track(), dataset_id="track/human-v0", episodes=9)
    assert dataset is not None
    assert [len(episode.rewards) for episode in dataset.iterate_episodes()] == [3, 2]


def test_who_leaves_at_once_leaves_no_dataset(scripted: Callable[..., Script], tmp_path: Path) -> None:
    scripted(ESCAPE)
    assert record(Track(), dataset_id="track/human-v0") is None
    assert list(tmp_path.iterdir()) == []


def test_an_observation_of_parts_is_stored_by_its_parts(scripted: Callable[..., Script]) -> None:
    class Parts(Track):
        def __init__(self) -> None:
            super().__init__()
            box = self.observation_space
            self.observation_space = gymnasium.spaces.Dict(
                {"place": box, "pair": gymnasium.spaces.Tuple((box, box))}
            )

        def reset(self, **options: Any) -> Any:
            return self._parts(super().reset(**options)[0]), {}

        def step(self, action: npt.NDArray[Any]) -> Any:
            place, *rest = super().step(action)
            return self._parts(place), *rest

        def _parts(self, place: Any) -> dict[str, Any]:
            return {"place": place, "pair": (place, -place)}

    scripted(START_RIGHT, RIGHT, RIGHT)
    dataset = record(Parts(), dataset_id="track/parts-v0", episodes=1)
    assert dataset is not None
    (episode,) = dataset.iterate_episodes()
    assert episode.observations["place"].ravel().tolist() == [0, 1, 2, 3]
    assert episode.observations["pair"][1].ravel().tolist() == [0, -1, -2, -3]


def test_a_name_that_cannot_be_used_is_refused_before_anyone_drives(scripted: Callable[..., Script]) -> None:
    scripted(START_RIGHT, RIGHT, RIGHT)
    record(Track(), dataset_id="track/human-v0", episodes=1)

    script = scripted()
    with pytest.raises(ArgumentError, match="exists already"):
        record(Track(), dataset_id="track/human-v0")
    with pytest.raises(ArgumentError, match="human-v0"):
        record(Track(), dataset_id="no version")
    with pytest.raises(ArgumentError, match="episodes"):
        record(Track(), dataset_id="track/human-v1", episodes=0)
    assert script.shown == []


# The window, on SDL's dummy screen.


@pytest.fixture
def window() -> Iterator[Any]:
    window = recorder._PygameWindow("nopg: test", 1000.0)
    window.show(np.zeros((40, 61, 3), dtype=np.uint8), ["one", "two"])
    pygame.event.clear()
    yield window
    window.close()


def press(key: int) -> None:
    pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=key))


def release(key: int) -> None:
    pygame.event.post(pygame.event.Event(pygame.KEYUP, key=key))


def test_a_held_key_stays_down_and_a_short_tap_is_not_lost(window: Any) -> None:
    press(pygame.K_RIGHT)
    assert window.poll().pressed == {"right"}
    press(pygame.K_LEFT)
    release(pygame.K_LEFT)
    assert window.poll().pressed == {"left", "right"}
    release(pygame.K_RIGHT)
    window.poll()
    assert window.poll().pressed == frozenset()


def test_every_control_key_has_the_name_pygame_gives_it(window: Any) -> None:
    keys = ("LEFT", "RIGHT", "DOWN", "UP", "a", "d", "s", "w")
    for key in keys:
        press(getattr(pygame, f"K_{key}"))
    assert window.poll().pressed == {name for pair in recorder._KEYS for name in pair}


def test_p_pauses_escape_and_closing_leave(window: Any) -> None:
    press(pygame.K_p)
    assert window.poll().pause
    press(pygame.K_p)
    press(pygame.K_p)
    assert not window.poll().pause
    press(pygame.K_ESCAPE)
    assert window.poll().quit
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    assert window.poll().quit
    assert not window.poll().quit


def test_the_window_holds_the_picture_and_a_panel_of_text(window: Any) -> None:
    picture = np.zeros((40, 61, 3), dtype=np.uint8)
    picture[5, 50] = (10, 20, 30)
    window.show(picture, ["return -3.00"])
    screen = pygame.display.get_surface()
    assert screen is not None
    assert screen.get_size() == (61, 40 + recorder._PANEL_HEIGHT)
    assert screen.get_at((50, 5))[:3] == (10, 20, 30)
    panel = pygame.surfarray.array3d(screen)[:, 40:]
    assert panel.min() < 100, "dark letters"
    assert panel.max() > 240, "light ground"


def test_mountain_car_is_recorded_in_a_window_from_key_events(monkeypatch: pytest.MonkeyPatch) -> None:
    env = gymnasium.make("MountainCarContinuous-v0", render_mode="rgb_array", max_episode_steps=5)
    shown = recorder._PygameWindow.show

    def show_then_press(window: Any, picture: npt.NDArray[np.uint8], lines: Sequence[str]) -> None:
        shown(window, picture, lines)
        if "step 0" in lines[0]:
            press(pygame.K_p)
            press(pygame.K_LEFT)

    monkeypatch.setattr(recorder._PygameWindow, "show", show_then_press)
    dataset = record(env, dataset_id="mountaincar/keys-v0", episodes=2, frames_per_second=1000, seed=0)
    env.close()

    assert dataset is not None
    for episode in dataset.iterate_episodes():
        assert episode.actions.ravel().tolist() == [-1.0] * 5
        assert episode.truncations.tolist() == [False] * 4 + [True]
    assert dataset.env_spec.max_episode_steps == 5


# Extras.


@pytest.mark.parametrize(
    ("module", "package"),
    [
        ("gymnasium", "gymnasium"),
        ("pygame", "pygame-ce"),
        ("minari", r"minari\[hdf5\]"),
        ("h5py", r"minari\[hdf5\]"),
    ],
)
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, module: str, package: str) -> None:
    env = Track()
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=f"needs {package}, .* pip install"):
        record(env, dataset_id="track/human-v0")


def test_the_command_records_and_prints_the_number_of_episodes(
    scripted: Callable[..., Script], capsys: pytest.CaptureFixture[str]
) -> None:
    scripted(START_RIGHT, RIGHT, ESCAPE)
    assert main(["nopg/MountainCar-v0", "--dataset", "car/human-v0", "--episodes", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"dataset": "car/human-v0", "episodes": 1}
    assert minari.load_dataset("car/human-v0").total_episodes == 1


def test_the_command_refuses_an_unknown_environment(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["NoSuchPlant-v0", "--dataset", "car/human-v0"]) == 1
    assert "no environment 'NoSuchPlant-v0'" in capsys.readouterr().err

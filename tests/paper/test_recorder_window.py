"""Recording in a real window: a virtual screen, real key presses and a real mouse."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="recording needs gymnasium")
pytest.importorskip("pygame", reason="recording needs pygame-ce")
minari = pytest.importorskip("minari", reason="recording needs minari")

MISSING = [tool for tool in ("Xvfb", "xdotool") if shutil.which(tool) is None]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"a virtual screen needs {', '.join(MISSING)}; install them"),
]

RECORD = """
import gymnasium
from studies.recorder import record
env = gymnasium.make("MountainCarContinuous-v0", render_mode="rgb_array", max_episode_steps=60)
record(env, dataset_id="mountaincar/window-v0", seed=5, author="a test", **{settings})
env.close()
"""


@dataclass
class Desk:
    """A virtual screen with a recording on it, and simulated keyboard and mouse input."""

    process: "subprocess.Popen[str]"
    environment: dict[str, str]
    datasets: Path

    def do(self, *command: str) -> str:
        """Run xdotool on the screen."""
        done = subprocess.run(
            ["xdotool", *command],
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        )
        return done.stdout.strip()

    def wait_for_window(self) -> str:
        """Return the number of the window once it has the keyboard."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            assert self.process.poll() is None, self.process.communicate()
            # Before there is a window, nothing or the bare screen has the keyboard: xdotool may complain.
            with contextlib.suppress(subprocess.CalledProcessError):
                if self.do("getwindowfocus", "getwindowname").startswith("nopg"):
                    return self.do("getwindowfocus")
            time.sleep(0.1)
        raise AssertionError("no window after a minute")

    def hold(self, key: str, seconds: float) -> None:
        self.do("keydown", key)
        time.sleep(seconds)
        self.do("keyup", key)

    def saved_episodes(self) -> int:
        file = self.datasets / "mountaincar" / "window-v0" / "data" / "metadata.json"
        try:
            return int(json.loads(file.read_text())["total_episodes"])
        except (FileNotFoundError, json.JSONDecodeError):  # not begun, or being written
            return 0

    def wait_for_episodes(self, count: int) -> None:
        end = time.monotonic() + 60
        while self.saved_episodes() < count:
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < end, f"{self.saved_episodes()} of {count} episodes after a minute"
            time.sleep(0.05)

    def finish(self) -> Any:
        """Wait for the recording to end by itself, and load what it wrote."""
        _, errors = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, errors
        return minari.load_dataset("mountaincar/window-v0")


@pytest.fixture
def screen() -> Iterator[str]:
    """Start a virtual screen and return its name."""
    reading, writing = os.pipe()
    command = ["Xvfb", "-displayfd", str(writing), "-screen", "0", "800x600x24", "-nolisten", "tcp"]
    with subprocess.Popen(command, pass_fds=[writing], stderr=subprocess.DEVNULL) as server:
        os.close(writing)
        with os.fdopen(reading) as pipe:
            number = pipe.readline().strip()
        assert number, "Xvfb did not start"
        yield f":{number}"
        server.terminate()


@pytest.fixture
def sit_down(
    screen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[dict[str, object]], Desk]]:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    environment = {**os.environ, "DISPLAY": screen, "SDL_VIDEODRIVER": "x11", "SDL_AUDIODRIVER": "dummy"}
    processes: list[subprocess.Popen[str]] = []

    def start(settings: dict[str, object]) -> Desk:
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", RECORD.replace("{settings}", repr(settings))],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        desk = Desk(process, environment, tmp_path)
        desk.wait_for_window()
        return desk

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def test_two_episodes_controlled_by_real_keys_become_a_dataset(
    sit_down: Callable[[dict[str, object]], Desk], tmp_path: Path
) -> None:
    desk = sit_down({"episodes": 2})
    assert desk.saved_episodes() == 0

    desk.do("key", "p")
    desk.hold("Right", 0.5)
    desk.hold("Left", 0.5)
    if shutil.which("import"):
        picture = tmp_path / "screen.png"
        subprocess.run(
            ["import", "-window", "root", str(picture)], env=desk.environment, check=True, timeout=30
        )
        assert picture.stat().st_size > 2000
    desk.wait_for_episodes(1)

    # On the disk while the recording goes on, and waiting for P again.
    assert desk.process.poll() is None
    desk.do("key", "p")
    desk.hold("Left", 0.4)
    dataset = desk.finish()

    assert dataset.total_episodes == 2
    first, second = dataset.iterate_episodes()
    assert first.observations.shape == second.observations.shape == (61, 2)
    assert set(first.actions.flatten().tolist()) == {-1.0, 0.0, 1.0}
    assert set(second.actions.flatten().tolist()) == {-1.0, 0.0}
    for episode in (first, second):
        assert episode.truncations.tolist() == [False] * 59 + [True]
        assert not episode.terminations.any()
    # Both keys were held for about half a second of 30 steps each.
    assert 5 <= (first.actions == 1).sum() <= 30
    assert 5 <= (first.actions == -1).sum() <= 30

    # The stored actions are the applied ones: they lead the environment along the stored states.
    env = dataset.recover_environment()
    for k, episode in enumerate((first, second)):
        observation, _ = env.reset(seed=5 + k)
        for t, action in enumerate(episode.actions):
            np.testing.assert_array_equal(observation, episode.observations[t])
            observation, reward, *_ = env.step(action)
            assert reward == pytest.approx(episode.rewards[t], abs=1e-12)
    env.close()


def test_the_mouse_controls_pausing_stops_time_and_escape_keeps_the_episode(
    sit_down: Callable[[dict[str, object]], Desk],
) -> None:
    desk = sit_down({"episodes": 5, "device": "mouse"})
    window = desk.wait_for_window()
    desk.do("mousemove", "--window", window, "450", "100")  # three quarters of 600 pixels: about +0.5
    desk.do("key", "p")
    time.sleep(0.5)
    desk.do("key", "p")
    time.sleep(1.0)  # a second would be 30 steps
    desk.do("key", "Escape")
    dataset = desk.finish()

    (episode,) = dataset.iterate_episodes()
    assert 5 <= len(episode.rewards) <= 30
    assert episode.truncations.tolist() == [False] * (len(episode.rewards) - 1) + [True]
    assert not episode.terminations.any()
    # A pixel is worth 2/599.
    np.testing.assert_allclose(episode.actions, 0.5, atol=0.01)

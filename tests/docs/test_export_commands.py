"""The commands on the pages of exports, the guard and recipes run as they say on a saved controller."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import nopg
from docs.pages import code
from nopg.deploy import GuardedController, GuardRules, load

PAGE, GUARD, RECIPES = (f"docs/guides/{name}.md" for name in ("export", "guard", "recipes"))
ARM = ("arm-linux-gnueabihf-gcc", "qemu-arm")
HAS_ARM = all(shutil.which(name) for name in ARM)

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler: gcc is missing")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the tank of the page, after few updates, and its main program."""
    place = tmp_path_factory.mktemp("exports")
    rng = np.random.default_rng(0)
    level, valve = rng.uniform(0.2, 1.5, (100, 1)), rng.uniform(0.0, 1.0, (100, 1))
    following = np.maximum(level + 0.3 * valve - 0.15 * np.sqrt(level), 0.0)
    data = nopg.Transitions.from_arrays(
        level,
        valve,
        -((level[:, 0] - 1.0) ** 2),
        following,
        state_names=["level"],
        action_names=["valve"],
        bounds={"valve": (0.0, 1.0)},
    )
    config = nopg.TrainingConfig(updates=1, progress=False)
    nopg.optimize(data, 0.9, model="paper", config=config).save(place / "tank", data=False)
    for page, language, name in ((PAGE, "c", "main.c"), (GUARD, "toml", "guard.toml")):
        (text,) = (block.text for block in code(page) if block.language == language)
        (place / name).write_text(text)
    (place / "nopg").write_text(f'#!/bin/sh\nexec {sys.executable} -m nopg.cli "$@"\n')
    (place / "nopg").chmod(0o755)
    return place


@pytest.fixture(scope="module")
def printed(folder: Path) -> dict[str, str]:
    """Return what the commands print, in their order; those for ARM only if they can run."""
    exports, block = (one.text for one in code(PAGE) if one.kind == "indented")
    commands = [one for one in block.splitlines() if HAS_ARM or not one.startswith(ARM)]
    assert len(commands) == (6 if HAS_ARM else 4)
    return {command: run(command, folder) for command in (*exports.splitlines(), *commands)}


def run(command: str, folder: Path) -> str:
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        check=False,
        shell=True,
        cwd=folder,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def test_the_program_acts_as_numpy_does(folder: Path, printed: dict[str, str]) -> None:
    rules = GuardRules(
        most_unknown=0.4,
        max_change=0.2,
        return_unknown=0.1,
        dwell=20,
        transfer=3,
        frozen={"level": 100},
        last_resort=[0.2],
    )
    guard = GuardedController(
        load(folder / "tank"),
        fallback=lambda observation: [0.5],
        rules=rules,
    )
    level = 0.3
    for _ in range(60):
        decision = guard.act([level])
        level = max(level + 0.3 * float(decision.action[0]) - 0.15 * level**0.5, 0.0)
    wanted = f"level {level:.6f} m, valve {decision.action[0]:.6f}, unknown share {decision.unknown:.6f}\n"
    assert printed["./tank-demo"] == wanted


def test_every_export_writes_its_file(folder: Path, printed: dict[str, str]) -> None:
    assert sum(command.startswith("nopg export") for command in printed) == 3
    assert all((folder / f"tank.{suffix}").exists() for suffix in ("c", "h", "fmu", "onnx"))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl")
def test_a_signature_is_made_and_verified(folder: Path) -> None:
    (block,) = (one.text for one in code(RECIPES) if one.kind == "indented" and "openssl" in one.text)
    found = [run(command, folder) for command in block.splitlines()]
    assert found[0].startswith(str(load(folder / "tank").saved.sha256))
    assert "Verified Successfully" in found[-1]


def test_without_a_library_it_needs_two_functions(printed: dict[str, str]) -> None:
    assert printed["nm -u tank-bare.o"].split() == ["U", "exp", "U", "tanh"]


@pytest.mark.skipif(not HAS_ARM, reason="no C compiler for ARM, or no qemu-arm")
def test_an_emulated_arm_prints_the_same_line(printed: dict[str, str]) -> None:
    assert printed["qemu-arm ./tank-arm"] == printed["./tank-demo"]

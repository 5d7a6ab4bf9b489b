"""The settings of the guard in a file: the same in every export as in Python."""

import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import nopg
from nopg.cli._app import app
from nopg.deploy import GuardedController, GuardRules, load, to_c, to_fmu

SETTINGS = """
most_unknown = 0.4
return_unknown = 0.1
max_change = [0.2, 0.3]
dwell = 17
transfer = 4
deadline = 2.5
frozen = {level = 90}
last_resort = [0.25, 0]
"""
RULES = GuardRules(
    most_unknown=0.4,
    max_change=[0.2, 0.3],
    return_unknown=0.1,
    dwell=17,
    transfer=4,
    deadline=2.5,
    frozen={"level": 90},
    last_resort=[0.25, 0.0],
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a saved controller of two actions."""
    place = tmp_path_factory.mktemp("guarded")
    rng = np.random.default_rng(0)
    level, actions = rng.uniform(0.2, 1.5, (60, 1)), rng.uniform(0.0, 1.0, (60, 2))
    data = nopg.Transitions.from_arrays(
        level,
        actions,
        -((level[:, 0] - 1.0) ** 2),
        level + 0.3 * actions[:, :1] - 0.1,
        state_names=["level"],
        action_names=["valve", "pump"],
        bounds={"valve": (0.0, 1.0), "pump": (0.0, 1.0)},
    )
    config = nopg.TrainingConfig(updates=1, progress=False)
    nopg.optimize(data, 0.9, model="paper", config=config).save(place / "tank", data=False)
    (place / "guard.toml").write_text(SETTINGS)
    return place


@pytest.fixture
def guard(folder: Path) -> GuardedController:
    controller = load(folder / "tank")
    return GuardedController(controller, rules=RULES)


def export(folder: Path, out: Path, *options: object) -> tuple[int, str]:
    asked = ["export", folder / "tank", out, *options]
    done = CliRunner().invoke(app, [str(one) for one in asked])
    return done.exit_code, " ".join(done.stderr.split())


def test_c_is_that_of_the_same_guard_in_python(
    folder: Path, guard: GuardedController, tmp_path: Path
) -> None:
    (tmp_path / "python").mkdir()
    out, wanted = tmp_path / "tank.c", tmp_path / "python" / "tank.c"
    assert export(folder, out, "--guard", folder / "guard.toml")[0] == 0
    to_c(guard, wanted)
    assert out.read_text() == wanted.read_text()
    plain = tmp_path / "plain.c"
    assert export(folder, plain)[0] == 0
    assert plain.read_text().replace("plain", "tank") != wanted.read_text()


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler: cc is missing")
def test_an_fmu_has_the_same_sources(folder: Path, guard: GuardedController, tmp_path: Path) -> None:
    out, wanted = tmp_path / "tank.fmu", tmp_path / "python" / "tank.fmu"
    wanted.parent.mkdir()
    assert export(folder, out, "--guard", folder / "guard.toml")[0] == 0
    to_fmu(guard, wanted)
    with zipfile.ZipFile(out) as one, zipfile.ZipFile(wanted) as other:
        sources = [name for name in one.namelist() if name.startswith("sources/")]
        assert len(sources) > 1
        assert [one.read(name) for name in sources] == [other.read(name) for name in sources]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("dwel = 20", "guard.toml has 'dwel', which is not known; did you mean 'dwell'?"),
        ("dwell = 0", "guard.toml: dwell is 0; give a whole number of at least 1"),
        ("dwell = true", "guard.toml: dwell is True"),
        ('deadline = "2 s"', "guard.toml: deadline is '2 s'; give a number"),
        ("most_unknown = 2", "guard.toml: most_unknown is 2; give a number from 0.0 to 1.0"),
        ("return_unknown = 0.7", "guard.toml: return_unknown is 0.7; give a number from 0.0 to 0.5"),
        ("max_change = [0.1, true]", "max_change is [0.1, True]; give a number"),
        ("max_change = [0.1]", "max_change is [0.1]; give a number, or 2, one per action"),
        ("last_resort = [0.1, 3]", "one per action, from [0. 0.] to [1. 1.]"),
        ("frozen = {depth = 9}", "frozen names ['depth'], but measured columns are ['level']"),
        ("frozen = {level = 1.5}", "frozen of level is 1.5"),
        ("dwell = [", "cannot be read as TOML"),
    ],
)
def test_a_file_says_what_is_wrong_with_it(text: str, words: str, folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "guard.toml"
    file.write_text(text)
    code, messages = export(folder, tmp_path / "tank.c", "--guard", file)
    assert (code, words in messages) == (1, True), messages
    assert not (tmp_path / "tank.c").exists()


def test_onnx_has_no_guard_to_set(folder: Path, tmp_path: Path) -> None:
    code, messages = export(folder, tmp_path / "tank.onnx", "--guard", folder / "guard.toml")
    assert (code, "ONNX has no guard" in messages) == (1, True)

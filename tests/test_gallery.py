"""The gallery: eight short scripts, each with its picture on the page."""

import ast
import re
import runpy
import shutil
import time
from pathlib import Path

import pytest

from examples import make_tank_log

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/gallery.md").read_text(encoding="utf-8")
PICTURES = ROOT / "docs/figures/gallery"
SCRIPTS = re.findall(r"\]\(\.\./examples/(\w+)\.py\)", PAGE)


def test_the_page_shows_eight_scripts_and_all_pictures() -> None:
    shown = re.findall(r"\]\(figures/gallery/([\w-]+)\.png\)", PAGE)
    assert len(SCRIPTS) == 8
    assert [name.replace("_", "-") for name in SCRIPTS] == shown
    assert sorted(shown) == sorted(picture.stem for picture in PICTURES.iterdir())


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_short_and_ends_in_its_picture(name: str) -> None:
    text, picture = (ROOT / f"examples/{name}.py").read_text(encoding="utf-8"), name.replace("_", "-")
    assert ast.get_docstring(ast.parse(text))
    assert text.count("\n") <= 50
    assert text.splitlines()[-1].startswith(f'figure.savefig("docs/figures/gallery/{picture}.png"')
    assert (PICTURES / f"{picture}.png").stat().st_size <= 60_000


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::nopg.errors.SupportWarning")
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_draws_its_picture_in_a_minute(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "docs/figures/gallery").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    began = time.process_time()
    runpy.run_path(f"examples/{name}.py")
    assert time.process_time() - began < 60
    assert [path.stem for path in Path("docs/figures/gallery").iterdir()] == [name.replace("_", "-")]


def test_the_shipped_log_is_what_the_script_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make_tank_log, "FILE", tmp_path / "tank.csv")
    make_tank_log.main()
    assert (tmp_path / "tank.csv").read_bytes() == (ROOT / "examples/tank.csv").read_bytes()

"""What the tutorials need beside themselves: their log, their pictures, and a quick run of the slow one."""

import doctest
import re
from pathlib import Path

import pytest

from examples.draw_tutorials import PAGES, PICTURES, draw
from examples.make_two_tanks_log import make_log

NAMES = sorted(page.stem for page in PAGES.glob("*.md") if page.stem != "index")


def test_the_tutorials_are_these() -> None:
    assert NAMES == ["mountain-car", "pendulum-grid", "plant", "start"]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "start"])
def test_every_picture_a_page_draws_is_shown_and_kept(name: str) -> None:
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    drawn = re.findall(r'savefig\("([\w-]+\.png)"', text)
    shown = re.findall(r"!\[[^\]]+\]\(\.\./figures/tutorials/([\w-]+\.png)\)", text)
    assert drawn
    assert drawn == shown
    assert all((PICTURES / picture).is_file() for picture in shown)


def test_the_shipped_log_is_what_the_script_makes() -> None:
    assert (PAGES / "two-tanks.csv").read_text(encoding="utf-8") == make_log()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::nopg.errors.SupportWarning")
def test_the_page_of_the_plant_runs_on_a_short_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code, not its numbers: those are for the log it was written for, which takes longer."""
    monkeypatch.chdir(tmp_path)
    Path("two-tanks.csv").write_text(make_log(runs=10, steps=30), encoding="utf-8")
    names: dict[str, object] = {}
    for example in doctest.DocTestParser().get_examples((PAGES / "plant.md").read_text(encoding="utf-8")):
        exec(compile(example.source, "plant.md", "single"), names)
    assert Path("plant.png").stat().st_size > 10_000


def test_pictures_are_kept_of_a_page_that_says_the_truth_only(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    code = '>>> 1 + 1\n{}\n\n>>> import pathlib; _ = pathlib.Path("a.png").write_bytes(b"picture")\n'
    page.write_text(code.format(2), encoding="utf-8")
    assert draw(page, tmp_path / "kept") == [tmp_path / "kept" / "a.png"]
    assert (tmp_path / "kept" / "a.png").read_bytes() == b"picture"

    page.write_text(code.format(3), encoding="utf-8")
    with pytest.raises(SystemExit, match="1 of 2 lines"):
        draw(page, tmp_path / "other")
    assert not (tmp_path / "other").exists()

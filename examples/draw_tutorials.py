"""Run the tutorials and keep the pictures they draw: docs/figures/tutorials.

Each page runs in a folder of its own, with the files it reads, as it does in the tests. A page with a line
that no longer says what it should draws nothing.

    python examples/draw_tutorials.py plant
"""

import argparse
import contextlib
import doctest
import shutil
import tempfile
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
PAGES, PICTURES = DOCS / "tutorials", DOCS / "figures" / "tutorials"


def draw(page: Path, pictures: Path) -> list[Path]:
    """Run a page and return where its pictures are now."""
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        for file in page.parent.glob("*.csv"):
            shutil.copy(file, name)
        flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
        outcome = doctest.testfile(str(page), module_relative=False, optionflags=flags, encoding="utf-8")
        if outcome.failed:
            raise SystemExit(f"{page.name}: {outcome.failed} of {outcome.attempted} lines say something else")
        pictures.mkdir(parents=True, exist_ok=True)
        drawn = sorted(Path(name).glob("*.png"))
        return [Path(shutil.copy(picture, pictures)) for picture in drawn]


def main() -> None:
    """Draw the pictures of the named pages, or of all."""
    names = sorted(page.stem for page in PAGES.glob("*.md") if page.stem != "index")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", metavar="page", help=f"of {', '.join(names)}; all by default")
    options = parser.parse_args()
    if unknown := sorted(set(options.pages) - set(names)):
        parser.error(f"there is no tutorial {', '.join(unknown)}; choose from {', '.join(names)}")

    for name in options.pages or names:
        for picture in draw(PAGES / f"{name}.md", PICTURES):
            print(f"{name} → {picture.relative_to(DOCS.parent)}", flush=True)


if __name__ == "__main__":
    main()

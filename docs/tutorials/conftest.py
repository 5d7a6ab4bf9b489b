"""The tutorials as tests: each runs in a folder of its own that holds the files it reads."""

import shutil
from pathlib import Path

import pytest

collect_ignore = ["conftest.py"]  # it holds no doctests, and tests/ has one of the same name
_HERE = Path(__file__).parent
_EXAMPLES = _HERE.parents[1] / "examples"
# Half a minute and more on one thread.
_SLOW = ("mountain-car.md", "pendulum-grid.md", "plant.md")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow pages, before the marks are asked for."""
    for item in items:
        if item.path.parent == _HERE and item.path.name in _SLOW:
            item.add_marker("slow")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a page reads lies beside it; what it draws must not."""
    for file in _HERE.glob("*.csv"):
        shutil.copy(file, tmp_path)
    shutil.copytree(_EXAMPLES, tmp_path / "examples")
    monkeypatch.chdir(tmp_path)

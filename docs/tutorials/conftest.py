"""The tutorials as tests: each runs in a folder of its own that holds the files it reads."""

import shutil
from pathlib import Path

import pytest

collect_ignore = ["conftest.py"]  # it holds no doctests, and tests/ has one of the same name
_EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a page reads lies beside it; what it writes must not."""
    shutil.copytree(_EXAMPLES, tmp_path / "examples")
    monkeypatch.chdir(tmp_path)

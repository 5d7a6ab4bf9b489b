"""The tutorials as tests: each runs in a folder of its own that holds the files it reads."""

import shutil
from pathlib import Path

import pytest

_HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a page reads lies beside it; what it draws must not."""
    for file in _HERE.glob("*.csv"):
        shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)

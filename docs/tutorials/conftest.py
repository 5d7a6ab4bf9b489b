"""The tutorials as tests: each runs in a folder of its own."""

from pathlib import Path

import pytest

collect_ignore = ["conftest.py"]  # it holds no doctests, and tests/ has one of the same name


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a page writes must not stay."""
    monkeypatch.chdir(tmp_path)

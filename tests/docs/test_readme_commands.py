"""The commands of the README run as printed, one after another."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs.commands import commands
from docs.pages import ROOT, code


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_commands_of_the_readme_run_as_printed(tmp_path: Path) -> None:
    (block,) = (one for one in code("README.md") if one.kind == "indented" and "nopg init" in one.text)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    ran = list(commands(block.text))
    assert len(ran) > 10
    for words in ran:
        command = [sys.executable, "-m", "nopg.cli", *words[1:]]
        done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stderr[-2000:]}"

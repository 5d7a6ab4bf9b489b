"""The commands of the first pages run as printed, one after another, and print what the pages show."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs.commands import commands
from docs.pages import ROOT, code

NUMBER = re.compile(r"[-+−]?\d+(?:\.\d+)?")
# Other processors and versions of torch change the last digits.
TOLERANCE = 0.02


def is_printed(shown: str, printed: str) -> bool:
    """Return whether a line is printed, up to rounding and spaces; after … it may go on."""
    start, cut, _ = shown.partition("…\n")
    words = " ".join(NUMBER.sub("#", start).split())
    numbers = [float(one.replace("−", "-")) for one in NUMBER.findall(start)]
    for line in printed.splitlines():
        other = " ".join(NUMBER.sub("#", line).split())
        if other != words and not (cut and other.startswith(words)):
            continue
        others = [float(one.replace("−", "-")) for one in NUMBER.findall(line)[: len(numbers)]]
        if others == pytest.approx(numbers, rel=TOLERANCE):
            return True
    return False


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("page", ["README.md", "docs/tutorials/start.md"])
def test_the_commands_of_a_page_run_as_printed(page: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    ran, printed = list[str](), (ROOT / "examples" / "tank.csv").read_text()
    for block in code(page):
        for words in commands(block.text) if block.kind == "indented" else ():
            if words[0] == "nopg":
                command = [sys.executable, "-m", "nopg.cli", *words[1:]]
                done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True)
                assert done.returncode == 0, f"{' '.join(words)}: {done.stderr[-2000:]}"
                ran.append(words[1])
                printed = done.stdout + done.stderr
        shown = block.text.splitlines(keepends=True) if block.language == "text" else []
        assert not [line for line in shown if line.strip() and not is_printed(line, printed)]
    assert {"describe", "fit", "compare", "report"} <= {*ran}


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        ("gain  +1.606 in [+0.83, +2.4]", True),
        ("gain  +1.6 …\n", True),
        ("gain  +1.8 in [+0.83, +2.4]", False),
        ("loss  +1.606 in [+0.83, +2.4]", False),
    ],
)
def test_a_line_is_compared_by_its_words_and_numbers(shown: str, found: bool) -> None:
    assert is_printed(shown, "other\ngain    +1.605 in [+0.83, +2.4]\n") is found

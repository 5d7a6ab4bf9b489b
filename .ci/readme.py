"""Run README and the first tutorial as a new user would: the Python of the one, the commands of both."""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = (ROOT / "README.md", ROOT / "docs" / "tutorials" / "start.md")


def main() -> int:
    """Return how many of the steps failed."""
    os.chdir(ROOT)
    failed = doctest.testfile(str(PAGES[0]), module_relative=False).failed
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for page in PAGES:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(ROOT / "examples", Path(folder) / "examples")
            text = page.read_text(encoding="utf-8")
            for command in re.findall(r"^    (nopg .*?)(?:\s+#.*)?$", text, re.MULTILINE):
                print(f"$ {command}", flush=True)
                own = {**os.environ, "PATH": path}
                done = subprocess.run(command, shell=True, cwd=folder, env=own, check=False)
                failed += done.returncode != 0
    print(f"{failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(main())

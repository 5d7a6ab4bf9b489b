"""Run the README as a new user would: its Python block, then its commands, in an empty folder."""

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


def main() -> int:
    """Return how many of the steps failed."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    failed = doctest.testfile(str(ROOT / "README.md"), module_relative=False).failed
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "examples", Path(folder) / "examples")
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        for command in re.findall(r"^    (nopg .*?)(?:\s+#.*)?$", text, re.MULTILINE):
            print(f"$ {command}", flush=True)
            own = {**os.environ, "PATH": path}
            done = subprocess.run(command, shell=True, cwd=folder, env=own, check=False)
            failed += done.returncode != 0
    print(f"{failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(main())

"""`nopg info`: what is installed, and what the machine has."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, metadata, requires, version

from nopg._memory import free_memory, gigabytes
from nopg._version import __version__
from nopg.cli._options import AsJson
from nopg.cli._screen import print_json, print_rows

_PACKAGE, _EXTRA = re.compile(r"[\w.-]+"), re.compile(r"extra\s*==\s*['\"]([\w-]+)['\"]")


def info(*, as_json: AsJson = False) -> None:
    """Show versions, devices, free memory and installed extras; include it in a bug report."""
    import torch

    devices = ["cpu", *(f"cuda:{k}" for k in range(torch.cuda.device_count()))]
    extras = _extras()
    if as_json:
        print_json(
            {
                "nopg": __version__,
                "python": platform.python_version(),
                "platform": platform.platform(),
                "torch": torch.__version__,
                "threads": torch.get_num_threads(),
                "cores": os.cpu_count(),
                "devices": devices,
                "free_bytes": free_memory(),
                "extras": {name: not missing for name, missing in extras.items()},
            }
        )
        return
    rows = {
        "nopg": __version__,
        "python": f"{platform.python_version()} on {platform.platform(terse=True)}",
        "torch": f"{torch.__version__}, {torch.get_num_threads()} threads of {os.cpu_count()} cores",
        "devices": ", ".join(devices),
        "free memory": gigabytes(free_memory()),
    }
    for name, missing in extras.items():
        rows[f"extra {name}"] = "installed" if not missing else f"lacks {', '.join(missing)}"
    print_rows(rows)


def _extras() -> dict[str, list[str]]:
    """Return the missing packages of every extra."""
    try:
        names = metadata("nopg").get_all("Provides-Extra") or []
    except PackageNotFoundError:
        return {}
    missing: dict[str, set[str]] = {name: set() for name in sorted(names)}
    for line in requires("nopg") or []:
        needed, extra = _PACKAGE.match(line), _EXTRA.search(line)
        if needed and extra and extra[1] in missing and not _installed(needed[0]):
            missing[extra[1]].add(needed[0])
    return {name: sorted(lacking) for name, lacking in missing.items()}


def _installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True

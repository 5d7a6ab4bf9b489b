"""Complete a bill of materials with version and hash of the wheel, and check that nothing is missing."""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def complete(bill: dict[str, Any], wheel: Path) -> dict[str, Any]:
    """Return the bill of a wheel; refuse one of another package, or without a required package."""
    name, version = wheel.name.split("-")[:2]
    root = bill["metadata"]["component"]
    if root["name"] != name:
        raise SystemExit(f"the bill is that of {root['name']}, the wheel is {wheel.name}")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {re.split(r"[<>=!~\[; ]", one)[0].lower() for one in project["dependencies"]}
    listed = {one["name"].lower() for one in bill["components"] if one.get("version")}
    if missing := sorted(needed - listed):
        raise SystemExit(f"the bill lacks {', '.join(missing)}")
    content = hashlib.sha256(wheel.read_bytes()).hexdigest()
    own = {
        "version": version,
        "purl": f"pkg:pypi/{name}@{version}",
        "hashes": [{"alg": "SHA-256", "content": content}],
    }
    return {**bill, "metadata": {**bill["metadata"], "component": {**root, **own}}}


def main(source: Path, wheel: Path, path: Path) -> None:
    """Write the completed bill, if it is valid."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    bill = complete(json.loads(source.read_text(encoding="utf-8")), wheel)
    text = json.dumps(bill, indent=1, sort_keys=True) + "\n"
    if wrong := JsonStrictValidator(SchemaVersion.from_version(bill["specVersion"])).validate_str(text):
        raise SystemExit(f"the bill is no valid CycloneDX: {wrong}")
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    print(f"{path}: {len(bill['components'])} packages")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))

"""What a release is built from: pinned actions, locked packages, a complete bill of materials."""

import hashlib
import importlib.util
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
LOCKS = ("requirements-dev.lock", "requirements-release.lock")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def requirements(lock: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yield name, version and hashes of every requirement."""
    text = (ROOT / lock).read_text(encoding="utf-8")
    for block in re.split(r"(?m)^(?=\S)", text):
        if block:
            head, *rest = block.replace("\\\n", "\n").splitlines()
            found = re.fullmatch(r"([A-Za-z0-9._-]+)==(\S+)(?: ; .+?)?\s*", head)
            assert found, f"{lock}: {head} is no pinned requirement"
            yield found[1], found[2], [line.strip() for line in rest if line.strip()]


def test_there_are_workflows_and_they_use_actions() -> None:
    assert {"audit.yml", "check.yml", "release.yml"} <= {path.name for path in WORKFLOWS}
    assert all("uses:" in path.read_text(encoding="utf-8") for path in WORKFLOWS)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_action_is_pinned_by_commit_with_its_version_beside(path: Path) -> None:
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    pinned = re.compile(r"(- )?uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+(\.\d+)*")
    assert not [line for line in lines if not pinned.fullmatch(line)]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_read_and_jobs_that_sign_run_no_commands(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "\npermissions:\n  contents: read\n" in text
    jobs = re.split(r"(?m)^  (?=\w+:$)", text[text.index("\njobs:\n") :])[1:]
    assert jobs
    for job in jobs:
        if "id-token: write" in job:
            assert "run:" not in job
        assert "contents: write" not in job


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_package_has_a_version_and_hashes(lock: str) -> None:
    found = list(requirements(lock))
    assert len(found) > 40
    for name, _, hashes in found:
        assert hashes, name
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in hashes), name


@pytest.mark.parametrize(("group", "lock"), [("dev", LOCKS[0]), ("release", LOCKS[1])])
def test_the_lock_has_the_versions_that_the_project_asks_for(group: str, lock: str) -> None:
    locked = {name.lower().replace("_", "-"): version for name, version, _ in requirements(lock)}
    asked = [re.split(r"==", one) for one in PROJECT["dependency-groups"][group]]
    wanted = {re.sub(r"\[.*", "", name).lower(): version for name, version in asked}
    assert {name: locked.get(name) for name in wanted} == wanted


def test_locks_are_installed_with_their_hashes() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    for lock in LOCKS:
        installs = [line for line in text.splitlines() if "pip install" in line and lock in line]
        assert installs
        assert all("--require-hashes" in line and "--no-deps" in line for line in installs)
    assert "PIP_CONSTRAINT=$(CURDIR)/requirements-release.lock $(BIN)/python -m build" in text


@pytest.fixture(scope="module")
def sbom() -> Any:
    spec = importlib.util.spec_from_file_location("sbom", ROOT / ".ci" / "sbom.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def bill() -> dict[str, Any]:
    names = [re.split(r">=", one)[0] for one in PROJECT["project"]["dependencies"]]
    parts = [{"name": name, "version": "1.0"} for name in names]
    return {"metadata": {"component": {"name": "nopg", "type": "library"}}, "components": parts}


def test_the_bill_names_the_wheel_by_version_and_hash(
    sbom: Any, bill: dict[str, Any], tmp_path: Path
) -> None:
    wheel = tmp_path / "nopg-1.2.3-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    root = sbom.complete(bill, wheel)["metadata"]["component"]
    assert (root["name"], root["version"], root["purl"]) == ("nopg", "1.2.3", "pkg:pypi/nopg@1.2.3")
    assert root["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(b"wheel").hexdigest()}]


def test_a_bill_that_lacks_a_required_package_is_refused(
    sbom: Any, bill: dict[str, Any], tmp_path: Path
) -> None:
    wheel = tmp_path / "nopg-1.2.3-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    shorter = [one for one in bill["components"] if one["name"] != "numpy"]
    with pytest.raises(SystemExit, match="lacks numpy"):
        sbom.complete({**bill, "components": shorter}, wheel)
    with pytest.raises(SystemExit, match="the bill is that of nopg"):
        sbom.complete(bill, tmp_path / "other-1.0-py3-none-any.whl")

"""The code map names existing code and tests, the reference all packages, the command page all options."""

import ast
import importlib
import pkgutil
import re
from functools import cache
from types import ModuleType
from typing import Any

import pytest
import typer

import nopg
from docs.pages import ROOT
from nopg.cli._app import app

ROW = re.compile(r"^\|(?:.*\|)? (?P<code>[^|]*) \| `(?P<file>test_\w+)` (?P<fact>[^|]*) \|$", re.MULTILINE)
ROWS = [
    (row["code"], row["file"], row["fact"])
    for row in ROW.finditer((ROOT / "docs/method/code-map.md").read_text(encoding="utf-8"))
]


@cache
def facts(file: str) -> set[str]:
    """The tests of a file, by name."""
    (path,) = (ROOT / "tests").rglob(f"{file}.py")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def modules_of(package: str) -> list[ModuleType]:
    """Return a package and its modules: a map for readers of the code also names what is private."""
    whole = importlib.import_module(package)
    parts = pkgutil.iter_modules(getattr(whole, "__path__", ()))
    return [whole, *(importlib.import_module(f"{package}.{part.name}") for part in parts if not part.ispkg)]


def test_the_code_map_has_rows() -> None:
    text = (ROOT / "docs/method/code-map.md").read_text(encoding="utf-8")
    headings = 2 * len(re.findall(r"^\|---", text, re.MULTILINE))
    assert len(ROWS) == len(re.findall(r"^\|", text, re.MULTILINE)) - headings > 20


@pytest.mark.parametrize(("code", "file", "fact"), ROWS)
def test_every_name_and_test_of_the_code_map_exists(code: str, file: str, fact: str) -> None:
    names = re.findall(r"`([\w.]+)`", code)
    assert names
    for name in names:
        package, _, last = name.rpartition(".")
        within = package if package.split(".")[0] in {"nopg", "studies"} else f"nopg.{package}".rstrip(".")
        assert any(last in module.__all__ for module in modules_of(within))
    assert "test_" + fact.strip().replace(" ", "_") in facts(file)


def test_the_reference_lists_every_package() -> None:
    text = (ROOT / "docs/reference/index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^   (nopg[\w.]*)$", text, re.MULTILINE)
    packages = [m.name for m in pkgutil.iter_modules(nopg.__path__) if not m.name.startswith("_")]
    assert sorted(listed) == sorted(["nopg", "nopg.data.io", *(f"nopg.{package}" for package in packages)])


def test_the_command_page_lists_every_command_and_option() -> None:
    text = (ROOT / "docs/reference/command-line.md").read_text(encoding="utf-8")
    group: Any = typer.main.get_command(app)
    assert re.findall(r"^## ([a-z]+)$", text, re.MULTILINE) == list(group.commands)
    shared = text.partition("\n## describe")[0]
    for name, command in group.commands.items():
        section = text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        for option in (option for parameter in command.params for option in parameter.opts):
            assert not option.startswith("--") or option in section + shared, f"{name} {option}"

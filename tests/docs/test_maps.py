"""The maps name existing code and tests, the reference all packages, the command page all options."""

import ast
import importlib
import importlib.util
import inspect
import pkgutil
import re
from functools import cache
from types import ModuleType
from typing import Any

import pytest

import nopg
from docs.command_page import PAGE, page
from docs.pages import ROOT
from studies.paper import EXPERIMENTS, TASKS

MAP = (ROOT / "docs/method/paper.md").read_text(encoding="utf-8")
LOCAL = (ROOT / "docs/method/local-model.md").read_text(encoding="utf-8").partition("## Code and tests")[2]
ITEMS = MAP.partition("## Every numbered item")[2].partition("## Errors")[0]
FACT = re.compile(r"\| `(test_\w+)` ([^|]*) \|$", re.MULTILINE)


def names(text: str) -> list[str]:
    """Names of code in a text: no labels, files, tests, commands or experiments."""
    inline = set(re.findall(r"`([\w.]+)`", text)) - set(EXPERIMENTS)
    return sorted(name for name in inline if not re.search(r"^test_|\.py$|^bias$", name))


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


def has_member(thing: Any, name: str) -> bool:
    """Whether something has an attribute, a field or an argument."""
    if hasattr(thing, name) or name in inspect.signature(thing).parameters:
        return True
    return any(name in inspect.get_annotations(kind) for kind in getattr(thing, "__mro__", ()))


def exists(name: str) -> bool:
    """Whether a dotted name leads to code, from the top or below `nopg`."""
    first, *rest = name.split(".")
    package = importlib.import_module(first if first in {"nopg", "studies"} else f"nopg.{first}")
    while rest and hasattr(package, "__path__"):
        if not importlib.util.find_spec(f"{package.__name__}.{rest[0]}"):
            break
        package = importlib.import_module(f"{package.__name__}.{rest.pop(0)}")
    if not rest:
        return True
    things = [getattr(module, rest[0]) for module in modules_of(package.__name__) if hasattr(module, rest[0])]
    return bool(things) and all(has_member(things[0], member) for member in rest[1:])


@pytest.mark.parametrize("name", sorted({*names(ITEMS), *names(LOCAL)}))
def test_every_name_on_the_maps_exists(name: str) -> None:
    assert exists(name)


def test_eight_things_are_where_the_map_says() -> None:
    rows = re.findall(r"\[`(\w+\.py):(\d+)`\]\(\.\./\.\./([\w/]+\.py)\) `(?:\w+\.)?(\w+)`", MAP)
    assert len(rows) == 8
    for name, line, path, function in rows:
        assert path.endswith(f"/{name}")
        text = (ROOT / path).read_text(encoding="utf-8").splitlines()
        places = [k for k, there in enumerate(text, 1) if f"def {function}(" in there]
        assert int(line) in places, f"{name}: {function} is in line {places}"


@pytest.mark.parametrize(("file", "fact"), FACT.findall(MAP + LOCAL))
def test_every_test_on_the_maps_exists(file: str, fact: str) -> None:
    assert "test_" + fact.strip().replace(" ", "_") in facts(file)


def test_the_settings_on_the_map_are_those_that_are_run() -> None:
    tasks = list(TASKS.values())
    rows = re.findall(r"\|((?: [\d.]+ \|){4}) `studies\.paper\.(Task|PaperRecipe)\.(\w+)` \|", MAP)
    assert len(rows) == 8
    for cells, owner, field in rows:
        owners = tasks if owner == "Task" else [task.recipe for task in tasks]
        assert [float(cell) for cell in cells.split("|")[:4]] == [getattr(x, field) for x in owners], field
    (bounds,) = re.findall(r"a_max tanh f \|((?: \d+ \|){4})", MAP)
    assert bounds.split("|")[:4] == [f" {float(task.plant.action_high):.0f} " for task in tasks]


def test_the_reference_lists_every_package() -> None:
    text = (ROOT / "docs/reference/index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^   (nopg[\w.]*)$", text, re.MULTILINE)
    packages = [m.name for m in pkgutil.iter_modules(nopg.__path__) if not m.name.startswith("_")]
    assert sorted(listed) == sorted(["nopg", "nopg.data.io", *(f"nopg.{package}" for package in packages)])


def test_the_page_of_the_command_line_is_what_the_commands_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "make reference writes it"

"""The maps name existing code, the reference all packages, the command page all options."""

import importlib
import importlib.util
import inspect
import pkgutil
import re
from types import ModuleType
from typing import Any

import pytest

import nopg
from docs.command_page import PAGE, page
from docs.pages import ROOT

PAPER = (ROOT / "docs/method/paper.md").read_text(encoding="utf-8")
LOCAL = (ROOT / "docs/method/local-model.md").read_text(encoding="utf-8")
LABELS = PAPER.partition("## Other labels")[2].partition("## Errors")[0]
# A file, then the names in it that a page points to.
OWNER = re.compile(r"\[`(\w+\.py)(?::(\d+))?`\]\(\.\./\.\./([\w/]+\.py)(?:#L(\d+))?\)((?:,? `[\w.]+`)+)")


def names(text: str) -> list[str]:
    """Names of code in a table: no labels of the paper."""
    return sorted(set(re.findall(r"`(\w+(?:\.\w+)+)`", text)))


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


@pytest.mark.parametrize("name", names(LABELS))
def test_every_name_on_the_map_exists(name: str) -> None:
    assert exists(name)


@pytest.mark.parametrize("owner", [*OWNER.findall(PAPER), *OWNER.findall(LOCAL)])
def test_a_file_has_what_a_page_says(owner: tuple[str, ...]) -> None:
    file, line, path, anchor, listed = owner
    assert path.endswith(f"/{file}")
    text = (ROOT / path).read_text(encoding="utf-8").splitlines()
    for name in re.findall(r"`(?:\w+\.)?(\w+)`", listed):
        places = [k for k, there in enumerate(text, 1) if re.search(rf"(def|class) {name}\b", there)]
        assert places, f"{file} has no {name}"
        assert not line or int(line) in places, f"{file}: {name} is in line {places}"
    assert line == anchor


def test_the_eight_things_of_the_paper_lead_to_a_line() -> None:
    table = PAPER.partition("## Eight things")[2].partition("## The equation")[0]
    assert sum(bool(line) for _, line, *_ in OWNER.findall(table)) == 8


def test_the_reference_lists_every_package() -> None:
    text = (ROOT / "docs/reference/index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^   (nopg[\w.]*)$", text, re.MULTILINE)
    packages = [m.name for m in pkgutil.iter_modules(nopg.__path__) if not m.name.startswith("_")]
    assert sorted(listed) == sorted(["nopg", "nopg.data.io", *(f"nopg.{package}" for package in packages)])


def test_the_page_of_the_command_line_is_what_the_commands_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "make reference writes it"

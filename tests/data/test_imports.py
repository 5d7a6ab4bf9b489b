"""Modules of `nopg.data`: no import cycles, and nothing below `nopg.data.io` imports from it."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import nopg.data

ROOT = Path(nopg.data.__path__[0])


def imported(file: Path) -> set[str]:
    """The modules of the package that a file imports, at the top, in functions or for types only."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def module(file: Path) -> str:
    parts = ("nopg", "data", *file.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts).removesuffix(".__init__")


GRAPH = {module(file): imported(file) for file in ROOT.rglob("*.py")}


def test_imports_form_no_cycle() -> None:
    assert {"nopg.data", "nopg.data._transitions", "nopg.data.io._transitions"} <= GRAPH.keys()
    TopologicalSorter({name: names & GRAPH.keys() for name, names in GRAPH.items()}).prepare()


def test_nothing_outside_the_readers_imports_them() -> None:
    for name, names in GRAPH.items():
        if not name.startswith("nopg.data.io"):
            assert not [other for other in names if other.startswith("nopg.data.io")], name

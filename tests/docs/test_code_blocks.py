"""Every block of code in README, CONTRIBUTING and docs is run, or at least can be typed."""

import doctest
import fnmatch
import re
import tomllib

import pytest

from docs.commands import commands, fault
from docs.pages import PAGES, ROOT, Code, code, links

SHELL = {"bash", "console"}
# C and TOML are used by test_export_commands; "" are formulas, drawings and, indented,
# commands; a fence in braces is a directive of Sphinx.
LANGUAGES = {"python", "text", "c", "toml", "", "{toctree}", "{eval-rst}"} | SHELL


def blocks(page: str) -> list[Code]:
    return [block for block in code(page) if block.kind == "fence"]


def collected() -> set[str]:
    """The pages that pytest runs as doctests."""
    options = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]
    paths = {
        path.relative_to(ROOT).as_posix()
        for pattern in options["ini_options"]["testpaths"]
        for path in ROOT.glob(pattern)
    }
    globs = [
        option.removeprefix("--doctest-glob=")
        for option in options["ini_options"]["addopts"]
        if option.startswith("--doctest-glob=")
    ]
    return {path for path in paths if any(fnmatch.fnmatch(path.rpartition("/")[2], glob) for glob in globs)}


def test_there_are_pages_and_blocks_to_look_at() -> None:
    assert {"README.md", "CONTRIBUTING.md", "docs/index.md", "docs/guides/data.md"} <= set(PAGES)
    assert sum(block.language == "python" for page in PAGES for block in blocks(page)) > 20


@pytest.mark.parametrize("page", PAGES)
def test_every_python_block_is_a_doctest_that_is_run(page: str) -> None:
    python = [block for block in blocks(page) if block.language == "python"]
    for block in python:
        assert doctest.DocTestParser().get_examples(block.text), f"{page}:{block.line} is no doctest"
        assert block.text.startswith(">>> "), f"{page}:{block.line} does not begin with >>>"
    assert not python or page in collected(), f"{page} is not run: see testpaths in pyproject.toml"
    others = [block for block in blocks(page) if block.language != "python"]
    assert not [block for block in others if block.language not in LANGUAGES or ">>> " in block.text]


@pytest.mark.parametrize("page", PAGES)
def test_every_command_on_a_page_can_be_typed(page: str) -> None:
    shown = [block for block in code(page) if block.language in SHELL | {""}]
    faults = [
        f"{page}:{block.line}: {' '.join(words)}: {wrong}"
        for block in shown
        for words in commands(block.text)
        if (wrong := fault(words))
    ]
    assert not faults


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_a_file(page: str) -> None:
    inside = [target.partition("#")[0] for target in links(page) if not re.match(r"\w+:|#", target)]
    assert not [target for target in inside if not ((ROOT / page).parent / target).exists()]


@pytest.mark.parametrize(
    ("command", "wrong"),
    [
        ("nopg fit all --no-such-option", "has no option --no-such-option"),
        ("nopg no-such-command", "there is no command no-such-command"),
        ("make check no-such-target", "there is no target no-such-target"),
        ("pip install '.[figures,no-such-extra]'", "there is no extra no-such-extra"),
        ("python -m studies.no_such_study", "there is no module"),
        ("python examples/no_such_example.py --samples 3", "there is no script"),
        ("nopg fit NAME --seed 0 --out=results", None),
        ("make check PYTHON=python3.12", None),
        ("$ nopg describe log.csv   # goes on where it was", None),
    ],
)
def test_a_command_that_does_not_exist_is_found_out(command: str, wrong: str | None) -> None:
    (words,) = commands(command)
    assert (wrong or "None") in str(fault(words))

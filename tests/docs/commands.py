"""What is wrong with a command that a page tells its readers to type."""

import importlib.util
import re
import shlex
import tomllib
from collections.abc import Iterator
from typing import Any

import typer

from docs.pages import ROOT
from nopg.cli._app import app

_PLACEHOLDER = re.compile(r"…|\.\.\.|[A-Z]+")


def commands(text: str) -> Iterator[list[str]]:
    """Yield the commands in a text, line by line, as words; prompts and comments are left out."""
    for line in text.splitlines():
        try:
            words = shlex.split(line.removeprefix("$ "), comments=True)
        except ValueError:  # a formula with a prime, say
            continue
        if words:
            yield words


def fault(words: list[str]) -> str | None:
    """Return what is wrong with a command, or None if nothing is, or if it is none that we know."""
    match words:
        case ["nopg", first, *_] if first.startswith("-") or not _PLACEHOLDER.fullmatch(first):
            return _of_ours(words[1:])
        case ["make", *targets]:
            return _of_make(targets)
        case ["pip", "install", *wanted]:
            return _of_pip(wanted)
        case ["python", "-m", module, *_]:
            return None if importlib.util.find_spec(module) else f"there is no module {module}"
        case ["python", script, *_] if script.endswith(".py"):
            return None if (ROOT / script).exists() else f"there is no script {script}"
    return None


def _of_ours(words: list[str]) -> str | None:
    group: Any = typer.main.get_command(app)
    command = group
    for word in words:
        if word.startswith("-"):
            known = {name for parameter in command.params for name in parameter.opts} | {"--help"}
            if word.partition("=")[0] not in known:
                return f"`{command.name}` has no option {word}"
        elif command is group:
            if word not in group.commands:
                return f"there is no command {word}"
            command = group.commands[word]
    return None


def _of_make(targets: list[str]) -> str | None:
    rules = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    missing = [word for word in targets if "=" not in word and not word.startswith("-") and word not in rules]
    return f"there is no target {missing[0]}" if missing else None


def _of_pip(wanted: list[str]) -> str | None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for word in wanted:
        if match := re.fullmatch(r"(?:nopg|\.)\[(.+)\]", word):
            missing = set(match[1].split(",")) - set(project["optional-dependencies"])
            if missing:
                return f"there is no extra {', '.join(sorted(missing))}"
    return None

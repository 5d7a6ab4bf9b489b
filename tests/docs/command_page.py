"""Writes the page of the command line from the commands: `make reference`."""

# ruff: noqa: E501 (lines of the page)
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from docs.pages import ROOT
from nopg.cli._app import app
from nopg.cli._settings import TEMPLATE, LogOptions

PAGE = ROOT / "docs/reference/command-line.md"
SHARED = ("config", *LogOptions.__dataclass_fields__)
HEAD = """# Command line

`pip install '.[cli,figures]'` installs the command `nopg`; this page is its `--help`.

{commands}

RUN is the file that `fit` writes. `--json` prints results for programs, `--overwrite` replaces existing files, `nopg --debug fit …`
shows the traceback of an error. Exit codes: 0 done, 1 failed, 2 wrong arguments, 3 data must be corrected
(`describe --strict`), 4 to 6 {codes} (`monitor`), 130 stopped by Ctrl-C.

## A log

Most commands take these options. With a RUN, its log and columns are the default.

{options}

## The file of settings

`nopg init` writes `nopg.toml` for `--config nopg.toml`. Options replace its values, `--set KEY=VALUE` any of them.
`|` separates alternatives.

```toml
{settings}
```
"""


def page() -> str:
    """Return the page."""
    group: Any = typer.main.get_command(app)
    listed = {name: _paragraphs(command)[0] for name, command in group.commands.items()}
    commands = _table(
        ("command", "purpose"), [(f"[`{name}`](#{name})", text) for name, text in listed.items()]
    )
    codes = re.search(r"4 to 6 (.*?) \(`monitor`\)", group.epilog)
    assert codes is not None
    fit = [one for one in group.commands["fit"].params if one.name in SHARED]
    parts = [
        HEAD.format(
            commands=commands,
            codes=codes[1],
            options=_options(fit),
            settings=TEMPLATE.partition("\n\n")[2].strip(),  # without what the page says already
        )
    ]
    return "\n".join(parts + [_section(name, command) for name, command in group.commands.items()])


def _section(name: str, command: Any) -> str:
    said = [text for text in _paragraphs(command) if not text.startswith("Example")]
    examples = [
        one for text in _paragraphs(command) for one in re.findall(r"`(nopg [^`]*)`", _examples(text))
    ]
    shared = SHARED if any(one.name == "config" for one in command.params) else ()
    own = [one for one in command.params if one.name not in shared and one.opts[0].startswith("--")]
    own = [one for one in own if one.name not in {"as_json", "overwrite", "help"}]
    shown = [f"## {name}\n", "\n\n".join(said)]
    shown += ["\n" + "\n".join(f"    {one}" for one in examples)] if examples else []
    shown += ["\n" + _options(own)] if own else []
    return "\n".join(shown) + "\n"


def _examples(text: str) -> str:
    return text[text.find("Example") :] if "Example" in text else ""


def _paragraphs(command: Any) -> list[str]:
    """Return the paragraphs of the help of a command, examples in one of their own."""
    text = re.sub(r"\s(Examples?:\s+`)", r"\n\n\1", command.help)
    return [" ".join(part.split()) for part in text.split("\n\n") if part.strip()]


def _options(parameters: list[Any]) -> str:
    rows = []
    for one in parameters:
        names = ", ".join(f"`{name}`" for name in (*one.opts, *one.secondary_opts))
        if not one.opts[0].startswith("-"):
            names = "`DATA...`"
        default = one.show_default if isinstance(one.show_default, str) else one.default
        plain = (
            default if isinstance(default, (str, int, float, Path)) and not isinstance(default, bool) else ""
        )
        meaning = one.help or ""
        rows.append(f"- {names}: {meaning}" + (f" Default: {plain}." if plain != "" else ""))
    return "\n".join(rows)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |".replace("|  |", "| |") for cells in lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

"""All commands. A command imports what it needs when it is called, so that help and version are fast."""

from __future__ import annotations

import platform
import re
from typing import Annotated

import typer

from nopg._version import __version__
from nopg.cli import _screen
from nopg.cli._controllers import advise, compare, evaluate, export, monitor, plot, report
from nopg.cli._fit import describe, fit, summarize
from nopg.cli._init import init
from nopg.cli._screen import print_json, print_rows
from nopg.cli._settings import AsJson, expand_options, option

app = typer.Typer(
    name="nopg",
    no_args_is_help=True,
    rich_markup_mode=None,  # rich takes as long to import as all the rest
    help="Offline reinforcement learning in closed form: from logged data to a controller.",
    epilog="Exit codes: 0 success, 1 failure, 2 wrong usage, 3 the data must be corrected "
    "(`describe --strict`), 4 to 6 check, retrain, revert (`monitor`), 130 stopped by Ctrl-C. "
    "Results go to standard output (`--json` for programs), "
    "messages to standard error.",
)
_REQUIREMENT = re.compile(r"([\w.-]+).*extra\s*==\s*['\"]([\w-]+)['\"]")


def info(*, as_json: AsJson = False) -> None:
    """Show versions and installed extras; include it in a bug report."""
    import torch

    rows = {"nopg": __version__, "python": platform.python_version(), "platform": platform.platform()}
    rows |= {"torch": torch.__version__, "threads": str(torch.get_num_threads())}
    extras = _extras()
    if as_json:
        print_json({**rows, "extras": {name: not missing for name, missing in extras.items()}})
        return
    for name, missing in extras.items():
        rows[f"extra {name}"] = f"lacks {', '.join(missing)}" if missing else "installed"
    print_rows(rows)


def _extras() -> dict[str, list[str]]:
    """Return the missing packages of every extra."""
    from importlib.metadata import Distribution, PackageNotFoundError, requires

    try:
        needed = [found.groups() for line in requires("nopg") or () if (found := _REQUIREMENT.match(line))]
    except PackageNotFoundError:
        return {}
    missing: dict[str, list[str]] = {extra: [] for _, extra in sorted(needed, key=lambda one: one[1])}
    for package, extra in needed:
        if not any(Distribution.discover(name=package)):
            missing[extra].append(package)
    return missing


for command in (
    describe,
    init,
    fit,
    compare,
    evaluate,
    report,
    plot,
    export,
    monitor,
    advise,
    summarize,
    info,
):
    app.command()(_screen.guarded(expand_options(command)))


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit()


@app.callback()
def _options(
    *,
    version: Annotated[
        bool, option("Print the version and exit.", "--version", callback=_print_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, option("Show the traceback of an error.", "--debug")] = False,
) -> None:
    """Set the options that belong to no command."""
    del version
    _screen.DEBUG = debug

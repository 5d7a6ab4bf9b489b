"""All commands. A command imports what it needs when it is called, so that help and version are fast."""

from __future__ import annotations

import os
import platform
import re
from typing import Annotated

import typer

from nopg._memory import free_memory, gigabytes
from nopg._version import __version__
from nopg.cli import _screen
from nopg.cli._controllers import advise, compare, evaluate, monitor, plot, report
from nopg.cli._export import export
from nopg.cli._fit import describe, fit, summarize
from nopg.cli._init import init
from nopg.cli._screen import print_json, print_rows
from nopg.cli._settings import AsJson, expand_options

app = typer.Typer(
    name="nopg",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
    help="Offline reinforcement learning in closed form: from logged data to a controller.",
    epilog="Exit codes: 0 success, 1 failure, 2 wrong usage, 3 the data must be corrected "
    "(`describe --strict`), 4 to 6 check, retrain, revert (`monitor`), 130 stopped by Ctrl-C. "
    "Results go to standard output (`--json` for programs), "
    "messages to standard error.",
)
_PACKAGE, _EXTRA = re.compile(r"[\w.-]+"), re.compile(r"extra\s*==\s*['\"]([\w-]+)['\"]")


def info(*, as_json: AsJson = False) -> None:
    """Show versions, devices, free memory and installed extras; include it in a bug report."""
    import torch

    devices = ["cpu", *(f"cuda:{k}" for k in range(torch.cuda.device_count()))]
    extras = _extras()
    if as_json:
        print_json(
            {
                "nopg": __version__,
                "python": platform.python_version(),
                "platform": platform.platform(),
                "torch": torch.__version__,
                "threads": torch.get_num_threads(),
                "cores": os.cpu_count(),
                "devices": devices,
                "free_bytes": free_memory(),
                "extras": {name: not missing for name, missing in extras.items()},
            }
        )
        return
    rows = {
        "nopg": __version__,
        "python": f"{platform.python_version()} on {platform.platform(terse=True)}",
        "torch": f"{torch.__version__}, {torch.get_num_threads()} threads of {os.cpu_count()} cores",
        "devices": ", ".join(devices),
        "free memory": gigabytes(free_memory()),
    }
    for name, missing in extras.items():
        rows[f"extra {name}"] = "installed" if not missing else f"lacks {', '.join(missing)}"
    print_rows(rows)


def _extras() -> dict[str, list[str]]:
    """Return the missing packages of every extra."""
    from importlib.metadata import Distribution, PackageNotFoundError, metadata, requires

    try:
        names = metadata("nopg").get_all("Provides-Extra") or []
    except PackageNotFoundError:
        return {}
    missing: dict[str, set[str]] = {name: set() for name in sorted(names)}
    for line in requires("nopg") or []:
        needed, extra = _PACKAGE.match(line), _EXTRA.search(line)
        installed = needed and any(True for _ in Distribution.discover(name=needed[0]))
        if needed and extra and extra[1] in missing and not installed:
            missing[extra[1]].add(needed[0])
    return {name: sorted(lacking) for name, lacking in missing.items()}


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
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Set the options that belong to no command."""
    del version
    _screen.DEBUG = debug

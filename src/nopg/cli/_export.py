"""`nopg export`: a saved controller for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from nopg.cli._guard import GuardFile, read_guard
from nopg.cli._screen import print_json, print_rows
from nopg.cli._settings import AsJson, Overwrite, Run
from nopg.errors import ArgumentError

if TYPE_CHECKING:
    from nopg.deploy import GuardedController

Target = Literal["onnx", "c", "fmu"]


def export(
    run: Run,
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="The file: .onnx, .c or .fmu.", show_default=False)
    ],
    *,
    to: Annotated[Target, typer.Option(help="ONNX, C99 or FMU.", show_default=False)],
    dtype: Annotated[
        Literal["float64", "float32"] | None,
        typer.Option(help="Data type of ONNX; float64 by default.", show_default=False),
    ] = None,
    guard: GuardFile = None,
    most_unknown: Annotated[
        float | None,
        typer.Option(
            help="Largest unknown share at which the policy acts; 0.5 by default.", show_default=False
        ),
    ] = None,
    max_change: Annotated[
        float | None, typer.Option(help="Largest change of an action per step.", show_default=False)
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Export a controller: raw observation in; action and unknown share out.

    ONNX is checked in onnxruntime first and leaves the guard to the caller; the others include it. Example:
    `nopg export tank --to c tank.c --guard guard.toml`
    """
    if to == "onnx":
        if guard is not None or most_unknown is not None or max_change is not None:
            raise ArgumentError("ONNX has no guard; leave --guard, --most-unknown and --max-change out")
        _to_onnx(run, out, dtype or "float64", overwrite, as_json)
        return
    if dtype is not None:
        raise ArgumentError(f"--dtype is for ONNX; {to} has float64")
    guarded = read_guard(run, guard, most_unknown=most_unknown, max_change=max_change)
    written = _write(guarded, out, to, overwrite)
    if as_json:
        print_json(written)
    else:
        print_rows(written)


def _to_onnx(
    run: Path, out: Path, dtype: Literal["float64", "float32"], overwrite: bool, as_json: bool
) -> None:
    from nopg.deploy import to_onnx
    from nopg.training import load

    written = to_onnx(load(run), out, dtype=dtype, overwrite=overwrite)
    worst, paths = written.differences.worst, (str(written.path), str(written.contract_path))
    if as_json:
        print_json({"onnx": paths[0], "contract": paths[1], "worst_difference": worst})
        return
    checked = f"differs from the original by at most {worst:.1e}"
    print_rows({"controller": paths[0], "contract": paths[1], "checked": checked})


def _write(guard: GuardedController, out: Path, to: Target, overwrite: bool) -> dict[str, str]:
    """Write a controller with its guard, and return the files by what they are."""
    from nopg.deploy import to_c, to_fmu

    if to == "c":
        written = to_c(guard, out, overwrite=overwrite)
        return {"controller": str(written.source), "header": str(written.header)}
    return {"controller": str(to_fmu(guard, out, overwrite=overwrite))}

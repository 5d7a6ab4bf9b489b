"""`nopg export`: a saved controller for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from nopg.cli._guard import GuardFile, read_guard
from nopg.cli._screen import print_json, print_rows
from nopg.cli._settings import AsJson, Overwrite, Run
from nopg.errors import ArgumentError


def export(
    run: Run,
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="The file: .onnx, .c or .fmu.", show_default=False)
    ],
    *,
    to: Annotated[Literal["onnx", "c", "fmu"], typer.Option(help="ONNX, C99 or FMU.", show_default=False)],
    dtype: Annotated[
        Literal["float64", "float32"] | None,
        typer.Option(help="Data type of ONNX; float64 by default.", show_default=False),
    ] = None,
    guard: GuardFile = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Export a controller: raw observation in; action and unknown share out.

    ONNX is checked in onnxruntime first and leaves the guard to the caller; the others include it. Example:
    `nopg export tank --to c tank.c --guard guard.toml`
    """
    from nopg.deploy import load, to_c, to_fmu, to_onnx

    written: dict[str, str | float] = {"controller": str(out)}
    if to == "onnx":
        if guard is not None:
            raise ArgumentError("ONNX has no guard; leave --guard out")
        written["difference"] = to_onnx(load(run), out, dtype=dtype or "float64", overwrite=overwrite)
    elif dtype is not None:
        raise ArgumentError(f"--dtype is for ONNX; {to} has float64")
    else:
        (to_c if to == "c" else to_fmu)(read_guard(run, guard), out, overwrite=overwrite)
    if as_json:
        print_json(written)
        return
    if "difference" in written:
        written["difference"] = f"at most {written['difference']:.1e} from numpy, in onnxruntime"
    print_rows({name: str(value) for name, value in written.items()})

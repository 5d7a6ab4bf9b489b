"""`nopg export`: a saved controller for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from nopg.cli._options import AsJson, Overwrite, Run
from nopg.cli._screen import print_json, print_rows

__all__ = ["export"]


def export(
    run: Run,
    *,
    onnx: Annotated[
        Path, typer.Option(help="The ONNX file; its contract is written beside it.", show_default=False)
    ],
    dtype: Annotated[
        Literal["float64", "float32"], typer.Option(help="Data type of inputs and outputs.")
    ] = "float64",
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Export a controller to ONNX: raw observation in; action, support and unknown share out.

    onnxruntime checks it against the original first. Example: `nopg export tank --onnx tank.onnx`
    """
    from nopg.deploy import to_onnx
    from nopg.training import load

    written = to_onnx(load(run), onnx, dtype=dtype, overwrite=overwrite)
    worst, paths = written.differences.worst, (str(written.path), str(written.contract_path))
    if as_json:
        print_json({"onnx": paths[0], "contract": paths[1], "worst_difference": worst})
        return
    checked = f"differs from the original by at most {worst:.1e}"
    print_rows({"controller": paths[0], "contract": paths[1], "checked": checked})

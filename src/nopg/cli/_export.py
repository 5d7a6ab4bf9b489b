"""`nopg export`: a saved controller for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from nopg.cli._evaluate import Run
from nopg.cli._screen import figures_that_matter, guarded, print_json
from nopg.deploy import to_onnx
from nopg.training import load

__all__ = ["export"]


@guarded
def export(
    run: Run,
    *,
    onnx: Annotated[
        Path, typer.Option(help="The ONNX file; its contract goes beside it.", show_default=False)
    ],
    dtype: Annotated[
        Literal["float64", "float32"], typer.Option(help="Of what goes in and comes out.")
    ] = "float64",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Write a controller as ONNX: raw observation in, action, support and unknown share out.

    It is checked in onnxruntime against the original before it is written. Example: `nopg export tank --onnx
    tank.onnx`
    """
    written = to_onnx(load(run), onnx, dtype=dtype, overwrite=overwrite)
    worst = written.differences
    if as_json:
        print_json(
            {
                "onnx": str(written.path),
                "contract": str(written.contract_path),
                "worst_difference": worst.worst,
            }
        )
        return
    figures_that_matter(
        {
            "controller": str(written.path),
            "contract": str(written.contract_path),
            "checked": f"differs from the original by at most {worst.worst:.1e}",
        }
    )

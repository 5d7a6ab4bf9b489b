"""`nopg sign` and `nopg verify`: who released a controller, and whether it is still the same."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nopg.cli._options import AsJson, Run
from nopg.cli._screen import print_json, print_rows
from nopg.errors import ArgumentError


def sign(
    run: Annotated[
        Path | None,
        typer.Argument(
            metavar="[RUN]", help="A saved controller: a folder or a zip file.", show_default=False
        ),
    ] = None,
    *,
    key: Annotated[
        Path | None, typer.Option(help="File of the private key that signs RUN.", show_default=False)
    ] = None,
    new_key: Annotated[
        Path | None,
        typer.Option(help="Write a new private key to this file, and its public key to FILE.pub."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Sign a saved controller with Ed25519 (extra `sign`), or make a pair of keys.

    Example: `nopg sign --new-key plant.pem`, then `nopg sign tank --key plant.pem`
    """
    from nopg.bundles import new_key_pair, sign_bundle

    if (key is None) == (new_key is None) or (run is None) != (key is None):
        raise ArgumentError("give a controller and its key, `nopg sign RUN --key FILE`, or --new-key FILE")
    if run is not None and key is not None:
        signed = sign_bundle(run, key)
        _show({"signed": str(run), "sha256": signed.sha256}, as_json)
    elif new_key is not None:
        private, public = new_key_pair(new_key)
        _show({"private key": str(private), "public key": str(public)}, as_json)


def verify(
    run: Run,
    *,
    key: Annotated[Path, typer.Option(help="File of the public key.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Check that a controller was signed with the private key of a pair, and that no file has changed since.

    Ends with code 0 if so, else with 1. Example: `nopg verify tank --key plant.pem.pub`
    """
    from nopg.bundles import open_bundle

    bundle = open_bundle(run, key=key)
    _show({"verified": str(run), "saved": bundle.manifest.text("saved"), "sha256": bundle.sha256}, as_json)


def _show(rows: dict[str, str], as_json: bool) -> None:
    if as_json:
        print_json({name.replace(" ", "_"): value for name, value in rows.items()})
    else:
        print_rows(rows)

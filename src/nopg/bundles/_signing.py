"""The signature of a saved controller."""

from __future__ import annotations

import os

from nopg.bundles._bundle import MANIFEST, SIGNATURE, Bundle, open_bundle
from nopg.bundles._keys import KeyFile, signature_of
from nopg.bundles._writing import write_members


def sign_bundle(path: str | os.PathLike[str], key: KeyFile) -> Bundle:
    """Sign a saved controller, and return it.

    The signature is a file of its own in the bundle, over the manifest, which holds the SHA-256 of all other
    files. An earlier signature is replaced. A bundle that is incomplete or was changed is not signed.

    Args:
        path: The folder or zip; it is written again, and replaced in one step.
        key: File of the private key; see `new_key_pair`.
    """
    bundle = open_bundle(path)
    signature = signature_of(bundle.content, key)
    signed = {MANIFEST: bundle.content, **bundle.members(), SIGNATURE: signature}
    write_members(bundle.path.resolve(), signed)
    return bundle

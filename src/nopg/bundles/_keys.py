"""Ed25519 keys in PEM files, and signatures of bytes (the extra `sign`)."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from nopg.errors import ArgumentError, MissingExtraError

SIGNATURE_BYTES = 64
"""Size of an Ed25519 signature."""

_LARGEST_KEY = 1 << 16

KeyFile = str | os.PathLike[str]


def new_key_pair(path: KeyFile) -> tuple[Path, Path]:
    """Write a new private key to a file, and its public key beside it; return both paths.

    The private key signs: keep it where controllers are released, and nowhere else. The public key goes to
    every plant. Both are PEM files without a passphrase, as OpenSSL reads and writes them.

    Args:
        path: File of the private key, readable by its owner only; the public key has `.pub` at the end.
            Neither may exist.
    """
    private, public = Path(path), Path(f"{os.fspath(path)}.pub")
    if taken := [file for file in (private, public) if file.exists()]:
        raise ArgumentError(f"{taken[0]} exists already; a key is never replaced, give another name")
    forms = _module("hazmat.primitives.serialization")
    key = _module("hazmat.primitives.asymmetric.ed25519").Ed25519PrivateKey.generate()
    pem = forms.Encoding.PEM
    secret = key.private_bytes(pem, forms.PrivateFormat.PKCS8, forms.NoEncryption())
    shared = key.public_key().public_bytes(pem, forms.PublicFormat.SubjectPublicKeyInfo)
    for file, content, mode in ((private, secret, 0o600), (public, shared, 0o644)):
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as stream:
            stream.write(content)
    return private, public


def signature_of(content: bytes, key: KeyFile) -> bytes:
    """Return the signature of bytes under the private key in a file."""
    signature: bytes = _read(key, "private").sign(content)
    return signature


def is_signature(signature: bytes, content: bytes, key: KeyFile) -> bool:
    """Return whether the signature of bytes was made with the private key of the public one in a file."""
    invalid: type[Exception] = _module("exceptions").InvalidSignature
    public = _read(key, "public")
    try:
        public.verify(signature, content)
    except invalid:
        return False
    return True


def _read(path: KeyFile, kind: str) -> Any:
    """Return the private or public key in a PEM file."""
    try:
        with Path(path).open("rb") as stream:
            content = stream.read(_LARGEST_KEY)
    except OSError as error:
        raise ArgumentError(f"the key {os.fspath(path)} cannot be read ({error.strerror})") from None
    forms, curve = (_module(f"hazmat.primitives.{name}") for name in ("serialization", "asymmetric.ed25519"))
    try:
        if kind == "private":
            key = forms.load_pem_private_key(content, password=None)
        else:
            key = forms.load_pem_public_key(content)
    except (TypeError, ValueError, _module("exceptions").UnsupportedAlgorithm) as error:
        raise _refused(path, kind, str(error)) from None
    if not isinstance(key, curve.Ed25519PrivateKey if kind == "private" else curve.Ed25519PublicKey):
        raise _refused(path, kind, "it is of another algorithm")
    return key


def _refused(path: KeyFile, kind: str, why: str) -> ArgumentError:
    return ArgumentError(
        f"{os.fspath(path)} is no {kind} Ed25519 key without a passphrase, in PEM ({why}); "
        "`nopg sign --new-key FILE` writes the private key to FILE and the public one to FILE.pub"
    )


def _module(name: str) -> Any:
    """Return a module of the package that signs; if it is missing, its extra is named."""
    try:
        return import_module(f"cryptography.{name}")
    except ImportError as error:
        raise MissingExtraError("cryptography", "sign") from error

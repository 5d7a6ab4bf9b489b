"""Saved controllers with other contents, and hashes that fit."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from nopg.bundles import open_bundle
from nopg.bundles._bundle import MANIFEST, write_bundle


def forge(
    path: Path,
    target: Path,
    *,
    documents: Callable[[dict[str, Any]], object] = lambda _: None,
    arrays: Callable[[dict[str, dict[str, Any]]], object] = lambda _: None,
) -> Path:
    """Write a saved controller again, after its documents and its arrays were changed in place."""
    bundle = open_bundle(path)
    texts = {name: json.loads(text) for name, text in bundle.header.items() if name != MANIFEST}
    groups = {
        name: {key: np.array(value) for key, value in bundle.arrays(name).items()}
        for name in ("controller", "result", "data")
        if bundle.has(name)
    }
    documents(texts)
    arrays(groups)
    about = {key: value for key, value in bundle.manifest.values.items() if key not in {"format", "sha256"}}
    return write_bundle(target, documents=texts, arrays=groups, about=about, overwrite=True)

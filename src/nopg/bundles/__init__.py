"""Saved controllers on disk: JSON and safetensors, signed on request, read without torch."""

from nopg.bundles._bundle import Bundle, open_bundle
from nopg.bundles._controller import SavedController, read_controller
from nopg.bundles._keys import new_key_pair
from nopg.bundles._signing import sign_bundle

__all__ = [
    "Bundle",
    "SavedController",
    "new_key_pair",
    "open_bundle",
    "read_controller",
    "sign_bundle",
]

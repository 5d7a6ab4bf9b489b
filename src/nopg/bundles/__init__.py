"""Saved controllers on disk: JSON and safetensors in a folder or a zip, read without torch."""

from nopg._columns import Columns
from nopg.bundles._bundle import FORMAT, Bundle, open_bundle
from nopg.bundles._controller import CONTROLLER, WEIGHTS, SavedController, SavedSupport, read_controller
from nopg.bundles._fields import Fields
from nopg.bundles._writing import write_bundle, write_files

__all__ = [
    "CONTROLLER",
    "FORMAT",
    "WEIGHTS",
    "Bundle",
    "Columns",
    "Fields",
    "SavedController",
    "SavedSupport",
    "open_bundle",
    "read_controller",
    "write_bundle",
    "write_files",
]

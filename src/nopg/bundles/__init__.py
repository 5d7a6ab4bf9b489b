"""Saved controllers on disk: JSON and safetensors in a folder or a zip, read without torch."""

from nopg.bundles._bundle import FORMAT, Bundle, open_bundle
from nopg.bundles._fields import Fields
from nopg.bundles._writing import write_bundle

__all__ = ["FORMAT", "Bundle", "Fields", "open_bundle", "write_bundle"]

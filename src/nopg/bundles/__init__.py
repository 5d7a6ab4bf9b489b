"""Saved controllers: one safetensors file with JSON in its header, read without torch."""

from nopg.bundles._bundle import Bundle, open_bundle
from nopg.bundles._controller import SavedController, read_controller

__all__ = ["Bundle", "SavedController", "open_bundle", "read_controller"]

"""From a saved folder to a controller that runs, without torch."""

from __future__ import annotations

import os

from nopg.bundles import open_bundle, read_controller
from nopg.deploy._controller import RuntimeController

__all__ = ["load"]


def load(path: str | os.PathLike[str]) -> RuntimeController:
    """Return the controller in the folder or zip that `TrainingResult.save` wrote.

    It needs numpy and safetensors alone. Only the controller is read, not data and solution; a bundle that is
    incomplete, changed or does not fit together raises `BundleError`.
    """
    return RuntimeController(read_controller(open_bundle(path)))

"""A saved controller where it runs (numpy and safetensors alone), and exports for other programs."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nopg.deploy._controller import RuntimeController
from nopg.deploy._guard import Decision, GuardedController
from nopg.deploy._loading import load

if TYPE_CHECKING:
    from nopg.deploy._contract import contract_schema
    from nopg.deploy._onnx import OnnxExport, to_onnx

__all__ = [
    "Decision",
    "GuardedController",
    "OnnxExport",
    "RuntimeController",
    "contract_schema",
    "load",
    "to_onnx",
]

_LAZY = {"OnnxExport": "_onnx", "contract_schema": "_contract", "to_onnx": "_onnx"}


def __getattr__(name: str) -> Any:
    """Import what needs an extra only when it is asked for."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)

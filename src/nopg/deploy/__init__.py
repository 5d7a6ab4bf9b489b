"""Saved controllers at runtime (numpy and safetensors only), and their export to ONNX."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nopg._stream import ControllerStream, StateStream
from nopg.deploy._controller import RuntimeController, load
from nopg.deploy._guard import Decision, GuardedController

if TYPE_CHECKING:
    from nopg.deploy._contract import contract_schema
    from nopg.deploy._onnx import OnnxExport, to_onnx

__all__ = [
    "ControllerStream",
    "Decision",
    "GuardedController",
    "OnnxExport",
    "RuntimeController",
    "StateStream",
    "contract_schema",
    "load",
    "to_onnx",
]

_LAZY = {"OnnxExport": "_onnx", "contract_schema": "_contract", "to_onnx": "_onnx"}


def __getattr__(name: str) -> Any:
    """Import the names that need torch or an extra on first use."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)

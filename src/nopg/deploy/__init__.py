"""Saved controllers at runtime (numpy and safetensors only), and their exports: ONNX, C, FMU."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nopg._stream import StateStream
from nopg.deploy._controller import RuntimeController, load
from nopg.deploy._guard import Decision, GuardedController, GuardRules

if TYPE_CHECKING:
    from nopg.deploy._c import to_c
    from nopg.deploy._fmu import to_fmu
    from nopg.deploy._onnx import to_onnx

__all__ = [
    "Decision",
    "GuardRules",
    "GuardedController",
    "RuntimeController",
    "StateStream",
    "load",
    "to_c",
    "to_fmu",
    "to_onnx",
]


def __getattr__(name: str) -> Any:
    """Import the exports, which a controller at work does not need, on first use."""
    if name not in {"to_c", "to_fmu", "to_onnx"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}._{name.removeprefix('to_')}"), name)

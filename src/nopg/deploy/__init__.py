"""Saved controllers at runtime (numpy and safetensors only), and their exports: ONNX, C, FMU."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nopg._stream import ControllerStream, StateStream
from nopg.deploy._controller import RuntimeController, load
from nopg.deploy._guard import Decision, GuardedController
from nopg.deploy._guard_rules import GuardRules
from nopg.deploy._guard_trace import Handover, StepCounts

if TYPE_CHECKING:
    from nopg.deploy._c99 import CExport, to_c
    from nopg.deploy._contract import contract_schema
    from nopg.deploy._fmu import to_fmu
    from nopg.deploy._onnx import OnnxExport, to_onnx

__all__ = [
    "CExport",
    "ControllerStream",
    "Decision",
    "GuardRules",
    "GuardedController",
    "Handover",
    "OnnxExport",
    "RuntimeController",
    "StateStream",
    "StepCounts",
    "contract_schema",
    "load",
    "to_c",
    "to_fmu",
    "to_onnx",
]

_LAZY = {
    "CExport": "_c99",
    "OnnxExport": "_onnx",
    "contract_schema": "_contract",
    "to_c": "_c99",
    "to_fmu": "_fmu",
    "to_onnx": "_onnx",
}


def __getattr__(name: str) -> Any:
    """Import the names that a controller at work does not need on first use."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)

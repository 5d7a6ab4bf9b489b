"""Saved controllers at runtime (numpy and safetensors only), and their exports: ONNX, C, FMU."""

from nopg._stream import StateStream
from nopg.deploy._c import to_c
from nopg.deploy._controller import RuntimeController, load
from nopg.deploy._fmu import to_fmu
from nopg.deploy._guard import Decision, GuardedController, GuardRules
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

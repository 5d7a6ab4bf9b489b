"""Controllers for other programs: ONNX with a contract beside it, checked before it is written."""

from nopg.export._contract import CONTRACT_FORMAT, contract_schema
from nopg.export._onnx import OnnxExport, to_onnx

__all__ = ["CONTRACT_FORMAT", "OnnxExport", "contract_schema", "to_onnx"]

"""Export of a controller to ONNX, checked against the original."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from nopg._files import write_files
from nopg.deploy._check import Differences, worst_differences
from nopg.deploy._check_stream import worst_stream_differences
from nopg.deploy._contract import PACKAGES, contract_bytes, contract_of
from nopg.deploy._graph import ControllerGraph, Dtype
from nopg.deploy._stream_graph import StreamGraph, graph_of
from nopg.errors import ArgumentError, ExportError, MissingExtraError
from nopg.training import TrainingResult

# The oldest that the exporter writes without conversion, for the widest support by runtimes.
_OPSET = 18
_TOLERANCE: Mapping[Dtype, float] = {"float64": 1e-6, "float32": 1e-3}


@dataclass(frozen=True, slots=True)
class OnnxExport:
    """An exported controller.

    Attributes:
        path: The ONNX file.
        contract_path: The JSON file of the contract.
        contract: Its content.
        differences: The largest differences between onnxruntime and torch.
    """

    path: Path
    contract_path: Path
    contract: Mapping[str, Any]
    differences: Differences

    def __repr__(self) -> str:
        return (
            f"OnnxExport({self.path.name}: {self.contract['input']['dtype']}, as torch to "
            f"{self.differences.worst:.0e} at {self.differences.states} states)"
        )


def to_onnx(
    result: TrainingResult,
    path: str | os.PathLike[str],
    *,
    dtype: Dtype = "float64",
    tolerance: float | None = None,
    overwrite: bool = False,
) -> OnnxExport:
    """Write a controller as ONNX, with a contract in JSON.

    The graph maps raw observations (batch, d_s) to `action` (batch, d_a) and `unknown` (batch,); it
    includes angles, scales, limits and where the data are. Before it is written, it runs in onnxruntime at
    10⁴ states in and around the data, and is compared with torch.

    Where the columns have a memory (derived columns, or missing values that are held), the graph is one step
    of it: it has the further inputs `state`, `applied` and `age`, and the further outputs `next_state` and
    `next_age`, which are fed back. The contract describes that, and streams of steps are compared as well.

    Args:
        result: From `nopg.optimize` or `nopg.load`.
        path: Ends in `.onnx`; the contract gets the same name with `.json`. They must not exist yet.
        dtype: Of the tensors and of all arithmetic. float64 gives the numbers of torch; float32 is for
            hardware without float64.
        tolerance: The largest difference allowed: of an action in units of its span, of the unknown share.
            By default 10⁻⁶, and 10⁻³ in float32.
        overwrite: Whether older files at the path are replaced.

    Raises:
        ExportError: The exported graph differs from torch by more than the tolerance; no file is written.
    """
    target, contract_target = _targets(Path(path), overwrite)
    _check(dtype, tolerance)
    limit = _TOLERANCE[dtype] if tolerance is None else float(tolerance)
    graph = graph_of(result, dtype)
    model = _exported(graph, dtype)

    if isinstance(graph, StreamGraph):
        differences = worst_stream_differences(model, result, graph, dtype)
    else:
        differences = worst_differences(model, result, graph, dtype)
    if not differences.worst <= limit:  # NaN included
        raise ExportError(
            f"in onnxruntime the controller differs from torch by {differences.worst:.1e} (action "
            f"{differences.action:.1e}, unknown share {differences.unknown:.1e}, memory "
            f"{differences.memory or 0.0:.1e}), over {limit:.0e}; nothing was written. "
            + ("Try dtype='float64'" if dtype == "float32" else "Is there a policy of your own in it?")
        )

    contract = contract_of(
        result,
        graph,
        model,
        name=target.name,
        dtype=dtype,
        opset=_OPSET,
        differences=differences,
        tolerance=limit,
    )
    # The contract is written last: it holds the hash of the model.
    write_files({target: model, contract_target: contract_bytes(contract)})
    return OnnxExport(target, contract_target, contract, differences)


def _targets(path: Path, overwrite: bool) -> tuple[Path, Path]:
    if path.suffix != ".onnx" or not path.stem:
        raise ArgumentError(f"the path is {str(path)!r}; give one that ends in .onnx, such as 'pump.onnx'")
    contract = path.with_suffix(".json")
    for target in (path, contract):
        if target.exists() and not overwrite:
            raise ArgumentError(f"{target} exists already; give another name, or overwrite=True")
    return path, contract


def _check(dtype: str, tolerance: float | None) -> None:
    if dtype not in _TOLERANCE:
        raise ArgumentError(f"dtype is {dtype!r}; give 'float64' or 'float32'")
    if tolerance is not None and not tolerance > 0:
        raise ArgumentError(f"tolerance is {tolerance}; give a positive number, such as 1e-6")
    for package in PACKAGES:
        try:
            import_module(package)
        except ImportError:
            raise MissingExtraError(package, "onnx") from None


def _exported(graph: ControllerGraph | StreamGraph, dtype: Dtype) -> bytes:
    """Return the graph as the bytes of an ONNX model."""
    kind, batch = getattr(torch, dtype), torch.export.Dim("batch")
    with _quiet(), torch.no_grad():
        program = torch.onnx.export(
            graph,
            tuple(torch.zeros(2, size, dtype=kind) for size in graph.inputs.values()),
            dynamo=True,
            verbose=False,
            input_names=list(graph.inputs),
            output_names=list(graph.outputs),
            dynamic_shapes={name: {0: batch} for name in graph.inputs},
            opset_version=_OPSET,
        )
    assert program is not None  # None only without dynamo
    model = program.model_proto
    # The exporter stores source locations with the paths of this machine.
    for node in model.graph.node:
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
    content: bytes = model.SerializeToString(deterministic=True)
    return content


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence messages of the exporter that do not concern the user."""
    registration = logging.getLogger("torch.onnx._internal.exporter._registration")
    level = registration.level
    registration.setLevel(logging.ERROR)  # that torchvision is not installed
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*LeafSpec.* is deprecated", FutureWarning)
            # All inputs of a controller with a memory have the same number of rows.
            warnings.filterwarnings("ignore", "# The axis name: batch will not be used", UserWarning)
            yield
    finally:
        registration.setLevel(level)

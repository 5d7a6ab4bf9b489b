"""The contract of an exported controller: its interface and its check, as JSON."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

from nopg._columns import GAP_FACTOR
from nopg._provenance import provenance
from nopg.data import Schema
from nopg.deploy._check import Differences
from nopg.deploy._graph import INPUT, OUTPUTS, ControllerGraph, Dtype
from nopg.deploy._guard import MOST_UNKNOWN
from nopg.deploy._stream_graph import AGE, APPLIED, NEXT_AGE, NEXT_STATE, STATE, StreamGraph
from nopg.errors import ArgumentError
from nopg.policies import Policy
from nopg.policies._description import describe_policy
from nopg.training import TrainingResult

CONTRACT_FORMAT, _WITH_MEMORY = 3, 4
"""The layout of a contract; `contract.schema.json` describes it. A controller with a memory has another."""
PACKAGES = ("onnx", "onnxscript", "onnxruntime")

_ACTION, _UNKNOWN = OUTPUTS


def contract_of(
    result: TrainingResult,
    graph: ControllerGraph | StreamGraph,
    model: bytes,
    *,
    name: str,
    dtype: Dtype,
    opset: int,
    differences: Differences,
    tolerance: float,
) -> dict[str, Any]:
    """Return the contract of the controller in the bytes of an ONNX file."""
    digest = hashlib.sha256(model).hexdigest()
    memory = {"memory": _memory(result, dtype)} if isinstance(graph, StreamGraph) else {}
    return {
        "format": _WITH_MEMORY if memory else CONTRACT_FORMAT,
        "kind": "nopg controller in ONNX",
        "file": {"name": name, "bytes": len(model), "sha256": digest, "opset": opset},
        "input": _input(result, dtype),
        "outputs": [*_outputs(result, graph, dtype), *(_next_memory(result, dtype) if memory else [])],
        **memory,
        "not_finite": "a row with a number that is not finite gives action NaN and unknown 1",
        "unknown": {"limit": MOST_UNKNOWN, "charts": result.support.num_charts},
        "policy": _kind(result.policy.policy),
        "result": {
            "discount": result.discount,
            "expected_return": result.expected_return,
            "interval": None if result.interval is None else list(result.interval),
            "verdict": result.verdict,
            "unknown_mass": result.unknown_mass,
            "start_unknown": result.start_unknown,
        },
        "data": dict(result.data_identity),
        "check": {"against": "torch, float64", "tolerance": tolerance, "worst": differences.to_dict()},
        "exported": datetime.now(UTC).isoformat(timespec="seconds"),
        **provenance(PACKAGES),
    }


def contract_bytes(contract: Mapping[str, Any]) -> bytes:
    """Return a contract as JSON."""
    return (json.dumps(contract, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def contract_schema() -> dict[str, Any]:
    """Return the JSON Schema of contracts."""
    text = files("nopg.deploy").joinpath("contract.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def _input(result: TrainingResult, dtype: Dtype) -> dict[str, Any]:
    schema = result.policy.schema
    return {
        "name": INPUT,
        "dtype": dtype,
        "shape": ["batch", len(schema.measured)],
        "columns": [_column(schema, name) for name in schema.measured],
    }


def _column(schema: Schema, name: str) -> dict[str, Any]:
    bounds = _ends(*schema.bounds.get(name, (-math.inf, math.inf)))
    return {"name": name, "unit": schema.units.get(name), "period": schema.angles.get(name), **bounds}


def _memory(result: TrainingResult, dtype: Dtype) -> dict[str, Any]:
    """Return the further inputs of a controller with a memory, and how to run it."""
    schema = result.policy.schema
    sizes = {STATE: schema.states, APPLIED: schema.actions, AGE: schema.measured}
    meanings = {
        STATE: f"{NEXT_STATE} of the last step; NaN in every column at a start-up",
        APPLIED: "the action that the plant received since the last step, whoever gave it; NaN if not known",
        AGE: f"{NEXT_AGE} of the last step; 0 in every column at a start-up",
    }
    return {
        "inputs": [
            {
                "name": name,
                "dtype": dtype,
                "shape": ["batch", len(columns)],
                "columns": list(columns),
                "meaning": meanings[name],
            }
            for name, columns in sizes.items()
        ],
        "feed_back": {STATE: NEXT_STATE, AGE: NEXT_AGE},
        "start": "begin with a start-up, and again after a time of more than gap_factor intervals; lags of "
        f"actions then have the value of {APPLIED}, or that of their initial formula where it is NaN",
        "missing": "NaN in observation; it is replaced by the last value for hold steps, after which the row "
        "is not finite and the next one with all values is a start-up",
        "derived": [
            {**_column(schema, name), "initial": one.initial, "update": one.update}
            for name, one in schema.derived.items()
        ],
        "hold": {name: schema.hold.get(name, 0) for name in schema.measured},
        "interval": schema.interval,
        "gap_factor": GAP_FACTOR,
    }


def _next_memory(result: TrainingResult, dtype: Dtype) -> list[dict[str, Any]]:
    schema = result.policy.schema
    meanings = {
        NEXT_STATE: "measured columns, held where they were missing, then derived ones; feed it back",
        NEXT_AGE: "number of steps for which each measured value has been missing; feed it back",
    }
    sizes = {NEXT_STATE: len(schema.states), NEXT_AGE: len(schema.measured)}
    return [
        {"name": name, "dtype": dtype, "shape": ["batch", size], "meaning": meanings[name]}
        for name, size in sizes.items()
    ]


def _outputs(
    result: TrainingResult, graph: ControllerGraph | StreamGraph, dtype: Dtype
) -> list[dict[str, Any]]:
    schema, limits = result.policy.schema, zip(*graph.limits, strict=True)
    actions = [
        {"name": name, "unit": schema.units.get(name), **_ends(float(low), float(high))}
        for name, (low, high) in zip(schema.actions, limits, strict=True)
    ]
    return [
        {"name": _ACTION, "dtype": dtype, "shape": ["batch", len(actions)], "columns": actions},
        {
            "name": _UNKNOWN,
            "dtype": dtype,
            "shape": ["batch"],
            "meaning": "unknown share of state and action",
        },
    ]


def _kind(policy: Policy) -> str:
    try:
        return str(describe_policy(policy)["kind"])
    except ArgumentError:  # a policy of the user can be exported, but not saved
        return "other"


def _ends(low: float, high: float) -> dict[str, float | None]:
    """Return the bounds; null where there is none."""
    return {"low": low if math.isfinite(low) else None, "high": high if math.isfinite(high) else None}

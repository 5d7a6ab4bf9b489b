"""The contract of an exported controller: its interface and its check, as JSON."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

from nopg._provenance import provenance
from nopg.deploy._check import Differences
from nopg.deploy._graph import INPUT, OUTPUTS, ControllerGraph, Dtype
from nopg.deploy._guard import MOST_UNKNOWN
from nopg.errors import ArgumentError
from nopg.policies import Policy
from nopg.policies._description import describe_policy
from nopg.training import TrainingResult

__all__ = ["CONTRACT_FORMAT", "PACKAGES", "contract_bytes", "contract_of", "contract_schema"]

CONTRACT_FORMAT = 1
"""The layout of a contract; `contract.schema.json` describes it."""
PACKAGES = ("onnx", "onnxscript", "onnxruntime")

_ACTION, _SUPPORT, _UNKNOWN = OUTPUTS


def contract_of(
    result: TrainingResult,
    graph: ControllerGraph,
    model: bytes,
    *,
    name: str,
    dtype: Dtype,
    opset: int,
    differences: Differences,
    tolerance: float,
) -> dict[str, Any]:
    """Return the contract of the controller in the bytes of an ONNX file."""
    support, digest = result.condensed_support, hashlib.sha256(model).hexdigest()
    return {
        "format": CONTRACT_FORMAT,
        "kind": "nopg controller in ONNX",
        "file": {"name": name, "bytes": len(model), "sha256": digest, "opset": opset},
        "input": _input(result, dtype),
        "outputs": _outputs(result, graph, dtype),
        "not_finite": "a row with a number that is not finite gives action NaN, support 0 and unknown 1",
        "unknown": {
            "limit": MOST_UNKNOWN,
            "prior_mass": support.prior_mass,
            "representatives": len(support.places),
        },
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
        "check": {"against": "torch, float64", "tolerance": tolerance, "worst": asdict(differences)},
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
        "shape": ["batch", len(schema.states)],
        "columns": [
            {
                "name": name,
                "unit": schema.units.get(name),
                "period": schema.angles.get(name),
                **_ends(*schema.bounds.get(name, (-math.inf, math.inf))),
            }
            for name in schema.states
        ],
    }


def _outputs(result: TrainingResult, graph: ControllerGraph, dtype: Dtype) -> list[dict[str, Any]]:
    schema, limits = result.policy.schema, zip(*graph.limits, strict=True)
    actions = [
        {"name": name, "unit": schema.units.get(name), **_ends(float(low), float(high))}
        for name, (low, high) in zip(schema.actions, limits, strict=True)
    ]
    return [
        {"name": _ACTION, "dtype": dtype, "shape": ["batch", len(actions)], "columns": actions},
        {"name": _SUPPORT, "dtype": dtype, "shape": ["batch"], "meaning": "effective sample size there, S"},
        {"name": _UNKNOWN, "dtype": dtype, "shape": ["batch"], "meaning": "unknown share, β/(β + S)"},
    ]


def _kind(policy: Policy) -> str:
    try:
        return str(describe_policy(policy)["kind"])
    except ArgumentError:  # a policy of the user can be exported, but not saved
        return "other"


def _ends(low: float, high: float) -> dict[str, float | None]:
    """Return the bounds; null where there is none."""
    return {"low": low if math.isfinite(low) else None, "high": high if math.isfinite(high) else None}

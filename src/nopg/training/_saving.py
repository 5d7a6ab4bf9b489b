"""A result as JSON and arrays; `_loading` is the way back."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from nopg._provenance import fingerprint, provenance
from nopg.bellman import ControlProblem, Solution
from nopg.bundles._controller import CONTROLLER, WEIGHTS
from nopg.bundles._writing import write_bundle
from nopg.data import Transitions
from nopg.data._bounds import action_ranges, check_bounds
from nopg.errors import ArgumentError
from nopg.models._state_support import CondensedSupport
from nopg.policies._description import describe_policy
from nopg.training._controller import Controller
from nopg.training._reports import Update
from nopg.training._starts import StartSupport

__all__ = ["ABOUT", "DATA", "NUMBERS", "RESULT", "data_identity", "save_result"]

RESULT, NUMBERS = "result.json", "result.safetensors"
"""What is known of the controller: settings, answer, history, solution."""
DATA = "data.safetensors"
"""The transitions, if they were to be saved."""
ABOUT = ("saved", "data", "commit", "versions")


class SavedResult(Protocol):
    """The parts of a `TrainingResult` that are saved."""

    @property
    def policy(self) -> Controller: ...

    @property
    def numbers(self) -> Any: ...

    @property
    def history(self) -> tuple[Update, ...]: ...

    @property
    def start(self) -> str: ...

    @property
    def start_support(self) -> StartSupport: ...

    @property
    def seed(self) -> int: ...

    @property
    def constraints(self) -> tuple[Any, ...]: ...

    @property
    def problem(self) -> ControlProblem: ...

    @property
    def solution(self) -> Solution: ...

    @property
    def condensed_support(self) -> CondensedSupport: ...


def save_result(
    result: SavedResult,
    path: str | os.PathLike[str],
    *,
    with_data: bool,
    overwrite: bool,
    log: Mapping[str, Any] | None = None,
) -> Path:
    """Write a result; see `TrainingResult.save`. `log` says how its log was read, for logs to come."""
    problem = result.problem
    described = describe_policy(result.policy.policy)  # refuses before anything is written
    settings = problem.settings() if with_data else {}
    data = problem.stored_data
    check_bounds(data, result.policy.schema)
    if (levels := result.policy.schema.levels) and described["kind"] != "quantized":
        raise ArgumentError(
            f"the actions {list(levels)} have levels, but the policy is none that keeps them; save a "
            "QuantizedPolicy"
        )
    support = result.condensed_support
    arrays = {WEIGHTS: _weights(result, support), NUMBERS: _numbers(result)}
    return write_bundle(
        path,
        documents={
            CONTROLLER: {
                "schema": result.policy.schema.to_dict(),
                "policy": described,
                "support": {"prior_mass": support.prior_mass},
                "logged": action_ranges(data),
            },
            RESULT: {
                "seed": result.seed,
                "start": result.start,
                "answer": asdict(result.numbers),
                "model": settings,
                "constraints": {str(k): asdict(one) for k, one in enumerate(result.constraints)},
            },
        },
        arrays=arrays | ({DATA: _arrays(_columns(data))} if with_data else {}),
        about={
            "saved": datetime.now(UTC).isoformat(timespec="seconds"),
            "data": {**data_identity(data), "included": with_data},
            **provenance(),
            **({} if log is None else {"log": log}),
        },
        overwrite=overwrite,
    )


def _weights(result: SavedResult, support: CondensedSupport) -> dict[str, np.ndarray[Any, Any]]:
    parameters = {f"policy.{name}": value for name, value in result.policy.policy.state_dict().items()}
    places = {f"support.{name}": getattr(support, name) for name in ("places", "weights", "width")}
    return _arrays(parameters | places)


def _numbers(result: SavedResult) -> dict[str, np.ndarray[Any, Any]]:
    starts = ("states", "support", "unknown", "nearest")
    return _arrays(
        _history(result.history)
        | {f"solution.{name}": part for name, part in result.solution.arrays().items()}
        | {f"start.{name}": getattr(result.start_support, name) for name in starts}
    )


def data_identity(data: Transitions) -> dict[str, object]:
    """Return how many rows there are, and a hash of all that a method may read of them."""
    return {"rows": len(data), "sha256": fingerprint([*_columns(data, absent=True).values()])}


def _history(updates: Sequence[Update]) -> dict[str, torch.Tensor]:
    """Return one array for each field of an update."""
    return {
        f"history.{part.name}": torch.tensor(
            [getattr(update, part.name) for update in updates], dtype=torch.float64
        )
        for part in fields(Update)
    }


def _columns(data: Transitions, *, absent: bool = False) -> dict[str, torch.Tensor | None]:
    """Return the arrays of the data by name; those that it does not have only if asked."""
    columns: dict[str, torch.Tensor | None] = {
        "states": data.states,
        "actions": data.actions,
        "rewards": data.rewards,
        "next_states": data.next_states,
        "terminated": data.terminated,
        "truncated": data.truncated,
        "episodes": data.episodes,
        "initial_states": data.initial_states,
        "weights": data.weights,
    }
    return {name: column for name, column in columns.items() if absent or column is not None}


def _arrays(tensors: Mapping[str, torch.Tensor | None]) -> dict[str, np.ndarray[Any, Any]]:
    return {
        name: tensor.detach().cpu().contiguous().numpy()
        for name, tensor in tensors.items()
        if tensor is not None
    }

"""A result as JSON and arrays; `_loading` is the way back."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from nopg.bundles import CONTROLLER, WEIGHTS, write_bundle
from nopg.data import Schema, Transitions
from nopg.errors import ArgumentError
from nopg.graph import KernelMean, LocalLinear, MonteCarlo, NadarayaWatson, TransitionModel, whole_data
from nopg.policies import describe_policy
from nopg.records import fingerprint, provenance
from nopg.training._choice import ModelChoice
from nopg.training._reports import Update

if TYPE_CHECKING:
    from nopg.training._result import TrainingResult

__all__ = ["ABOUT", "DATA", "NUMBERS", "RESULT", "data_identity", "save_result"]

RESULT, NUMBERS = "result.json", "result.safetensors"
"""What is known of the controller: settings, answer, history, solution."""
DATA = "data.safetensors"
"""The transitions, if they were to be saved."""
ABOUT = ("saved", "data", "commit", "versions")


def save_result(
    result: TrainingResult, path: str | os.PathLike[str], *, with_data: bool, overwrite: bool
) -> Path:
    """Write a result; see `TrainingResult.save`."""
    policy, model = result.policy.policy, result.solution.equation.problem.model
    described = describe_policy(policy)  # refuses before anything is gathered or written
    settings = model_settings(model)
    ranks = model.space.ranks
    data, total = whole_data(model.data, ranks), int(ranks.total(len(model.data)))
    if with_data and len(data) < total:
        raise ArgumentError(
            f"{total} rows on {ranks.count} ranks are too many to gather; give data=False, and keep the data "
            "where they are"
        )
    support, solution = result.condensed_support, result.solution
    rows, q, mu = (ranks.gather(part) for part in (result.rows, solution.q, solution.mu))
    if ranks.number > 0:
        ranks.wait()
        return Path(path)

    start = result.start_support
    written = write_bundle(
        path,
        documents={
            CONTROLLER: {
                "schema": _schema(result.policy.schema),
                "policy": described,
                "support": {"prior_mass": support.prior_mass},
            },
            RESULT: {
                "seed": result.seed,
                "unknown_value": solution.equation.problem.unknown_value,
                "answer": asdict(result.answer),
                "bandwidths": {"source": result.bandwidths.source},
                "model": settings,
                "choice": _choice(result.choice),
                "constraints": {str(k): asdict(answer) for k, answer in enumerate(result.constraints)},
            },
        },
        arrays={
            WEIGHTS: _arrays(
                {f"policy.{name}": value for name, value in policy.state_dict().items()}
                | {
                    "support.places": support.places,
                    "support.weights": support.weights,
                    "support.width": support.width,
                }
            ),
            NUMBERS: _arrays(
                _history(result.history)
                | {
                    "q": q,
                    "mu": mu,
                    "rows": rows,
                    "bandwidths.states": result.bandwidths.states,
                    "bandwidths.actions": result.bandwidths.actions,
                    "bandwidths.next_states": result.bandwidths.next_states,
                    "start.states": start.states,
                    "start.support": start.support,
                    "start.unknown": start.unknown,
                    "start.nearest": start.nearest,
                }
            ),
            **({DATA: _arrays(_columns(data))} if with_data else {}),
        },
        about={
            "saved": datetime.now(UTC).isoformat(timespec="seconds"),
            "data": {**data_identity(data), "included": with_data},
            **provenance(),
        },
        overwrite=overwrite,
    )
    ranks.wait()
    return written


def data_identity(data: Transitions) -> dict[str, object]:
    """Return how many rows there are, and a hash of all that a method may read of them."""
    return {"rows": len(data), "sha256": fingerprint([*_columns(data, absent=True).values()])}


def model_settings(model: TransitionModel) -> dict[str, Any]:
    """Return what builds the same model from the same data and bandwidths."""
    if isinstance(model, LocalLinear):
        return {
            "name": "local-linear",
            "shape": asdict(model.shape),
            "interpolation": model.interpolation,
            "slack": model.slack,
            "num_candidates": model.num_candidates,
            "prior_mass": model.prior_mass,
            "cover": model.cover,
        }
    if isinstance(model, NadarayaWatson) and isinstance(model.integration, (KernelMean, MonteCarlo)):
        rule = model.integration
        return {
            "name": "nadaraya-watson",
            "prior_mass": model.prior_mass,
            "integration": asdict(rule) if isinstance(rule, MonteCarlo) else None,
            "most_candidates": model.search.most_candidates,
            "num_candidates": model.search.num_candidates,
        }
    raise ArgumentError("a result with a transition model or integration rule of your own cannot be saved")


def _history(updates: Sequence[Update]) -> dict[str, torch.Tensor]:
    """Return one array for each field of an update."""
    return {
        f"history.{part.name}": torch.tensor(
            [getattr(update, part.name) for update in updates], dtype=torch.float64
        )
        for part in fields(Update)
    }


def _schema(schema: Schema) -> dict[str, Any]:
    return {
        "states": list(schema.states),
        "actions": list(schema.actions),
        "angles": dict(schema.angles),
        "units": dict(schema.units),
        "bounds": {name: list(bounds) for name, bounds in schema.bounds.items()},
    }


def _choice(choice: ModelChoice) -> dict[str, Any]:
    compared = choice.comparison
    if compared is None:
        return {"name": choice.name, "reason": choice.reason, "comparison": None}
    return {
        "name": choice.name,
        "reason": choice.reason,
        "comparison": {
            "one_step": dict(compared.one_step),
            "rolled_out": None if compared.rolled_out is None else dict(compared.rolled_out),
            "horizon": compared.horizon,
            "num_distinct": compared.num_distinct,
            "shape": None if compared.shape is None else asdict(compared.shape),
        },
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

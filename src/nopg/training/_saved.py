"""A result as JSON and arrays, none of which is trusted when it is read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, astuple, fields, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import torch

from nopg._checks import check_discount
from nopg._columns import Columns
from nopg._files import fingerprint, provenance
from nopg.bellman import Certificate, ControlProblem, Solution
from nopg.bundles import Bundle, open_bundle, read_controller
from nopg.bundles._bundle import write_bundle
from nopg.bundles._controller import CONTROLLER
from nopg.bundles._fields import Fields
from nopg.bundles._support import support_arrays, support_document
from nopg.data import Schema, Transitions
from nopg.data._bounds import action_ranges, check_bounds
from nopg.data._checks import check_magnitudes
from nopg.errors import ArgumentError, BundleError, DataError
from nopg.evaluation import Verdict
from nopg.policies import Policy
from nopg.policies._description import describe_policy, policy_from
from nopg.training._constraints import ConstraintResult
from nopg.training._controller import Controller
from nopg.training._improve import solution_under
from nopg.training._reports import Update
from nopg.training._result import TrainingResult
from nopg.training._starts import StartSupport

RESULT = "result"
"""What is known of the controller: settings, answer, history, solution."""
DATA = "data"
"""The transitions, if they were to be saved."""

Tensors = Mapping[str, torch.Tensor]

_ANSWER = ("discount", "expected_return", "unknown_mass", "interval", "verdict", "reasons", "notes")
_STARTS = ("states", "unknown", "nearest")
_ROWS = ("states", "actions", "rewards", "next_states", "terminated", "truncated")
_OPTIONAL = ("episodes", "initial_states", "weights")
_COUNTS = ("number", "planned", "products")


def save_result(
    result: TrainingResult,
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
    data = problem.data
    check_bounds(data, result.policy.schema)
    if (levels := result.policy.schema.levels) and described["kind"] != "quantized":
        raise ArgumentError(
            f"the actions {list(levels)} have levels, but the policy is none that keeps them; save a "
            "QuantizedPolicy"
        )
    starts = {f"start.{name}": getattr(result.start_support, name) for name in _STARTS}
    updates = [astuple(update) for update in result.history]
    history = torch.tensor(updates, dtype=torch.float64).view(-1, len(fields(Update)))
    parameters = {f"policy.{name}": value for name, value in result.policy.policy.state_dict().items()}
    arrays = {
        CONTROLLER: {**_arrays(parameters), **support_arrays(result.support)},
        RESULT: _arrays({"history": history, **starts}),
    }
    return write_bundle(
        path,
        documents={
            CONTROLLER: {
                "schema": result.policy.schema.to_dict(),
                "policy": described,
                "support": support_document(result.support),
                "logged": action_ranges(data),
            },
            RESULT: {
                "seed": result.seed,
                "start": result.start,
                "answer": {name: getattr(result, name) for name in _ANSWER}
                | {"certificate": asdict(result.certificate)},
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


def data_identity(data: Transitions) -> dict[str, object]:
    """Return how many rows there are, and a hash of all that a method may read of them."""
    return {"rows": len(data), "sha256": fingerprint([*_columns(data, absent=True).values()])}


def _columns(data: Transitions, *, absent: bool = False) -> dict[str, torch.Tensor | None]:
    """Return the arrays of the data by name; those that it does not have only if asked."""
    columns: dict[str, torch.Tensor | None] = {name: getattr(data, name) for name in (*_ROWS, *_OPTIONAL)}
    columns |= {} if data.begins is None else {"begins": data.begins}  # the hash of others stays
    return {name: column for name, column in columns.items() if absent or column is not None}


def _arrays(tensors: Mapping[str, torch.Tensor | None]) -> dict[str, np.ndarray[Any, Any]]:
    return {
        name: tensor.detach().cpu().contiguous().numpy()
        for name, tensor in tensors.items()
        if tensor is not None
    }


def load(path: str | os.PathLike[str]) -> TrainingResult:
    """Return the result that `TrainingResult.save` wrote.

    Controller and numbers are read at once. The model is built again from the saved data when something of
    it is first asked for.

    Args:
        path: The file.
    """
    bundle = open_bundle(path)
    try:
        return _load(bundle)
    except (ArgumentError, DataError) as error:  # what our own checks say of what was read
        raise BundleError(f"{bundle.path} is no saved controller that fits together: {error}") from None


def _load(bundle: Bundle) -> TrainingResult:
    saved, document, numbers = (
        read_controller(bundle),
        bundle.document(RESULT),
        _tensors(bundle.arrays(RESULT)),
    )
    columns = saved.columns
    schema = Schema(*(getattr(columns, field.name) for field in fields(Columns)))
    policy = policy_from(saved.policy, _tensors(saved.parameters), schema)
    identity, limits = bundle.manifest.object("data"), document.object("constraints")
    return TrainingResult(
        policy=Controller(policy, schema),
        **_answer(document.object("answer")),
        history=_read_history(numbers),
        start=document.text("start"),
        start_support=_start_support(numbers, schema),
        seed=document.integer("seed"),
        support=saved.support,
        solved=partial(_solution, bundle, policy, schema),
        constraints=tuple(_constraint(limits.object(name)) for name in limits.names),
        saved_identity={"rows": identity.integer("rows"), "sha256": identity.text("sha256")},
    )


def _solution(bundle: Bundle, policy: Policy, schema: Schema) -> Solution:
    """Build the model of a saved result again from its data, and return the solution."""
    if not bundle.has(DATA):
        raise DataError(
            f"{bundle.path} was saved without its data, and the model rests on them; save with data=True, or "
            "train again"
        )
    document = bundle.document(RESULT)
    try:
        data = _read_data(_tensors(bundle.arrays(DATA)), schema)
        config = ControlProblem.read_config(document.object("model"))
        problem = ControlProblem.from_data(data, document.object("answer").number("discount"), model=config)
        return solution_under(problem, policy, seed=document.integer("seed"))
    except (ArgumentError, DataError) as error:
        raise BundleError(f"{bundle.path} does not fit together: {error}") from None


def _start_support(numbers: Tensors, schema: Schema) -> StartSupport:
    states, nearest = (_array(numbers, f"start.{name}", 2) for name in ("states", "nearest"))
    unknown, shape = _array(numbers, "start.unknown", 1), (len(states), len(schema.states))
    if len(states) == 0 or not states.shape == nearest.shape == shape or len(unknown) != len(states):
        raise ArgumentError("the initial states, their unknown shares and the controller do not fit together")
    check_magnitudes(schema, zip(schema.states, states.T, strict=True))
    return StartSupport(schema, states, unknown, nearest)


def _answer(document: Fields) -> dict[str, Any]:
    proof, judged = document.object("certificate"), document.has("verdict")
    errors = {
        part.name: proof.number(part.name, finite=False)
        for part in fields(Certificate)
        if part.name != "converged"
    }
    verdict = document.text("verdict") if judged else None
    if verdict not in {None, *get_args(Verdict)}:
        raise ArgumentError(f"there is no verdict {verdict!r}")
    return {
        "discount": check_discount(document.number("discount")),
        "expected_return": document.number("expected_return"),
        "unknown_mass": document.number("unknown_mass"),
        "certificate": Certificate(**errors, converged=proof.flag("converged")),
        "interval": document.interval("interval") if judged else None,
        "verdict": verdict,
        "reasons": document.texts("reasons") if judged else (),
        "notes": document.texts("notes"),
    }


def _constraint(document: Fields) -> ConstraintResult:
    return ConstraintResult(
        name=document.text("name"),
        limit=document.number("limit"),
        cost=document.number("cost"),
        upper=document.number("upper") if document.has("upper") else None,
        multiplier=document.number("multiplier"),
        kept=document.flag("kept"),
    )


def _read_history(numbers: Tensors) -> tuple[Update, ...]:
    rows, names = _array(numbers, "history", 2, finite=False), [part.name for part in fields(Update)]
    counts = [names.index(name) for name in _COUNTS]
    if rows.shape[1] != len(names) or not bool(rows[:, counts].isfinite().all()):
        raise ArgumentError(f"the history has no updates of {len(names)} numbers")
    named = (dict(zip(names, row, strict=True)) for row in rows.tolist())
    return tuple(Update(**row | {name: int(row[name]) for name in _COUNTS}) for row in named)


def _read_data(columns: Tensors, schema: Schema) -> Transitions:
    flags = ("terminated", "truncated", "begins", "episodes")
    extra: dict[str, Any] = {name: _array(columns, name, 1, whole=True) for name in flags if name in columns}
    for name, dimensions in (("initial_states", 2), ("weights", 1)):
        if name in columns:
            extra[name] = _array(columns, name, dimensions)
    data = Transitions.from_arrays(
        _array(columns, "states", 2),
        _array(columns, "actions", 2),
        _array(columns, "rewards", 1),
        _array(columns, "next_states", 2),
        state_names=schema.states,
        action_names=schema.actions,
        angles=schema.angles,
        units=schema.units,
        bounds=schema.bounds,
        **extra,
    )
    return replace(data, schema=schema, episodes=data.episodes if "episodes" in columns else None)


def _tensors(arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, torch.Tensor]:
    """Return arrays as tensors, which share no memory with the file."""
    return {name: torch.as_tensor(np.array(array)) for name, array in arrays.items()}


def _array(
    tensors: Tensors, name: str, dimensions: int, *, whole: bool = False, finite: bool = True
) -> torch.Tensor:
    """Return an array of float64, or of whole numbers or flags, with this number of dimensions."""
    value = tensors.get(name)
    kind = value is not None and (
        not value.is_floating_point() and not value.is_complex() if whole else value.dtype == torch.float64
    )
    if value is None or value.ndim != dimensions or not kind:
        raise ArgumentError(f"the array {name!r} is missing, or holds something else")
    if finite and not bool(value.isfinite().all()):
        raise ArgumentError(f"the array {name!r} contains NaN or infinity")
    return value

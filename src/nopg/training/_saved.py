"""A result as JSON and arrays: numbers in, numbers out."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
from nopg._files import fingerprint, versions_of
from nopg.bellman import Certificate, ControlProblem
from nopg.bundles import Bundle, SavedController, open_bundle, read_controller
from nopg.bundles._bundle import write_bundle
from nopg.bundles._controller import CONTROLLER, controller_group
from nopg.bundles._fields import Fields
from nopg.data import Schema, Transitions
from nopg.data._bounds import check_bounds
from nopg.data._checks import check_magnitudes
from nopg.errors import ArgumentError, BundleError, DataError, NopgError
from nopg.evaluation import Verdict
from nopg.policies._description import describe_policy, policy_from
from nopg.training._constraints import ConstraintResult
from nopg.training._controller import Controller
from nopg.training._reports import Update
from nopg.training._result import TrainingResult

RESULT = "result"
"""What is known of the controller: settings, answer, history, solution."""
DATA = "data"
"""The transitions, if they were to be saved."""

_ANSWER = ("discount", "expected_return", "unknown_mass", "interval", "verdict", "reasons", "notes")
_ROWS = ("states", "actions", "rewards", "next_states", "terminated", "truncated")
_OPTIONAL = ("episodes", "initial_states", "weights", "begins")


def save_result(
    result: TrainingResult,
    path: str | os.PathLike[str],
    *,
    with_data: bool,
    overwrite: bool,
    log: Mapping[str, Any] | None = None,
) -> Path:
    """Write a result; see `TrainingResult.save`. `log` says how its log was read, for logs to come."""
    described = describe_policy(result.policy.policy)  # refuses before anything is written
    problem, data = result.problem, result.problem.data
    settings = problem.settings() if with_data else {}
    check_bounds(data, result.policy.schema)
    if (levels := result.policy.schema.levels) and described["kind"] != "quantized":
        raise ArgumentError(
            f"the actions {list(levels)} have levels, but the policy does not keep them; save a "
            "QuantizedPolicy"
        )
    starts = {"start.states": result.starts, "start.unknown": result.unknown_starts}
    updates = [astuple(update) for update in result.history]
    history = torch.tensor(updates, dtype=torch.float64).view(-1, len(fields(Update)))
    parameters = _arrays(result.policy.policy.state_dict())
    document, numbers = controller_group(
        SavedController(result.policy.schema, described, parameters, result.support)
    )
    arrays = {CONTROLLER: numbers, RESULT: _arrays({"history": history, **starts})}
    return write_bundle(
        path,
        documents={
            CONTROLLER: document,
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
            "versions": versions_of(),
            **({} if log is None else {"log": log}),
        },
        overwrite=overwrite,
    )


def data_identity(data: Transitions) -> dict[str, object]:
    """Return how many rows there are, and a hash of all that a method may read of them."""
    return {"rows": len(data), "sha256": fingerprint([*_columns(data).values()])}


def _columns(data: Transitions) -> dict[str, torch.Tensor | None]:
    """Return the arrays of the data by name; the hash of data without `begins` does not count it."""
    names = (*_ROWS, *_OPTIONAL) if data.begins is not None else (*_ROWS, *_OPTIONAL[:-1])
    return {name: getattr(data, name) for name in names}


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
    saved = read_controller(bundle)
    with _refusing(bundle):
        document, numbers = bundle.document(RESULT), _tensors(bundle.arrays(RESULT))
        schema = Schema(*(getattr(saved.columns, field.name) for field in fields(Columns)))
        policy = policy_from(saved.policy, _tensors(saved.parameters), schema)
        states, unknown = (numbers[f"start.{name}"].double() for name in ("states", "unknown"))
        check_magnitudes(schema, zip(schema.states, states.T, strict=True))
        if len(states) == 0 or not bool(unknown.isfinite().all()):
            raise ArgumentError("there are no initial states, or their unknown shares are not numbers")
        identity, limits = bundle.manifest.object("data"), document.object("constraints")
        return TrainingResult(
            policy=Controller(policy, schema),
            **_answer(document.object("answer")),
            history=tuple(
                Update(int(number), int(planned), J, norm, U, int(products), seconds)
                for number, planned, J, norm, U, products, seconds in numbers["history"].tolist()
            ),
            start=document.text("start"),
            starts=states,
            unknown_starts=unknown.view(len(states)),
            seed=document.integer("seed"),
            support=saved.support,
            fitted=partial(_problem, bundle, schema),
            constraints=tuple(_constraint(limits.object(name)) for name in limits.names),
            saved_identity={"rows": identity.integer("rows"), "sha256": identity.text("sha256")},
        )


@contextmanager
def _refusing(bundle: Bundle) -> Iterator[None]:
    """Say of which file it is what does not fit together in it."""
    try:
        yield
    except BundleError:
        raise
    except (NopgError, ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise BundleError(f"{bundle.path} is a saved controller whose parts do not agree: {error}") from None


def _problem(bundle: Bundle, schema: Schema) -> ControlProblem:
    """Build the model of a saved result again from its data, and return its equation."""
    if not bundle.has(DATA):
        raise DataError(
            f"{bundle.path} was saved without its data, and the model rests on them; save with data=True, or "
            "train again"
        )
    with _refusing(bundle):
        document, columns = bundle.document(RESULT), _tensors(bundle.arrays(DATA))
        data = Transitions.from_arrays(
            **{name: columns.get(name) for name in (*_ROWS, *_OPTIONAL)},  # type: ignore[arg-type]
            state_names=schema.states,
            action_names=schema.actions,
            angles=schema.angles,
        )
        data = replace(data, schema=schema, episodes=data.episodes if "episodes" in columns else None)
        config = ControlProblem.read_config(document.object("model"))
        return ControlProblem.from_data(data, document.object("answer").number("discount"), model=config)


def _answer(document: Fields) -> dict[str, Any]:
    proof, judged = document.object("certificate"), document.has("verdict")
    errors = [part.name for part in fields(Certificate) if part.name != "converged"]
    found: dict[str, Any] = {
        "discount": check_discount(document.number("discount")),
        "expected_return": document.number("expected_return"),
        "unknown_mass": document.number("unknown_mass"),
        "certificate": Certificate(
            **{name: proof.number(name, finite=False) for name in errors}, converged=proof.flag("converged")
        ),
        "notes": document.texts("notes"),
    }
    if judged:
        found |= {"verdict": document.text("verdict"), "reasons": document.texts("reasons")}
        found["interval"] = document.interval("interval")
        if found["verdict"] not in get_args(Verdict):
            raise ArgumentError(f"there is no verdict {found['verdict']!r}")
    return found


def _constraint(document: Fields) -> ConstraintResult:
    numbers = {name: document.number(name) for name in ("limit", "cost", "multiplier")}
    upper = document.number("upper") if document.has("upper") else None
    return ConstraintResult(document.text("name"), upper=upper, kept=document.flag("kept"), **numbers)


def _tensors(arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, torch.Tensor]:
    """Return arrays as tensors, which share no memory with the file."""
    return {name: torch.as_tensor(np.array(array)) for name, array in arrays.items()}

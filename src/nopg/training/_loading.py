"""A saved result back from JSON and arrays, none of which is trusted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, cast, get_args

import numpy as np
import numpy.typing as npt
import torch

from nopg._checks import check_discount
from nopg._columns import Columns
from nopg.bellman import Certificate, ControlProblem, Solution
from nopg.bellman._arrays import float_array, whole_array
from nopg.bundles import Bundle, open_bundle, read_controller
from nopg.bundles._controller import SavedSupport
from nopg.bundles._fields import Fields
from nopg.data import Schema, Transitions
from nopg.errors import ArgumentError, BundleError, DataError
from nopg.evaluation import OfflineEvaluation, Verdict
from nopg.models._state_support import CondensedSupport
from nopg.policies import Policy
from nopg.policies._description import policy_from
from nopg.training._constraint import ConstraintResult
from nopg.training._controller import Controller
from nopg.training._reports import Update
from nopg.training._result import TrainingResult
from nopg.training._saving import DATA, NUMBERS, RESULT, data_identity
from nopg.training._starts import StartSupport
from nopg.training._summary import Summary

__all__ = ["load"]

Tensors = Mapping[str, torch.Tensor]

_COUNTS = ("number", "planned", "products")
# Shares may leave [0, 1] by this much.
_ROUNDING = 1e-6


def load(path: str | os.PathLike[str], *, key: str | os.PathLike[str] | None = None) -> TrainingResult:
    """Return the result that `TrainingResult.save` wrote to a folder or zip.

    Controller and numbers are read at once. The model is built again from the saved data when something of
    it is first asked for, and q and μ are then certified again.

    Args:
        path: The folder or zip.
        key: File of a public key; see `nopg.bundles.open_bundle`.
    """
    bundle = open_bundle(path, key=key)
    try:
        return _load(bundle)
    except (ArgumentError, DataError) as error:  # what our own checks say of what was read
        raise BundleError(f"{bundle.path} is no saved controller that fits together: {error}") from None


def _load(bundle: Bundle) -> TrainingResult:
    saved, document, numbers = read_controller(bundle), bundle.document(RESULT), _tensors(bundle, NUMBERS)
    if document.has("choice"):
        raise BundleError(
            f"{bundle.path} was trained by an older nopg on a model that is gone; its controller still runs "
            "with nopg.deploy.load, and the same data can be trained on again"
        )
    columns = saved.columns
    schema = Schema(*(getattr(columns, field.name) for field in fields(Columns)))
    policy = policy_from(saved.policy, _as_tensors(saved.parameters), schema)
    _check_policy(policy, schema)
    start, summary = _start_support(numbers, schema), _summary(document.object("answer"))
    if bundle.has(DATA) and schema.reward is None:  # a formula may exceed what was logged
        _check_return(summary, float_array(_tensors(bundle, DATA), "rewards", 1))
    seed = document.integer("seed")
    return TrainingResult(
        policy=Controller(policy, schema),
        numbers=summary,
        history=_history(numbers),
        start=document.text("start"),
        start_support=start,
        seed=seed,
        source=_Saved(bundle, policy, start, _support(saved.support), seed),
        constraints=_constraints(document),
    )


@dataclass(frozen=True, slots=True)
class _Saved:
    """The parts of a result that are read or built when somebody asks."""

    bundle: Bundle
    policy: Policy
    start: StartSupport
    condensed: CondensedSupport
    seed: int

    def support(self) -> CondensedSupport:
        return self.condensed

    def data_identity(self) -> Mapping[str, object]:
        document = self.bundle.manifest.object("data")
        named = {"rows": document.integer("rows"), "sha256": document.text("sha256")}
        if self.bundle.has(DATA) and named != data_identity(self._data()):
            raise BundleError(f"{self.bundle.path} names other data than it holds; take another copy")
        return named

    def evaluation(self) -> OfflineEvaluation | None:
        return None

    def solution(self) -> Solution:
        if not self.bundle.has(DATA):
            raise DataError(
                f"{self.bundle.path} was saved without its data, and the model rests on them; save with "
                "data=True, or train again"
            )
        try:
            return self._solution()
        except (ArgumentError, DataError) as error:
            raise BundleError(f"{self.bundle.path} does not fit together: {error}") from None

    def _solution(self) -> Solution:
        document, numbers = self.bundle.document(RESULT), _tensors(self.bundle, NUMBERS)
        data = self._data()
        settings, gamma = document.object("model"), document.object("answer").number("discount")
        arrays = {
            name.removeprefix("solution."): part
            for name, part in numbers.items()
            if name.startswith("solution.")
        }
        starts = data.starting_at(self.start.states).starts
        problem = ControlProblem.from_settings(settings, data, starts, gamma, arrays)
        solution = problem.restore(self.policy, arrays, seed=self.seed)
        if problem.multistep is None:
            _summary(document.object("answer")).check(solution)
        return solution

    def _data(self) -> Transitions:
        return _data(_tensors(self.bundle, DATA), self.start.schema)


def _check_policy(policy: Policy, schema: Schema) -> None:
    """Refuse a policy that cannot act on these columns."""
    try:
        with torch.no_grad():
            action = policy.mode(torch.zeros(1, len(schema.features), dtype=torch.float64))
    except RuntimeError:
        action = torch.empty(0)
    fits = action.shape == (1, policy.num_actions) == (1, len(schema.actions))  # one gain fits any number
    if not fits or not bool(action.isfinite().all()):
        raise ArgumentError(
            f"the policy does not act on {len(schema.features)} features with {len(schema.actions)} actions"
        )


def _start_support(numbers: Tensors, schema: Schema) -> StartSupport:
    states, nearest = (float_array(numbers, f"start.{name}", 2) for name in ("states", "nearest"))
    support, unknown = (float_array(numbers, f"start.{name}", 1) for name in ("support", "unknown"))
    count = len(states)
    if count == 0 or not len(nearest) == len(support) == len(unknown) == count:
        raise ArgumentError("the initial states and their support differ in number")
    if not states.shape[1] == nearest.shape[1] == len(schema.states):
        raise ArgumentError("the initial states have other columns than the controller")
    _check_share("the unknown share of an initial state", float(unknown.min()), float(unknown.max()))
    if float(support.min()) < 0:
        raise ArgumentError(f"the support of an initial state is {float(support.min())}, less than nothing")
    return StartSupport(schema, states, support, unknown, nearest)


def _support(saved: SavedSupport) -> CondensedSupport:
    places, weights, width = map(torch.as_tensor, (saved.places, saved.weights, saved.width))
    return CondensedSupport(places, weights, width, saved.prior_mass)


def _summary(document: Fields) -> Summary:
    proof = document.object("certificate")
    numbers = {
        name: proof.number(name, finite=False)
        for name in ("return_error", "cut_error", "q_error", "mu_error", "duality_gap", "mass_defect")
    }
    if negative := [name for name, value in numbers.items() if value < 0]:
        raise ArgumentError(f"{negative[0]} is {numbers[negative[0]]}; an error is not negative")
    judged, unknown = document.has("verdict"), document.number("unknown_mass")
    _check_share("unknown_mass", unknown, unknown)
    interval = document.interval("interval") if judged else None
    if interval and not interval[0] <= interval[1]:  # NaN included
        raise ArgumentError(f"the interval of the return is {list(interval)}, its ends in the wrong order")
    return Summary(
        check_discount(document.number("discount")),
        document.number("expected_return"),
        unknown,
        Certificate(**numbers, converged=proof.flag("converged")),
        interval=interval,
        verdict=_verdict(document.text("verdict")) if judged else None,
        reasons=document.texts("reasons") if judged else (),
    )


def _check_share(what: str, low: float, high: float) -> None:
    if not (low >= -_ROUNDING and high <= 1.0 + _ROUNDING):
        raise ArgumentError(f"{what} is {low if low < 0 else high}; it is a share, from 0 to 1")


def _check_return(summary: Summary, rewards: torch.Tensor) -> None:
    """Refuse a return that no rewards near the logged ones add up to."""
    if len(rewards) == 0:
        return
    least, most = min(float(rewards.min()), 0.0), max(float(rewards.max()), 0.0)  # a task that ends earns 0
    room, horizon = most - least, 1.0 / (1.0 - summary.discount)
    lowest, highest = (least - room) * horizon, (most + room) * horizon
    if not lowest <= summary.expected_return <= highest:
        raise ArgumentError(
            f"the expected return is {summary.expected_return:.6g}, but rewards from {least:.6g} to "
            f"{most:.6g} at a discount of {summary.discount:g} give one in [{lowest:.6g}, {highest:.6g}]"
        )


def _verdict(text: str) -> Verdict:
    if text not in get_args(Verdict):
        raise ArgumentError(f"there is no verdict {text!r}")
    return cast(Verdict, text)


def _constraints(document: Fields) -> tuple[ConstraintResult, ...]:
    """Return what came of limits; results that were saved before there were any have none."""
    if not document.has("constraints"):
        return ()
    answers = document.object("constraints")
    return tuple(_constraint(answers.object(name)) for name in answers.names)


def _constraint(document: Fields) -> ConstraintResult:
    return ConstraintResult(
        name=document.text("name"),
        limit=document.number("limit"),
        cost=document.number("cost"),
        upper=document.number("upper") if document.has("upper") else None,
        multiplier=document.number("multiplier"),
        kept=document.flag("kept"),
    )


def _history(numbers: Tensors) -> tuple[Update, ...]:
    columns = {
        part.name: float_array(numbers, f"history.{part.name}", 1, finite=part.name in _COUNTS)
        for part in fields(Update)
    }
    if len({len(column) for column in columns.values()}) != 1:
        raise ArgumentError("the columns of the history differ in length")
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    named = (dict(zip(columns, row, strict=True)) for row in rows)
    return tuple(Update(**row | {name: int(row[name]) for name in _COUNTS}) for row in named)


def _data(columns: Tensors, schema: Schema) -> Transitions:
    extra: dict[str, Any] = {
        name: whole_array(columns, name) for name in ("terminated", "truncated") if name in columns
    }
    if "episodes" in columns:
        extra["episodes"] = whole_array(columns, "episodes")
    for name, dimensions in (("initial_states", 2), ("weights", 1)):
        if name in columns:
            extra[name] = float_array(columns, name, dimensions)
    data = Transitions.from_arrays(
        float_array(columns, "states", 2),
        float_array(columns, "actions", 2),
        float_array(columns, "rewards", 1),
        float_array(columns, "next_states", 2),
        state_names=schema.states,
        action_names=schema.actions,
        angles=schema.angles,
        units=schema.units,
        bounds=schema.bounds,
        **extra,
    )
    return replace(data, schema=schema)


def _tensors(bundle: Bundle, name: str) -> dict[str, torch.Tensor]:
    return _as_tensors(bundle.arrays(name))


def _as_tensors(arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, torch.Tensor]:
    """Return arrays as tensors, which share no memory with the file."""
    return {name: torch.as_tensor(np.array(array)) for name, array in arrays.items()}

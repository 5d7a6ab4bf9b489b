"""A saved result back from JSON and arrays, none of which is trusted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from nopg._seeding import generator
from nopg.bellman import BellmanSolution, Certificate, ControlProblem
from nopg.bundles import Bundle, Fields, SavedSupport, open_bundle, read_controller
from nopg.data import Schema, Transitions
from nopg.errors import ArgumentError, BundleError, DataError
from nopg.graph import (
    CandidateSearch,
    CondensedSupport,
    FitShape,
    LocalLinear,
    ModelComparison,
    MonteCarlo,
    NadarayaWatson,
    TransitionModel,
)
from nopg.kernels import Bandwidths
from nopg.policies import Policy, policy_from
from nopg.training._choice import ModelChoice
from nopg.training._controller import Controller
from nopg.training._reports import Update
from nopg.training._result import Answer, ConstraintAnswer, TrainingResult
from nopg.training._saving import DATA, NUMBERS, RESULT
from nopg.training._starts import StartSupport

__all__ = ["load"]

Tensors = Mapping[str, torch.Tensor]

_MOST_DRAWS = 1_000
_COUNTS = ("number", "planned", "products")


def load(path: str | os.PathLike[str]) -> TrainingResult:
    """Return the result that `TrainingResult.save` wrote to a folder or zip.

    Controller and numbers are read at once. The model is built again from the saved data when something of
    it is first asked for, and q and μ are then certified anew.
    """
    bundle = open_bundle(path)
    try:
        return _load(bundle)
    except (ArgumentError, DataError) as error:  # what our own doors say of what was read
        raise BundleError(f"{bundle.path} is no saved controller that fits together: {error}") from None


def _load(bundle: Bundle) -> TrainingResult:
    saved, told, numbers = read_controller(bundle), bundle.document(RESULT), _tensors(bundle, NUMBERS)
    columns = saved.columns
    schema = Schema(columns.states, columns.actions, columns.angles, columns.units, columns.bounds)
    policy = policy_from(saved.policy, _as_tensors(saved.parameters))
    _check_policy(policy, schema)
    bandwidths = _bandwidths(told.object("bandwidths"), numbers, schema)
    start = _start_support(numbers, schema)
    support = _support(saved.support)
    seed = told.integer("seed")
    return TrainingResult(
        policy=Controller(policy, schema),
        answer=_answer(told.object("answer")),
        bandwidths=bandwidths,
        history=_history(numbers),
        choice=_choice(told.object("choice")),
        start_support=start,
        rows=_whole(numbers, "rows"),
        seed=seed,
        source=_Saved(bundle, policy, bandwidths, start, support, seed),
        constraints=_constraints(told),
    )


@dataclass(frozen=True, slots=True)
class _Saved:
    """The parts of a result that are read or built when somebody asks."""

    bundle: Bundle
    policy: Policy
    bandwidths: Bandwidths
    start: StartSupport
    condensed: CondensedSupport
    seed: int

    def support(self) -> CondensedSupport:
        return self.condensed

    def data_identity(self) -> Mapping[str, object]:
        told = self.bundle.manifest.object("data")
        return {"rows": told.integer("rows"), "sha256": told.text("sha256")}

    def solution(self) -> BellmanSolution:
        if not self.bundle.has(DATA):
            raise DataError(
                f"{self.bundle.path} was saved without its data, and the model rests on them; save with "
                "data=True, or train again"
            )
        try:
            return self._solution()
        except (ArgumentError, DataError) as error:
            raise BundleError(f"{self.bundle.path} does not fit together: {error}") from None

    def _solution(self) -> BellmanSolution:
        told, numbers = self.bundle.document(RESULT), _tensors(self.bundle, NUMBERS)
        data = _data(_tensors(self.bundle, DATA), self.start.schema)
        model = _model(told.object("model"), data, self.bandwidths)
        problem = ControlProblem.build(
            model,
            data.schema.encode(self.start.states),
            discount=told.object("answer").number("discount"),
            unknown_value=told.number("unknown_value"),
        )
        q, mu = _get(numbers, "q", 1), _get(numbers, "mu", 1)
        if not len(q) == len(mu) == model.num_nodes:
            raise ArgumentError(
                f"there are {model.num_nodes} nodes, but {len(q)} values and {len(mu)} visits"
            )
        solution = problem.equation(self.policy, generator(self.seed, "actions")).certify(q, mu)
        if not solution.certificate.converged:
            raise ArgumentError("q and μ do not solve the equation of the saved data")
        return solution


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


def _bandwidths(told: Fields, numbers: Tensors, schema: Schema) -> Bandwidths:
    parts = [_get(numbers, f"bandwidths.{name}", 1) for name in ("states", "actions", "next_states")]
    sizes = [len(part) for part in parts]
    features = len(schema.features)
    if sizes != [features, len(schema.actions), features]:
        raise ArgumentError(f"there are {sizes} bandwidths for {schema.features} and {schema.actions}")
    return Bandwidths.from_values(*parts, source=told.text("source"))


def _start_support(numbers: Tensors, schema: Schema) -> StartSupport:
    states, nearest = (_get(numbers, f"start.{name}", 2) for name in ("states", "nearest"))
    support, unknown = (_get(numbers, f"start.{name}", 1) for name in ("support", "unknown"))
    count = len(states)
    if count == 0 or not len(nearest) == len(support) == len(unknown) == count:
        raise ArgumentError("the initial states and their support differ in number")
    if not states.shape[1] == nearest.shape[1] == len(schema.states):
        raise ArgumentError("the initial states have other columns than the controller")
    return StartSupport(schema, states, support, unknown, nearest)


def _support(saved: SavedSupport) -> CondensedSupport:
    places, weights, width = map(torch.as_tensor, (saved.places, saved.weights, saved.width))
    return CondensedSupport(places, weights, width, saved.prior_mass)


def _answer(told: Fields) -> Answer:
    proof = told.object("certificate")
    numbers = {
        name: proof.number(name, finite=False)
        for name in ("return_error", "q_error", "mu_error", "duality_gap", "mass_defect")
    }
    return Answer(
        told.number("discount"),
        told.number("expected_return"),
        told.number("unknown_mass"),
        Certificate(**numbers, converged=proof.flag("converged")),
    )


def _constraints(told: Fields) -> tuple[ConstraintAnswer, ...]:
    """Return what came of limits; results that were saved before there were any have none."""
    if not told.has("constraints"):
        return ()
    answers = told.object("constraints")
    return tuple(_constraint(answers.object(name)) for name in answers.names)


def _constraint(told: Fields) -> ConstraintAnswer:
    return ConstraintAnswer(
        name=told.text("name"),
        limit=told.number("limit"),
        cost=told.number("cost"),
        upper=told.number("upper") if told.has("upper") else None,
        multiplier=told.number("multiplier"),
        kept=told.flag("kept"),
    )


def _history(numbers: Tensors) -> tuple[Update, ...]:
    columns = {
        part.name: _get(numbers, f"history.{part.name}", 1, finite=part.name in _COUNTS)
        for part in fields(Update)
    }
    if len({len(column) for column in columns.values()}) != 1:
        raise ArgumentError("the columns of the history differ in length")
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    named = (dict(zip(columns, row, strict=True)) for row in rows)
    return tuple(Update(**row | {name: int(row[name]) for name in _COUNTS}) for row in named)


def _choice(told: Fields) -> ModelChoice:
    name, reason = told.text("name"), told.text("reason")
    if not told.has("comparison"):
        return ModelChoice(name, reason)
    found = told.object("comparison")
    comparison = ModelComparison(
        one_step=found.numbers("one_step", finite=False),
        rolled_out=found.numbers("rolled_out", finite=False) if found.has("rolled_out") else None,
        horizon=found.integer("horizon"),
        chosen=name,
        num_distinct=found.integer("num_distinct"),
        shape=_shape(found.object("shape")) if found.has("shape") else None,
    )
    return ModelChoice(name, reason, comparison)


def _shape(told: Fields) -> FitShape:
    return FitShape(told.integer("num_neighbors", least=1), told.number("ridge"), told.flag("quadratic"))


def _model(told: Fields, data: Transitions, bandwidths: Bandwidths) -> TransitionModel:
    if told.text("name") == "local-linear":
        return LocalLinear(
            data,
            bandwidths.state_kernel,
            shape=_shape(told.object("shape")),
            interpolation=told.number("interpolation"),
            slack=told.number("slack"),
            num_candidates=min(told.integer("num_candidates", least=1), 2 * len(data)),
            prior_mass=told.number("prior_mass"),
            cover=told.flag("cover"),
        )
    if told.text("name") != "nadaraya-watson":
        raise ArgumentError(f"there is no model {told.text('name')!r}")
    rule = None
    if told.has("integration"):
        drawn = told.object("integration")
        rule = MonteCarlo(drawn.integer("num_samples", least=1), drawn.integer("seed"))
        if rule.num_samples > _MOST_DRAWS:
            raise ArgumentError(f"{rule.num_samples} next states of each are drawn; that cannot be meant")
    search = CandidateSearch(
        *(
            told.integer(name, least=1) if told.has(name) else None
            for name in ("most_candidates", "num_candidates")
        )
    )
    return NadarayaWatson(
        data, bandwidths, prior_mass=told.number("prior_mass"), integration=rule, search=search
    )


def _data(columns: Tensors, schema: Schema) -> Transitions:
    extra: dict[str, Any] = {
        name: _whole(columns, name) for name in ("terminated", "truncated") if name in columns
    }
    if "episodes" in columns:
        extra["episodes"] = _whole(columns, "episodes")
    for name, dimensions in (("initial_states", 2), ("weights", 1)):
        if name in columns:
            extra[name] = _get(columns, name, dimensions)
    return Transitions.from_arrays(
        _get(columns, "states", 2),
        _get(columns, "actions", 2),
        _get(columns, "rewards", 1),
        _get(columns, "next_states", 2),
        state_names=schema.states,
        action_names=schema.actions,
        angles=schema.angles,
        units=schema.units,
        bounds=schema.bounds,
        **extra,
    )


def _tensors(bundle: Bundle, name: str) -> dict[str, torch.Tensor]:
    return _as_tensors(bundle.arrays(name))


def _as_tensors(arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, torch.Tensor]:
    """Return arrays as tensors, which share no memory with the file."""
    return {name: torch.as_tensor(np.array(array)) for name, array in arrays.items()}


def _whole(tensors: Tensors, name: str) -> torch.Tensor:
    """Return an array of whole numbers or flags with one dimension."""
    value = tensors.get(name)
    if value is None or value.ndim != 1 or value.is_floating_point() or value.is_complex():
        raise ArgumentError(f"the array {name!r} is missing, or holds something else")
    return value


def _get(tensors: Tensors, name: str, dimensions: int, *, finite: bool = True) -> torch.Tensor:
    """Return an array of so many dimensions; numbers are finite unless they need not be."""
    value = tensors.get(name)
    if value is None or value.ndim != dimensions or value.dtype != torch.float64:
        raise ArgumentError(f"the array {name!r} is missing, or holds something else")
    if finite and not bool(value.isfinite().all()):
        raise ArgumentError(f"the array {name!r} holds what is no finite number")
    return value

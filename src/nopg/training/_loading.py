"""A saved result back from JSON and arrays, none of which is trusted."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, cast, get_args

import numpy as np
import numpy.typing as npt
import torch

from nopg.bellman import Certificate, ControlProblem, MultistepProblem, PaperProblem, Solution
from nopg.bellman._multistep import LONGEST_HORIZON
from nopg.bundles import Bundle, open_bundle, read_controller
from nopg.bundles._controller import SavedSupport
from nopg.bundles._fields import Fields
from nopg.data import Schema, Transitions
from nopg.errors import ArgumentError, BundleError, DataError
from nopg.evaluation import OfflineEvaluation, Verdict
from nopg.kernels import Bandwidths
from nopg.models import LocalModel, MonteCarlo, PaperModel
from nopg.models._candidates import CandidateSearch
from nopg.models._state_support import CondensedSupport
from nopg.policies import Policy
from nopg.policies._description import policy_from
from nopg.training._controller import Controller
from nopg.training._reports import Update
from nopg.training._result import Answer, ConstraintAnswer, TrainingResult
from nopg.training._saving import DATA, NUMBERS, RESULT
from nopg.training._starts import StartSupport

__all__ = ["load"]

Tensors = Mapping[str, torch.Tensor]

_MOST_DRAWS = 1_000
# More nodes and paths than any training has: what a forged file may ask of time and memory.
_MOST_NODES, _MOST_PATHS = 2_000, 16
_COUNTS = ("number", "planned", "products")


def load(path: str | os.PathLike[str]) -> TrainingResult:
    """Return the result that `TrainingResult.save` wrote to a folder or zip.

    Controller and numbers are read at once. The model is built again from the saved data when something of
    it is first asked for, and q and μ are then certified anew.
    """
    bundle = open_bundle(path)
    try:
        return _load(bundle)
    except (ArgumentError, DataError) as error:  # what our own checks say of what was read
        raise BundleError(f"{bundle.path} is no saved controller that fits together: {error}") from None


def _load(bundle: Bundle) -> TrainingResult:
    saved, told, numbers = read_controller(bundle), bundle.document(RESULT), _tensors(bundle, NUMBERS)
    if told.has("choice"):
        raise BundleError(
            f"{bundle.path} was trained by an older nopg on a model that is gone; its controller still runs "
            "with nopg.deploy.load, and the same data can be trained on again"
        )
    columns = saved.columns
    schema = Schema(columns.states, columns.actions, columns.angles, columns.units, columns.bounds)
    policy = policy_from(saved.policy, _as_tensors(saved.parameters))
    _check_policy(policy, schema)
    start = _start_support(numbers, schema)
    seed = told.integer("seed")
    return TrainingResult(
        policy=Controller(policy, schema),
        answer=_answer(told.object("answer")),
        history=_history(numbers),
        start=told.text("start"),
        start_support=start,
        seed=seed,
        source=_Saved(bundle, policy, start, _support(saved.support), seed),
        constraints=_constraints(told),
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
        told = self.bundle.manifest.object("data")
        return {"rows": told.integer("rows"), "sha256": told.text("sha256")}

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
        told, numbers = self.bundle.document(RESULT), _tensors(self.bundle, NUMBERS)
        data = _data(_tensors(self.bundle, DATA), self.start.schema)
        settings, gamma = told.object("model"), told.object("answer").number("discount")
        arrays = {
            name.removeprefix("solution."): part
            for name, part in numbers.items()
            if name.startswith("solution.")
        }
        build = _PROBLEMS.get(settings.text("name"))
        if build is None:
            raise ArgumentError(f"there is no model {settings.text('name')!r}")
        problem = build(settings, data, self.start.states, gamma, arrays)
        return problem.restore(self.policy, arrays, seed=self.seed)


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
    judged = told.has("verdict")
    return Answer(
        told.number("discount"),
        told.number("expected_return"),
        told.number("unknown_mass"),
        Certificate(**numbers, converged=proof.flag("converged")),
        interval=told.interval("interval") if judged else None,
        verdict=_verdict(told.text("verdict")) if judged else None,
        reasons=told.texts("reasons") if judged else (),
    )


def _verdict(text: str) -> Verdict:
    if text not in get_args(Verdict):
        raise ArgumentError(f"there is no verdict {text!r}")
    return cast(Verdict, text)


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


def _local_problem(
    told: Fields, data: Transitions, starts: torch.Tensor, discount: float, arrays: Tensors
) -> ControlProblem:
    nodes = _get(arrays, "nodes", 2)
    if not 0 < len(nodes) <= _MOST_NODES or nodes.shape[1] != len(data.schema.states):
        raise ArgumentError(f"nodes have shape {tuple(nodes.shape)}; they are states of the plant")
    model = LocalModel(data if data.initial_states is not None else data.starting_at(starts))
    horizon, paths = told.integer("horizon", least=1), told.integer("num_paths", least=1)
    if horizon > LONGEST_HORIZON or paths > _MOST_PATHS:
        raise ArgumentError(f"{horizon} steps of {paths} paths are more than any training takes")
    problem = MultistepProblem.build(
        model,
        starts,
        discount,
        horizon=horizon,
        unknown_value=told.number("unknown_value"),
        seed=told.integer("seed"),
    )
    return problem.replace(num_paths=paths)


def _paper_problem(
    told: Fields, data: Transitions, starts: torch.Tensor, discount: float, arrays: Tensors
) -> ControlProblem:
    features = len(data.schema.features)
    for name in ("q", "mu"):
        _get(arrays, name, 1)
    parts = [_get(arrays, f"bandwidths.{name}", 1) for name in ("states", "actions", "next_states")]
    if [len(part) for part in parts] != [features, len(data.schema.actions), features]:
        raise ArgumentError(f"there are {[len(part) for part in parts]} bandwidths for {data.schema}")
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
    model = PaperModel(
        data,
        Bandwidths.from_values(*parts, source=told.text("bandwidths")),
        prior_mass=told.number("prior_mass"),
        integration=rule,
        search=search,
    )
    rows = _whole(arrays, "rows")
    if not torch.equal(rows.sort().values, torch.arange(len(data))):
        raise ArgumentError("the rows of the nodes are not those of the data")
    return PaperProblem.build(
        model,
        data.schema.encode(starts),
        discount=discount,
        unknown_value=told.number("unknown_value"),
        rows=rows,
    )


_PROBLEMS: Mapping[str, Callable[[Fields, Transitions, torch.Tensor, float, Tensors], ControlProblem]] = (
    MappingProxyType({"local": _local_problem, "paper": _paper_problem})
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

"""ONNX of a saved controller, written node by node from the arrays of the numpy runtime."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from nopg._checks import check_target
from nopg._columns import Columns
from nopg._derived import Memory, StateStep, has_memory
from nopg._files import plain_values, write_files
from nopg._support import BLENDED, TINY, ChartSupport, FitVariance, Support
from nopg._version import __version__
from nopg.bundles._policies import Formulas, Linear, Numbers, Part, Policy
from nopg.deploy._controller import COSINE, PLAIN, Embedding, RuntimeController
from nopg.errors import ExportError, MissingExtraError

_OPSET, _IR = 18, 9
_TOLERANCE = 1e-6
_CHECKED = 1_000
# Nodes of operations; those of others are their names, capitalized.
_NODES = {"subtract": "Sub", "multiply": "Mul", "divide": "Div", "power": "Pow", "negative": "Neg"}
_OF_TWO = {"add", "subtract", "multiply", "divide", "power", "min", "max"}


def to_onnx(controller: RuntimeController, path: str | os.PathLike[str], *, overwrite: bool = False) -> float:
    """Write a controller as ONNX, and return the largest difference between onnxruntime and numpy.

    The graph maps raw observations (batch, d_s) to `action` (batch, d_a) and `unknown` (batch,). A row on
    which no controller may act gives the action NaN and the unknown share 1. Where the columns have a memory
    the graph is one step of it: `state`, `applied` and `age` are further inputs, and `next_state` and
    `next_age` further outputs, which are fed back. Names, units, limits, memory and the difference are in
    the metadata of the file. Guard, fallback and rate limit are up to the calling program.

    Args:
        controller: From `nopg.deploy.load`.
        path: Ends in `.onnx`; the file must not exist yet.
        overwrite: Whether an older file is replaced.

    Raises:
        ExportError: The graph differs from numpy by more than 10⁻⁶ at a state in or around the data: of an
            action in units of its span there, of the unknown share.
    """
    target = check_target(path, overwrite=overwrite, suffix=".onnx")
    for package in ("onnx", "onnxruntime"):
        try:
            import_module(package)
        except ImportError:
            raise MissingExtraError(package, "onnx") from None
    model = _Graph().of(controller)
    found = _difference(model.SerializeToString(), controller)
    if not found <= _TOLERANCE:  # NaN included
        raise ExportError(
            f"in onnxruntime the controller differs from numpy by {found:.1e}, over {_TOLERANCE:.0e}; "
            "nothing was written"
        )
    for name, value in (*_about(controller).items(), ("difference", found)):
        model.metadata_props.add(key=name, value=value if isinstance(value, str) else json.dumps(value))
    write_files({target: model.SerializeToString(deterministic=True)})
    return found


def _about(controller: RuntimeController) -> dict[str, Any]:
    """Return what a program needs to know of the tensors, as plain values."""
    columns = controller.columns
    ends = zip(controller.low.tolist(), controller.high.tolist(), strict=True)
    about: dict[str, Any] = {
        "nopg": __version__,
        "saved controller": controller.saved.sha256,
        "observation": list(columns.measured),
        "action": list(columns.actions),
        "units": dict(columns.units),
        "periods": dict(columns.angles),
        "limits": plain_values([*ends]),
        "use": "apply the action where unknown is at most 0.5; elsewhere it is NaN or outside the data",
    }
    if has_memory(columns):
        about |= {"state": list(columns.states), "interval": columns.interval}
        about["memory"] = (
            "feed next_state and next_age back as state and age; a start is state NaN and age 0, also "
            "after more than 5 intervals. applied is the action that the plant received since the last "
            "step, NaN if it is not known. A missing measurement is NaN"
        )
    return about


Operand = Union["_Tensor", npt.ArrayLike]
"""A tensor, or numbers that become a constant: float64, whole numbers for places, or flags."""


class _Tensor:
    """A tensor of a graph; arithmetic adds nodes."""

    def __init__(self, graph: _Graph, name: str) -> None:
        self.add, self.name = graph.add, name

    def __add__(self, other: Operand) -> _Tensor:
        return self.add("Add", self, other)

    def __sub__(self, other: Operand) -> _Tensor:
        return self.add("Sub", self, other)

    def __mul__(self, other: Operand) -> _Tensor:
        return self.add("Mul", self, other)

    def __truediv__(self, other: Operand) -> _Tensor:
        return self.add("Div", self, other)

    def __matmul__(self, other: Operand) -> _Tensor:
        return self.add("MatMul", self, other)

    def take(self, places: npt.ArrayLike) -> _Tensor:
        return self.add("Gather", self, np.array(places), axis=1)

    def clip(self, low: Operand, high: Operand) -> _Tensor:
        return self.add("Min", self.add("Max", self, low), high)

    def total(self, axis: int, keep: bool = False) -> _Tensor:
        return self.add("ReduceSum", self, np.array([axis]), keepdims=int(keep))

    def within(self, period: Operand) -> _Tensor:
        """Return an angle within half a period of 0."""
        return self - self.add("Round", self / period) * period

    def finite(self) -> _Tensor:
        """Return which rows (m, 1) are finite: a sum with 0 times each number is then no NaN."""
        return self.add("Not", self.add("IsNaN", (self * 0.0).total(1, keep=True)))


class _Graph:
    """Nodes and constants in the order in which they are added."""

    def __init__(self) -> None:
        from onnx import helper, numpy_helper

        self.nodes, self.constants = list[Any](), list[Any]()
        self._helper, self._numpy = helper, numpy_helper

    def add(self, kind: str, *inputs: Operand, name: str | None = None, **attributes: Any) -> _Tensor:
        """Add a node, and return its tensor; inputs that are none become constants."""
        out, names = name or f"n{len(self.nodes)}", list[str]()
        for one in inputs:
            if not isinstance(one, _Tensor):
                self.constants.append(
                    self._numpy.from_array(np.array(one, order="C"), f"c{len(self.constants)}")
                )
            names.append(one.name if isinstance(one, _Tensor) else f"c{len(self.constants) - 1}")
        self.nodes.append(self._helper.make_node(kind, names, [out], **attributes))
        return _Tensor(self, out)

    def where(self, condition: Operand, yes: Operand, no: Operand, name: str | None = None) -> _Tensor:
        return self.add("Where", condition, yes, no, name=name)

    def of(self, controller: RuntimeController) -> Any:
        """Return the model of a controller."""
        import onnx

        columns, d_a = controller.columns, len(controller.columns.actions)
        inputs, outputs = {"observation": len(columns.measured)}, {"action": d_a, "unknown": 0}
        state = _Tensor(self, "observation")
        if has_memory(columns):
            inputs |= {"state": len(columns.states), "applied": d_a, "age": len(columns.measured)}
            outputs |= {"next_state": len(columns.states), "next_age": len(columns.measured)}
            state = self.next_state(columns)
        usable = self.where(
            self.add("LessOrEqual", self.add("Abs", state), controller.largest), state, math.nan
        )
        known = usable.finite()
        states = self.where(known, usable, 0.0)
        features = self.embed(Embedding.of_columns(columns), states)
        asked = self.policy(controller.saved.law, features, states, columns)
        known = self.add("And", known, asked.finite())
        within = asked.clip(controller.low, controller.high)
        self.where(known, within, math.nan, name="action")
        both = self.add("Concat", states, self.where(known, within, 0.0), axis=1)
        share = self.unknown(controller.saved.support, both)
        self.where(self.add("Squeeze", known, np.array([1])), share, 1.0, name="unknown")

        def tensors(sizes: Mapping[str, int]) -> list[Any]:
            shapes = {name: ["batch", size] if size else ["batch"] for name, size in sizes.items()}
            make = self._helper.make_tensor_value_info
            return [make(name, onnx.TensorProto.DOUBLE, one) for name, one in shapes.items()]

        parts = (self.nodes, "controller", tensors(inputs), tensors(outputs), self.constants)
        opsets = [self._helper.make_opsetid("", _OPSET)]
        about = {"producer_name": "nopg", "producer_version": __version__}
        graph = self._helper.make_graph(*parts)
        model = self._helper.make_model(graph, opset_imports=opsets, ir_version=_IR, **about)
        onnx.checker.check_model(model, full_check=True)
        return model

    def next_state(self, columns: Columns) -> _Tensor:
        """Return the states (m, d_s) of `StateStep`."""
        step = StateStep.of(columns)
        derived = step.derived
        measured, state, applied, age = (
            _Tensor(self, name) for name in ("observation", "state", "applied", "age")
        )
        missing = self.add("IsNaN", measured)
        holds = self.add("And", missing, self.add("Less", age, step.hold))
        held = self.where(holds, state.take(np.arange(len(step.hold))), measured)
        self.where(missing, age + 1.0, 0.0, name="next_age")
        if not columns.derived:
            return self.add("Identity", held, name="next_state")
        known = state.finite()
        if step.needs_actions:
            known = self.add("And", known, applied.finite())
        is_lag = self.add("And", step.lagged >= 0, applied.finite())
        first = held @ derived.initial.T + derived.constants[0]
        first = self.where(is_lag, applied.take(np.maximum(step.lagged, 0)), first)
        update = state @ derived.by_state.T + derived.constants[1]
        update = update + applied @ derived.by_action.T + held @ derived.by_next.T
        value = self.where(held.finite(), self.where(known, update, first), math.nan)
        return self.add("Concat", held, value, name="next_state", axis=1)

    def embed(self, of: Embedding, x: _Tensor) -> _Tensor:
        """Return points; cosines are sines, since older runtimes lack Cos in float64."""
        plain = (x.take(of.columns) - of.origins) / of.units
        wave = self.add("Sin", plain + np.where(of.waves == COSINE, math.pi / 2, 0.0))
        return self.where(of.waves != PLAIN, wave, plain) * of.scales

    def policy(self, policy: Policy, features: _Tensor, state: _Tensor, columns: Columns) -> _Tensor:
        """Return the actions of a policy before the limits."""
        asked = self.law(policy.law, features, state, columns)
        if policy.levels is not None:
            levels, discrete = policy.levels
            level: Operand = levels[:, 0]
            for under, above in zip(levels.T[:-1], levels.T[1:], strict=True):
                level = self.where(self.add("Greater", asked, (under + above) / 2), above, level)
            asked = self.where(discrete, level, asked)
        if policy.base is not None:
            law, limit = policy.base
            base = self.law(law, features, state, columns)
            asked = base + (asked - base).clip(-limit, limit)
        return asked

    def law(self, law: Part, features: _Tensor, state: _Tensor, columns: Columns) -> _Tensor:
        if isinstance(law, Linear):
            return features @ law.gain.T
        if isinstance(law, Formulas):
            return self.formulas(law, state, columns)
        (W_1, b_1), (W_2, b_2) = law.hidden, law.output
        units = self.add("Relu", (features - law.mean) / law.std @ W_1 + b_1)
        return self.add("Tanh", units @ W_2 + b_2) * law.radius + law.center

    def formulas(self, law: Formulas, state: _Tensor, columns: Columns) -> _Tensor:
        """Return the actions of formulas; an angle is wrapped, since runtimes lack Atan in float64."""
        places = list[_Tensor]()
        listed, results = law.operations()
        for kind, left, right, number, _ in listed:
            if kind == "number":  # has a row per state too
                found = state.take([0]) * 0.0 + number
            elif kind == "column":
                period = columns.angles.get(columns.states[left])
                found = state.take([left])
                found = found if period is None else found.within(period)
            elif kind == "edge":
                found = self.where(self.add("Equal", places[left], 0.0), 1e-30, places[left])
            elif kind == "holds":
                found = self.where(self.add("Greater", places[left], 0.0), 1.0, 0.0)
            else:
                operands = (left, right) if kind in _OF_TWO else (left,)
                found = self.add(_NODES.get(kind, kind.capitalize()), *(places[k] for k in operands))
            places.append(found)
        return self.add("Concat", *(places[k] for k in results), axis=1).clip(*law.action_range)

    def unknown(self, support: Support, inputs: _Tensor) -> _Tensor:
        """Return the unknown share (m,) at inputs (m, d); 1 where a number is too large."""
        beyond = (inputs - inputs.clip(support.low, support.high)) / support.margin
        value = (beyond * beyond).total(1)
        for fit in support.fits:
            value = value + self.fit(fit, inputs) if len(fit.center) else value
        shapes = [self.charts(one, inputs) for one in support.charts]
        if shapes:
            value = value + self.add("Max", *shapes)
        for one in shapes:  # NaN stays NaN
            value = value + one * 0.0
        odds = value * support.slope + support.inside
        share = self.add("Reciprocal", self.add("Exp", odds * -1.0) + 1.0)
        return self.where(self.add("IsNaN", odds), 1.0, share)

    def charts(self, charts: ChartSupport, inputs: _Tensor) -> _Tensor:
        """Return δ² (m,) of the charts of a shape."""
        K, is_angle = charts.num_nearest, charts.periods > 0
        points = self.embed(Embedding.of_charts(charts), inputs)
        apart = self.add("Unsqueeze", points, np.array([2])) - charts.places
        names = [f"{part}{len(self.nodes)}" for part in ("near", "at")]
        squared = (apart * apart).total(1)
        self.add("TopK", squared, np.array([K]), name=names[0], axis=1, largest=0, sorted=1)
        self.nodes[-1].output.append(names[1])
        near, at = (_Tensor(self, name) for name in names)
        used = np.arange(min(BLENDED, max(K - 1, 1)))
        own, D = at.take(used), near.take(used)
        center, covariance, radii = (
            self.add("Gather", part, own, axis=0)
            for part in (charts.centers, charts.covariance, np.square(charts.radii))
        )
        apart = self.add("Unsqueeze", inputs, np.array([1])) - center  # (m, k, d)
        if is_angle.any():
            apart = self.where(is_angle, apart.within(np.where(is_angle, charts.periods, 1.0)), apart)
        bent = covariance @ self.add("Unsqueeze", apart, np.array([3]))
        values = D / radii + (self.add("Squeeze", bent, np.array([3])) * apart).total(2)
        if K == 1:
            return values.total(1)
        last = self.add("Max", near.take([K - 1]), np.finfo(np.float64).tiny)
        rest = self.add("Min", D / last, 1.0) - 1.0
        b = rest * rest + TINY
        return (b * values).total(1) / b.total(1)

    def fit(self, fit: FitVariance, inputs: _Tensor) -> _Tensor:
        """Return σ² (m,) of a polynomial over all data."""
        features = self.embed(Embedding.of_fit(fit.first), inputs)
        if fit.degree == 2:
            one, other = (features.take(part) for part in fit.pairs)
            features = self.add("Concat", features, one * other, axis=1)
        apart = features - fit.center
        return (apart @ fit.covariance * apart).total(1)


def _difference(model: bytes, controller: RuntimeController) -> float:
    """Return the largest difference at states in and around the data, over the span of each action."""
    import onnxruntime

    columns, step = controller.columns, StateStep.of(controller.columns)
    states, rng = _states(controller), np.random.default_rng(1)
    measured, d_a = states[:, : len(columns.measured)].copy(), len(columns.actions)
    memory = Memory(states, rng.uniform(-1.0, 1.0, (len(states), d_a)), np.zeros(measured.shape))
    if has_memory(columns):
        memory.state[::10], memory.applied[::7] = np.nan, np.nan
        measured[1::10, rng.integers(measured.shape[1])] = np.nan
        states, age, _ = step(memory, measured)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    given = {"observation": measured, **memory._asdict()}
    found = session.run(None, {one.name: given[one.name] for one in session.get_inputs()})
    wanted = [*_answers(controller, states), *([states, age] if has_memory(columns) else [])]
    worst = 0.0
    for k, (one, other) in enumerate(zip(found, wanted, strict=True)):
        if not np.array_equal(np.isnan(one), np.isnan(other)):
            return math.inf
        span = np.nanmax(other, axis=0) - np.nanmin(other, axis=0)
        unit = np.fmax(np.nanmax(np.abs(other), axis=0), 1.0) if k else np.where(span > 0, span, 1.0)
        worst = max(worst, float(np.nanmax(np.abs(one - other) / unit)))
    return worst


def _answers(controller: RuntimeController, states: Numbers) -> tuple[Numbers, Numbers]:
    """Return actions and unknown shares, NaN and 1 where a number of a state is missing."""
    actions, unknown = np.full((len(states), len(controller.low)), np.nan), np.ones(len(states))
    whole = np.isfinite(states).all(axis=1)
    actions[whole], unknown[whole] = controller.action_and_unknown(states[whole])
    return actions, unknown


def _states(controller: RuntimeController) -> Numbers:
    """Return the states of the charts, and states around the logged range."""
    support, d_s, rng = controller.saved.support, len(controller.columns.states), np.random.default_rng(0)
    centers = np.concatenate([np.zeros((0, len(support.low))), *(one.centers for one in support.charts)])
    low, high = (np.where(np.isfinite(one), one, 0.0) for one in (support.low, support.high))
    around = (low + high) / 2 + 2.0 * np.maximum(high - low, support.margin) * rng.uniform(
        -1.0, 1.0, (_CHECKED, len(low))
    )
    some = rng.permutation(len(centers))[: _CHECKED // 2]
    found: Numbers = np.concatenate([centers[some], around])[:_CHECKED, :d_s]
    return found

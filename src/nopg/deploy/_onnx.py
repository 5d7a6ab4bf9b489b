"""ONNX of a saved controller, written node by node from the arrays of the numpy runtime."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from nopg._columns import Columns
from nopg._derived import Memory, StateStep, has_memory
from nopg._files import plain_values, write_files
from nopg._support import BLENDED, TINY, ChartSupport, FitVariance, Support
from nopg._version import __version__
from nopg.bundles._policies import Formulas, Linear, Part, Policy
from nopg.deploy._controller import RuntimeController
from nopg.deploy._embedding import COSINE, PLAIN, Embedding, Numbers
from nopg.errors import ArgumentError, ExportError, MissingExtraError

Dtype = Literal["float64", "float32"]

_OPSET, _IR = 18, 9
_TOLERANCE = {"float64": 1e-6, "float32": 1e-3}
_CHECKED = 1_000
# Nodes of operations; those of others are their names, capitalized.
_NODES = {"subtract": "Sub", "multiply": "Mul", "divide": "Div", "power": "Pow", "negative": "Neg"}
_OF_TWO = {"add", "subtract", "multiply", "divide", "power", "min", "max"}


def to_onnx(
    controller: RuntimeController,
    path: str | os.PathLike[str],
    *,
    dtype: Dtype = "float64",
    overwrite: bool = False,
) -> float:
    """Write a controller as ONNX, and return the largest difference between onnxruntime and numpy.

    The graph maps raw observations (batch, d_s) to `action` (batch, d_a) and `unknown` (batch,). A row on
    which no controller may act gives the action NaN and the unknown share 1. Where the columns have a memory
    the graph is one step of it: `state`, `applied` and `age` are further inputs, and `next_state` and
    `next_age` further outputs, which are fed back. Names, units, limits, memory and the difference are in
    the metadata of the file. Guard, fallback and rate limit are up to the calling program.

    Args:
        controller: From `nopg.deploy.load`.
        path: Ends in `.onnx`; the file must not exist yet.
        dtype: Of the tensors and of all arithmetic; float32 is for hardware without float64.
        overwrite: Whether an older file is replaced.

    Raises:
        ExportError: The graph differs from numpy by more than 10⁻⁶, or 10⁻³ in float32, at a state in or
            around the data: of an action in units of its span there, of the unknown share.
    """
    target = Path(path)
    if target.suffix != ".onnx" or not target.stem:
        raise ArgumentError(f"the path is {str(target)!r}; give one that ends in .onnx, such as 'pump.onnx'")
    if target.exists() and not overwrite:
        raise ArgumentError(f"{target} exists already; give another name, or overwrite=True")
    if dtype not in _TOLERANCE:
        raise ArgumentError(f"dtype is {dtype!r}; give 'float64' or 'float32'")
    for package in ("onnx", "onnxruntime"):
        try:
            import_module(package)
        except ImportError:
            raise MissingExtraError(package, "onnx") from None
    model = _Graph(dtype).of(controller)
    found = _difference(model.SerializeToString(), controller, dtype)
    if not found <= _TOLERANCE[dtype]:  # NaN included
        raise ExportError(
            f"in onnxruntime the controller differs from numpy by {found:.1e}, over {_TOLERANCE[dtype]:.0e}; "
            "nothing was written" + (". Try dtype='float64'" if dtype == "float32" else "")
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


class _Graph:
    """Nodes and constants in the order in which they are added; methods return the name of a tensor."""

    def __init__(self, dtype: str) -> None:
        from onnx import helper, numpy_helper

        self.dtype, self.nodes, self.constants = np.dtype(dtype), list[Any](), list[Any]()
        self._helper, self._numpy = helper, numpy_helper

    def const(self, values: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> str:
        array = np.array(values, dtype=self.dtype if dtype is None else dtype, order="C")
        self.constants.append(self._numpy.from_array(array, f"c{len(self.constants)}"))
        return f"c{len(self.constants) - 1}"

    def index(self, values: npt.ArrayLike) -> str:
        return self.const(values, np.int64)

    def add(self, kind: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:
        out = name or f"n{len(self.nodes)}"
        self.nodes.append(self._helper.make_node(kind, list(inputs), [out], **attributes))
        return out

    def plus(self, x: str, *others: str) -> str:
        for other in others:
            x = self.add("Add", x, other)
        return x

    def gather(self, x: str, places: npt.ArrayLike) -> str:
        return self.add("Gather", x, self.index(places), axis=1)

    def clip(self, x: str, low: npt.ArrayLike, high: npt.ArrayLike) -> str:
        return self.add("Min", self.add("Max", x, self.const(low)), self.const(high))

    def affine(self, x: str, weight: npt.ArrayLike, bias: npt.ArrayLike) -> str:
        return self.add("Add", self.add("MatMul", x, self.const(weight)), self.const(bias))

    def total(self, x: str, axis: int, keep: bool = False) -> str:
        return self.add("ReduceSum", x, self.index([axis]), keepdims=int(keep))

    def squares(self, x: str) -> str:
        return self.add("Mul", x, x)

    def finite(self, x: str) -> str:
        """Return which rows (m, 1) are finite."""
        zero = self.add("Mul", x, self.const(0.0))  # NaN where a number is not finite
        return self.add("Not", self.add("IsNaN", self.total(zero, 1, keep=True)))

    def of(self, controller: RuntimeController) -> Any:
        """Return the model of a controller."""
        import onnx

        columns, d_a = controller.columns, len(controller.columns.actions)
        inputs, outputs = {"observation": len(columns.measured)}, {"action": d_a, "unknown": 0}
        state = "observation"
        if has_memory(columns):
            inputs |= {"state": len(columns.states), "applied": d_a, "age": len(columns.measured)}
            outputs |= {"next_state": len(columns.states), "next_age": len(columns.measured)}
            state = self.next_state(columns)
        fits = self.add("LessOrEqual", self.add("Abs", state), self.const(controller.largest))
        usable = self.add("Where", fits, state, self.const(math.nan))
        known, zero = self.finite(usable), self.const(0.0)
        states = self.add("Where", known, usable, zero)
        features = self.embed(Embedding.of_columns(columns), states)
        asked = self.policy(controller.saved.law, features, states, columns)
        known = self.add("And", known, self.finite(asked))
        within = self.clip(asked, *_inward(controller.low, controller.high, self.dtype))
        self.add("Where", known, within, self.const(math.nan), name="action")
        both = self.add("Concat", states, self.add("Where", known, within, zero), axis=1)
        share = self.unknown(controller.saved.support, both)
        self.add("Where", self.add("Squeeze", known, self.index([1])), share, self.const(1.0), name="unknown")
        kind = self._helper.np_dtype_to_tensor_dtype(self.dtype)

        def tensors(sizes: Mapping[str, int]) -> list[Any]:
            shapes = {name: ["batch", size] if size else ["batch"] for name, size in sizes.items()}
            return [self._helper.make_tensor_value_info(name, kind, one) for name, one in shapes.items()]

        graph = self._helper.make_graph(
            self.nodes, "controller", tensors(inputs), tensors(outputs), self.constants
        )
        opset = self._helper.make_opsetid("", _OPSET)
        model = self._helper.make_model(
            graph, opset_imports=[opset], ir_version=_IR, producer_name="nopg", producer_version=__version__
        )
        onnx.checker.check_model(model, full_check=True)
        return model

    def next_state(self, columns: Columns) -> str:
        """Return the states (m, d_s) of `StateStep`."""
        step = StateStep.of(columns)
        derived, zero, nan = step.derived, self.const(0.0), self.const(math.nan)
        missing = self.add("IsNaN", "observation")
        holds = self.add("And", missing, self.add("Less", "age", self.const(step.hold)))
        last = self.gather("state", np.arange(len(step.hold)))
        held = self.add("Where", holds, last, "observation")
        self.add("Where", missing, self.plus("age", self.const(1.0)), zero, name="next_age")
        if not columns.derived:
            return self.add("Identity", held, name="next_state")
        whole, known = self.finite(held), self.finite("state")
        if step.needs_actions:
            known = self.add("And", known, self.finite("applied"))
        lagged = self.gather("applied", np.maximum(step.lagged, 0))
        is_lag = self.add("And", self.const(step.lagged >= 0, np.bool_), self.finite("applied"))
        first = self.affine(held, derived.initial.T, derived.constants[0])
        first = self.add("Where", is_lag, lagged, first)
        update = self.affine("state", derived.by_state.T, derived.constants[1])
        parts = (("applied", derived.by_action), (held, derived.by_next))
        update = self.plus(update, *(self.add("MatMul", x, self.const(by.T)) for x, by in parts))
        value = self.add("Where", whole, self.add("Where", known, update, first), nan)
        return self.add("Concat", held, value, name="next_state", axis=1)

    def embed(self, of: Embedding, x: str) -> str:
        """Return points; cosines are sines, since older runtimes lack Cos in float64."""
        # Differences, not products: in float32 the squares of large inputs would cancel a distance.
        plain = self.add("Sub", self.gather(x, of.columns), self.const(of.origins))
        plain = self.add("Div", plain, self.const(of.units))
        phases = self.const(np.where(of.waves == COSINE, math.pi / 2, 0.0))
        wave = self.add("Sin", self.plus(plain, phases))
        point = self.add("Where", self.const(of.waves != PLAIN, np.bool_), wave, plain)
        return self.add("Mul", point, self.const(of.scales))

    def policy(self, policy: Policy, features: str, state: str, columns: Columns) -> str:
        """Return the actions of a policy before the limits."""
        asked = self.law(policy.law, features, state, columns)
        if policy.levels is not None:
            levels, discrete = policy.levels
            level = self.const(levels[:, 0])
            for under, above in zip(levels.T[:-1], levels.T[1:], strict=True):
                higher = self.add("Greater", asked, self.const((under + above) / 2))
                level = self.add("Where", higher, self.const(above), level)
            asked = self.add("Where", self.const(discrete, np.bool_), level, asked)
        if policy.base is not None:
            law, limit = policy.base
            base = self.law(law, features, state, columns)
            moved = self.clip(self.add("Sub", asked, base), -limit, limit)
            asked = self.plus(base, moved)
        return asked

    def law(self, law: Part, features: str, state: str, columns: Columns) -> str:
        if isinstance(law, Linear):
            return self.add("MatMul", features, self.const(law.gain.T))
        if isinstance(law, Formulas):
            return self.formulas(law, state, columns)
        scaled = self.add("Div", self.add("Sub", features, self.const(law.mean)), self.const(law.std))
        units = self.add("Relu", self.affine(scaled, *law.hidden))
        asked = self.add("Mul", self.add("Tanh", self.affine(units, *law.output)), self.const(law.radius))
        return self.plus(asked, self.const(law.center))

    def formulas(self, law: Formulas, state: str, columns: Columns) -> str:
        """Return the actions of formulas; an angle is wrapped, since runtimes lack Atan in float64."""
        places = list[str]()
        listed, results = law.operations()
        row = self.add("Mul", self.gather(state, [0]), self.const(0.0))  # a constant has a row per state too
        for kind, left, right, number, _ in listed:
            if kind == "number":
                found = self.plus(row, self.const([[number]]))
            elif kind == "column":
                period = columns.angles.get(columns.states[left])
                found = self.wrapped(self.gather(state, [left]), period)
            elif kind == "edge":
                equal = self.add("Equal", places[left], self.const(0.0))
                found = self.add("Where", equal, self.const(1e-30), places[left])
            elif kind == "holds":
                positive = self.add("Greater", places[left], self.const(0.0))
                found = self.add("Where", positive, self.const(1.0), self.const(0.0))
            else:
                operands = (left, right) if kind in _OF_TWO else (left,)
                found = self.add(_NODES.get(kind, kind.capitalize()), *(places[k] for k in operands))
            places.append(found)
        return self.clip(self.add("Concat", *(places[k] for k in results), axis=1), *law.action_range)

    def wrapped(self, x: str, period: npt.ArrayLike | None) -> str:
        """Return an angle within half a period of 0."""
        if period is None:
            return x
        by = self.const(period)
        return self.add("Sub", x, self.add("Mul", self.add("Round", self.add("Div", x, by)), by))

    def unknown(self, support: Support, inputs: str) -> str:
        """Return the unknown share (m,) at inputs (m, d); 1 where a number is too large."""
        nearest = self.clip(inputs, support.low, support.high)
        beyond = self.add("Div", self.add("Sub", inputs, nearest), self.const(support.margin))
        value = self.total(self.squares(beyond), 1)
        value = self.plus(value, *(self.fit(one, inputs) for one in support.fits if len(one.center)))
        if support.charts:
            shapes = [self.charts(one, inputs) for one in support.charts]
            value = self.plus(
                value, self.add("Max", *shapes), *(self.add("Mul", one, self.const(0.0)) for one in shapes)
            )
        odds = self.plus(self.add("Mul", value, self.const(support.slope)), self.const(support.inside))
        one = self.const(1.0)
        share = self.add("Div", one, self.plus(one, self.add("Exp", self.add("Neg", odds))))
        return self.add("Where", self.add("IsNaN", odds), one, share)

    def charts(self, charts: ChartSupport, inputs: str) -> str:
        """Return δ² (m,) of the charts of a shape."""
        K = charts.num_nearest
        points = self.embed(Embedding.of_charts(charts), inputs)
        apart = self.add("Sub", self.add("Unsqueeze", points, self.index([2])), self.const(charts.places))
        squared = self.total(self.squares(apart), 1)
        near, at = f"near{len(self.nodes)}", f"at{len(self.nodes)}"
        inputs_of = [squared, self.index([K])]
        self.nodes.append(self._helper.make_node("TopK", inputs_of, [near, at], axis=1, largest=0, sorted=1))
        used = np.arange(min(BLENDED, max(K - 1, 1)))
        own, D = self.gather(at, used), self.gather(near, used)
        center, covariance, radii = (
            self.add("Gather", self.const(part), own, axis=0)
            for part in (charts.centers, charts.covariance, np.square(charts.radii))
        )
        apart = self.add("Sub", self.add("Unsqueeze", inputs, self.index([1])), center)  # (m, k, d)
        is_angle = charts.periods > 0
        if is_angle.any():
            turned = self.wrapped(apart, np.where(is_angle, charts.periods, 1.0))
            apart = self.add("Where", self.const(is_angle, np.bool_), turned, apart)
        column = self.add("Unsqueeze", apart, self.index([3]))
        bent = self.add("Squeeze", self.add("MatMul", covariance, column), self.index([3]))
        values = self.plus(self.add("Div", D, radii), self.total(self.add("Mul", bent, apart), 2))
        if K == 1:
            return self.total(values, 1)
        last = self.add("Max", self.gather(near, [K - 1]), self.const(np.finfo(self.dtype).tiny))
        one = self.const(1.0)
        rest = self.add("Sub", one, self.add("Min", self.add("Div", D, last), one))
        b = self.plus(self.squares(rest), self.const(TINY))
        return self.add("Div", self.total(self.add("Mul", b, values), 1), self.total(b, 1))

    def fit(self, fit: FitVariance, inputs: str) -> str:
        """Return σ² (m,) of a polynomial over all data."""
        features = self.embed(Embedding.of_fit(fit.first), inputs)
        if fit.degree == 2:
            products = self.add("Mul", *(self.gather(features, part) for part in fit.pairs))
            features = self.add("Concat", features, products, axis=1)
        apart = self.add("Sub", features, self.const(fit.center))
        return self.total(self.add("Mul", self.add("MatMul", apart, self.const(fit.covariance)), apart), 1)


def _inward(low: Numbers, high: Numbers, dtype: np.dtype[Any]) -> tuple[Numbers, Numbers]:
    """Return the limits rounded inward to a dtype."""
    lowest, highest = low.astype(dtype), high.astype(dtype)
    lowest = np.where(lowest < low, np.nextafter(lowest, dtype.type(np.inf)), lowest)
    return lowest, np.where(highest > high, np.nextafter(highest, dtype.type(-np.inf)), highest)


def _difference(model: bytes, controller: RuntimeController, dtype: str) -> float:
    """Return the largest difference at states in and around the data, over the span of each action."""
    import onnxruntime

    columns, step = controller.columns, StateStep.of(controller.columns)
    states, rng = _states(controller).astype(dtype).astype(np.float64), np.random.default_rng(1)
    measured, d_a = states[:, : len(columns.measured)].copy(), len(columns.actions)
    memory = Memory(states, rng.uniform(-1.0, 1.0, (len(states), d_a)), np.zeros(measured.shape))
    if has_memory(columns):
        memory.applied[...] = memory.applied.astype(dtype)
        memory.state[::10], memory.applied[::7] = np.nan, np.nan
        measured[1::10, rng.integers(measured.shape[1])] = np.nan
        states, age, _ = step(memory, measured)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    given = {"observation": measured, **memory._asdict()}
    found = session.run(None, {one.name: given[one.name].astype(dtype) for one in session.get_inputs()})
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

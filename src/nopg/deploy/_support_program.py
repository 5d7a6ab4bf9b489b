"""The unknown share of a state and an action as statements of a program."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np

from nopg._support import BLENDED, TINY, ChartSupport, FitVariance, Support
from nopg.deploy._program import Array, Builder, Expression, Item, Kind, Number, call

_LARGEST, _SMALLEST = sys.float_info.max, sys.float_info.min


def add_support(build: Builder, support: Support, inputs: Array, unknown: Item) -> None:
    """Add the statements that set the unknown share at a state and an action; see `Support`.

    Args:
        build: Where they are added.
        support: Of the runtime.
        inputs: The raw state, then the raw action, finite numbers, shape (d,).
        unknown: What is set; 1 where a number is too large.
    """
    farthest, log_odds = (build.scalar(name, "local") for name in ("farthest", "log_odds"))
    build.comment("distance to the nearest charts of the model, in their radii")
    build.set(farthest, 0.0)
    if support.charts:
        near = _Nearest.of(build, support, farthest)
        for number, charts in enumerate(support.charts):
            _add_charts(build, charts, inputs, near, f"charts{number}_")
    build.set(log_odds, farthest)
    build.comment("distance beyond the logged range")
    _add_range(build, support, inputs, log_odds)
    for number, fit in enumerate(support.fits):
        build.comment("uncertainty of the polynomial over all data")
        _add_fit(build, fit, inputs, log_odds, f"fit{number}_")
    build.set(log_odds, log_odds * support.slope + support.inside)
    build.set(unknown, 1.0)
    with build.when(~call("is_nan", log_odds)):
        build.set(unknown, Number(1.0) / (call("exp", -log_odds) + 1.0))


@dataclass(frozen=True, slots=True)
class _Nearest:
    """Variables that the charts of all shapes share.

    Attributes:
        points: The inputs in the metric of the charts.
        squared: Squared distances of the nearest charts, in rising order.
        chosen: Their numbers.
        apart: Raw inputs about a centre.
        share: Weight of each chart.
        farthest: The largest δ² so far.
    """

    points: Array
    squared: Array
    chosen: Array
    apart: Array
    share: Array
    farthest: Item

    @classmethod
    def of(cls, build: Builder, support: Support, farthest: Item) -> _Nearest:
        most = max(one.num_nearest for one in support.charts)
        return cls(
            build.array("points", "local", max(len(one.places) for one in support.charts)),
            build.array("squared", "local", most),
            build.array("chosen", "local", most, "code"),
            build.array("apart", "local", len(support.low)),
            build.array("blended", "local", most),
            farthest,
        )


def _scratch(build: Builder, name: str, kind: Kind = "real") -> Item:
    """Return a local scalar, declared once."""
    if name in {one.name for one in build.variables}:
        return Item(name)
    return build.scalar(name, "local", kind)


def _add_charts(build: Builder, charts: ChartSupport, inputs: Array, near: _Nearest, prefix: str) -> None:
    """Raise the distance to that of the nearest charts of a shape."""
    d, K = inputs.size, charts.num_nearest
    k = min(BLENDED, max(K - 1, 1))
    _add_points(build, charts, inputs, near.points)
    _add_search(build, charts, near, prefix)
    centers = build.constant(f"{prefix}centers", charts.centers)
    radii = build.constant(f"{prefix}radii", np.square(charts.radii))
    covariance = build.constant(f"{prefix}covariance", charts.covariance)
    total, value, delta = (_scratch(build, name) for name in ("total", "delta_of_chart", "delta"))
    _add_blend(build, near, K, total)
    build.set(delta, 0.0)
    with build.each(k) as i:
        for column in range(d):
            gap = inputs[column] - centers[near.chosen[i] * d + column]
            build.set(near.apart[column], gap)
            if period := float(charts.periods[column]):
                turns = call("round", near.apart[column] / period)
                build.set(near.apart[column], near.apart[column] - turns * period)
        build.set(value, near.squared[i] / radii[near.chosen[i]])
        with build.each(d) as j, build.each(d) as n:
            entry = covariance[(near.chosen[i] * d + j) * d + n]
            build.set(value, value + entry * near.apart[j] * near.apart[n])
        build.set(delta, delta + near.share[i] * value)
    build.set(near.farthest, call("max", near.farthest, delta / total))


def _add_points(build: Builder, charts: ChartSupport, inputs: Array, points: Array) -> None:
    place = 0
    for column in np.flatnonzero(charts.weights).tolist():
        weight, period = float(charts.weights[column]), float(charts.periods[column])
        if not period:
            build.set(points[place], inputs[column] * weight)
            place += 1
            continue
        radian = period / (2 * math.pi)
        for function in ("cos", "sin"):
            build.set(points[place], call(function, inputs[column] / radian) * (weight * radian))
            place += 1
    if not place:
        build.set(points[0], 0.0)


def _add_search(build: Builder, charts: ChartSupport, near: _Nearest, prefix: str) -> None:
    """Set the nearest charts and their squared distances, by insertion."""
    e, K = len(charts.places), charts.num_nearest
    places = build.constant(f"{prefix}places", charts.places.T)
    distance, gap, other = (_scratch(build, name) for name in ("distance", "gap", "other_distance"))
    number, other_number = (_scratch(build, name, "code") for name in ("number", "other_number"))
    with build.each(K) as i:
        build.set(near.squared[i], _LARGEST)
        build.set(near.chosen[i], 0)
    with build.each(len(charts.centers)) as i:
        build.set(distance, 0.0)
        with build.each(e) as j:
            build.set(gap, near.points[j] - places[i * e + j])
            build.set(distance, distance + gap * gap)
        with build.when(distance < near.squared[K - 1]):
            build.set(number, i)
            with build.each(K) as j, build.when(distance < near.squared[j]):
                build.set(other, near.squared[j])
                build.set(near.squared[j], distance)
                build.set(distance, other)
                build.set(other_number, near.chosen[j])
                build.set(near.chosen[j], number)
                build.set(number, other_number)


def _add_blend(build: Builder, near: _Nearest, count: int, total: Item) -> None:
    """Set the weights of the nearest charts and their sum; see `nopg._support.blend`."""
    if count == 1:
        build.set(near.share[0], 1.0)
        build.set(total, 1.0)
        return
    build.set(total, 0.0)
    last = call("max", near.squared[count - 1], _SMALLEST)
    with build.each(count - 1) as i:
        build.set(near.share[i], Number(1.0) - call("min", near.squared[i] / last, 1.0))
        build.set(near.share[i], near.share[i] * near.share[i] + TINY)
        build.set(total, total + near.share[i])


def _add_range(build: Builder, support: Support, inputs: Array, log_odds: Item) -> None:
    low, high, margin = (
        build.constant(f"logged_{name}", np.clip(ends, -_LARGEST, _LARGEST))
        for name, ends in (("low", support.low), ("high", support.high), ("margin", support.margin))
    )
    beyond = build.scalar("beyond", "local")
    with build.each(inputs.size) as i:
        nearest = call("min", call("max", inputs[i], low[i]), high[i])
        build.set(beyond, (inputs[i] - nearest) / margin[i])
        build.set(log_odds, log_odds + beyond * beyond)


def _add_fit(build: Builder, fit: FitVariance, inputs: Array, log_odds: Item, prefix: str) -> None:
    q, first = len(fit.center), fit.first
    if not q:
        return
    center = build.constant(f"{prefix}center", fit.center)
    covariance = build.constant(f"{prefix}covariance", fit.covariance)
    features = build.array(f"{prefix}features", "local", q)
    for place, (column, origin, unit) in enumerate(
        zip(first.columns.tolist(), first.origin[:, 0].tolist(), first.units[:, 0].tolist(), strict=True)
    ):
        build.set(features[place], (inputs[column] - origin) / unit)
    for place in first.sines.tolist():
        angle: Expression = features[place]
        build.set(features[place - 1], call("cos", angle))
        build.set(features[place], call("sin", angle))
    if fit.degree == 2:
        for place, (one, other) in enumerate(zip(*fit.pairs, strict=True), start=len(first)):
            build.set(features[place], features[int(one)] * features[int(other)])
    with build.each(q) as i:
        build.set(features[i], features[i] - center[i])
    with build.each(q) as i, build.each(q) as j:
        build.set(log_odds, log_odds + covariance[i * q + j] * features[i] * features[j])

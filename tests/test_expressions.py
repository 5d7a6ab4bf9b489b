"""Formulas of named columns."""

from __future__ import annotations

import math

import pytest
import torch

from nopg._expressions import Expression
from nopg._formula_limits import formula_limits
from nopg.errors import ArgumentError

LEVEL, VALVE = torch.tensor([0.5, 2.0, 3.0]), torch.tensor([1.0, -1.0, 0.0])
COLUMNS = {"level": LEVEL.double(), "valve": VALVE.double()}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("-(level - 1) ** 2 - 0.1 * valve ** 2", [-0.35, -1.1, -4.0]),
        ("abs(valve) / 2 + level", [1.0, 2.5, 3.0]),
        ("min(level, 2) - max(valve, 0)", [-0.5, 2.0, 2.0]),
        ("exp(log(level)) + sqrt(level ** 2) - cos(0) - sin(0) - tanh(0)", [0.0, 3.0, 5.0]),
        ("10 * (level > 1 and not valve >= 0)", [0.0, 10.0, 0.0]),
        ("-(level > 1)", [0.0, -1.0, -1.0]),
        ("1 < level < 3 or valve < -2", [0.0, 1.0, 0.0]),
        ("3", [3.0, 3.0, 3.0]),
    ],
)
def test_a_formula_is_computed_row_by_row(text: str, wanted: list[float]) -> None:
    assert Expression(text)(COLUMNS).tolist() == pytest.approx(wanted)


def test_a_name_that_is_no_word_is_quoted() -> None:
    found = Expression("`T1.PV [°C]` - `T1.PV [°C]` / level")
    assert found.names == ("T1.PV [°C]", "level")
    columns = {"T1.PV [°C]": torch.tensor([4.0]), "level": torch.tensor([2.0])}
    assert found(columns).tolist() == [2.0]


def test_a_linear_law_of_many_columns_is_a_formula() -> None:
    names = [f"x{k}" for k in range(40)]
    law = Expression("offset + " + " + ".join(f"k_{name} * {name}" for name in names))
    assert law.names == ("offset", *(part for name in names for part in (f"k_{name}", name)))


def test_names_are_those_of_columns_not_of_functions() -> None:
    assert Expression("abs(b) + a * abs(b)").names == ("b", "a")


def test_next_and_diff_of_a_column_are_columns_of_that_name() -> None:
    found = Expression("next(a) - diff(`b c`) + a")
    assert found.names == ("next(a)", "diff(b c)", "a")
    columns = {"next(a)": torch.tensor([5.0]), "diff(b c)": torch.tensor([2.0]), "a": torch.tensor([1.0])}
    assert found(columns).tolist() == [4.0]


def test_a_condition_tells_how_far_it_is_met() -> None:
    formula = Expression("level > 1 and valve < 0")
    assert formula.is_condition
    found = formula.margin(COLUMNS)
    assert found.tolist() == pytest.approx([-1.0, 1.0, 0.0])


def test_the_gradient_of_a_formula_is_that_of_torch() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    Expression("-(x - 3) ** 2")({"x": x}).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [4.0, 2.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 / 0", "divides by zero"),
        ("level / (1 - 1)", "divides by zero"),
        ("9" * 400, "too large"),
        ("level +", "cannot be read"),
        ("__import__('os')", "not understood"),
        ("level.mean()", "not understood"),
        ("[level]", "not understood"),
        ("True", "not understood"),
        ("level if valve else 1", "not understood"),
        ("pressure + 1", "'pressure' in the reward 'pressure \\+ 1' is not known; there are"),
        ("1 < 2", "compares numbers alone"),
        ("level and valve", "not a condition"),
        ("abs(level, valve)", "takes 1 argument, not 2"),
        ("next(level + 1)", "not understood"),
        ("diff(level)", "'diff\\(level\\)' in the reward"),
        ("+".join(["level"] * 300), "too long"),
        ("(" * 300 + "level" + ")" * 300, "cannot be read"),
        ("", "cannot be read"),
    ],
)
def test_anything_else_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Expression(text, "the reward")(COLUMNS)


def test_numbers_of_a_formula_may_be_infinite_where_columns_make_them_so() -> None:
    assert Expression("1 / level")({"level": torch.tensor([0.0])}).tolist() == [math.inf]


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("-(level - 1) ** 2 - 0.1 * abs(valve)", -math.inf, 0.0),
        ("3 - (level - valve) * (level - valve)", -math.inf, 3.0),
        ("3 * (level > 1) - tanh(valve) / 2", -0.5, 3.5),
        ("min(level, 2) - max(valve, 0)", -math.inf, 2.0),
        ("max(1 - level ** 2, 0) * cos(valve)", -1.0, 1.0),
        ("sqrt(exp(level)) / -2", -math.inf, 0.0),
        ("level ** 3 + valve / level", -math.inf, math.inf),
        ("valve / (0 * level - 0)", -math.inf, math.inf),
        ("(2 + cos(level)) ** 2", 1.0, 9.0),
    ],
)
def test_a_formula_keeps_its_limits_whatever_the_columns_are(text: str, low: float, high: float) -> None:
    formula, rng = Expression(text), torch.Generator().manual_seed(0)
    assert formula_limits(formula) == pytest.approx((low, high))
    level, valve = (
        torch.randn(2, 1000, generator=rng, dtype=torch.float64) * torch.logspace(-3, 3, 1000).double()
    )
    values = formula({"level": level, "valve": valve})
    assert bool(((values >= low) & (values <= high)).all())

"""The quality of the fit of one predicted column."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ColumnFit:
    """The quality of the fit of one predicted column.

    Attributes:
        name: State column, or "reward".
        inputs: Names of the inputs that it depends on.
        r_squared: R² on held-out rows, the noise of sensors aside; 1 for a constant column.
        error: Root mean squared error on held-out rows, in standard deviations of the column.
        error_of_all_inputs: The same with all inputs in use.
        degree: Degree of the polynomials.
    """

    name: str
    inputs: tuple[str, ...]
    r_squared: float
    error: float
    error_of_all_inputs: float
    degree: int

"""Bounds on the bias of the estimates, as the paper prints them and as we correct them."""

from nopg.theory._bias import (
    printed_regression_bias_bound,
    printed_value_bias_bound,
    regression_bias_bound,
    value_bias_bound,
)

__all__ = [
    "printed_regression_bias_bound",
    "printed_value_bias_bound",
    "regression_bias_bound",
    "value_bias_bound",
]

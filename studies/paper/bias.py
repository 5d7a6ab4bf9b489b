"""Bounds on the bias of kernel regression and of the value it leads to, with infinitely many samples."""

import math

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr

from nopg._checks import check_discount
from nopg.errors import ArgumentError

__all__ = [
    "printed_regression_bias_bound",
    "printed_value_bias_bound",
    "regression_bias_bound",
    "value_bias_bound",
]

# The printed theorems integrate |z| over one half of the line only, in every one of their terms.
_PRINTED_SHARE = 0.5


def regression_bias_bound(*, lipschitz: float, log_lipschitz: float, bandwidth: npt.ArrayLike) -> float:
    """Bound the bias of Nadaraya-Watson regression with Gaussian kernels (theorem:biasnadaraya, corrected).

    With z the offset of a sample from the query, the estimate averages f with weights K(z)β(x+z), so its
    bias is at most L_f times the weighted mean of ‖z‖₁. The density is within a factor exp(±L_β‖z‖₁) of
    β(x); taking the upper one above the fraction bar and the lower one below gives, for z ~ N(0, diag h²),

        L_f Σₖ E[|zₖ| exp(L_β‖z‖₁)] / E[exp(−L_β‖z‖₁)]
            = L_f Σₖ hₖ (Πᵢ≠ₖ χᵢ) (√(2/π) + L_β hₖ χₖ) / Πᵢ exp(L_β²hᵢ²/2)(1 − erf(L_β hᵢ/√2)),

    χᵢ = exp(L_β²hᵢ²/2)(1 + erf(L_β hᵢ/√2)): twice what the paper prints. The density may also live on a
    box with sides along the axes and be log-Lipschitz in it only, for queries in the box.

    Args:
        lipschitz: L_f ≥ 0 with |f(x) − f(y)| ≤ L_f ‖x − y‖₁. A Euclidean constant serves too, for the
            1-norm is the larger one.
        log_lipschitz: L_β ≥ 0 with |log β(x) − log β(y)| ≤ L_β ‖x − y‖₁; 0 for a uniform design.
        bandwidth: Standard deviations h > 0 of the kernel, one per dimension, shape (d,).

    Returns:
        The bound, in the units of f; infinite when it exceeds the largest float.

    Example:
        >>> round(regression_bias_bound(lipschitz=1.0, log_lipschitz=0.0, bandwidth=[0.1]), 4)
        0.0798
    """
    return _smoothing_bias(
        L_f=_nonnegative("lipschitz", lipschitz),
        L_beta=_nonnegative("log_lipschitz", log_lipschitz),
        h=_positive_vector("bandwidth", bandwidth),
    )


def printed_regression_bias_bound(
    *, lipschitz: float, log_lipschitz: float, bandwidth: npt.ArrayLike
) -> float:
    """Give the bound of theorem:biasnadaraya as the paper prints it: half the true one, so no bound.

    Args:
        lipschitz: L_f ≥ 0, as for `regression_bias_bound`.
        log_lipschitz: L_β ≥ 0, as for `regression_bias_bound`.
        bandwidth: Standard deviations h > 0 of the kernel, shape (d,).

    Example:
        Regression of f(x) = |x| on a uniform design is off by .0798 at 0, yet

        >>> round(printed_regression_bias_bound(lipschitz=1.0, log_lipschitz=0.0, bandwidth=[0.1]), 4)
        0.0399
    """
    return _PRINTED_SHARE * regression_bias_bound(
        lipschitz=lipschitz, log_lipschitz=log_lipschitz, bandwidth=bandwidth
    )


def value_bias_bound(
    *,
    discount: float,
    reward_lipschitz: float,
    value_lipschitz: float,
    transition_lipschitz: float,
    log_lipschitz: float,
    state_action_bandwidth: npt.ArrayLike,
    next_state_bandwidth: npt.ArrayLike,
) -> float:
    """Bound the bias of the nonparametric Bellman equation's value (theorem:ultimate, corrected).

        |V_D(s) − V*(s)| ≤ (A + γ L_V Σₖ h_ϕ,ₖ √(2/π)) / (1 − γ)

    A is `regression_bias_bound` over states and actions with L_f = L_R + γ L_V L_p: the kernels ψ and φ
    average r + γ V(s′), not the reward alone, and a small offset in (s, a) moves s′. The paper has
    L_f = L_R and half of each term.

    All Lipschitz constants refer to the 1-norm, or all to the Euclidean norm. Rewards are bounded, or at
    least V_D − V* is; the density is log-Lipschitz on the whole space, because ϕ reaches all of it.

    Args:
        discount: γ in [0, 1).
        reward_lipschitz: L_R ≥ 0, of the mean reward r(s, a) in state and action.
        value_lipschitz: L_V ≥ 0, of V_D as in the paper; the constant of V* serves as well.
        transition_lipschitz: L_p ≥ 0, of the next state in state and action; for a stochastic transition,
            of its distribution in the Wasserstein-1 distance.
        log_lipschitz: L_β ≥ 0, of the logarithm of the density of the data over state and action.
        state_action_bandwidth: (h_ψ, h_φ) > 0, shape (d_s + d_a,).
        next_state_bandwidth: h_ϕ ≥ 0, shape (d_s,); 0 where next states are taken as they are.

    Returns:
        The bound, in the units of the value; infinite when it exceeds the largest float.

    Example:
        >>> bound = value_bias_bound(
        ...     discount=0.9,
        ...     reward_lipschitz=1.0,
        ...     value_lipschitz=1.0,
        ...     transition_lipschitz=10.0,
        ...     log_lipschitz=0.0,
        ...     state_action_bandwidth=[0.1, 0.1],
        ...     next_state_bandwidth=[0.0],
        ... )
        >>> round(bound, 2)
        15.96
    """
    gamma = check_discount(discount)
    L_R = _nonnegative("reward_lipschitz", reward_lipschitz)
    L_V = _nonnegative("value_lipschitz", value_lipschitz)
    L_p = _nonnegative("transition_lipschitz", transition_lipschitz)
    L_beta = _nonnegative("log_lipschitz", log_lipschitz)
    h = _positive_vector("state_action_bandwidth", state_action_bandwidth)
    h_phi = _nonnegative_vector("next_state_bandwidth", next_state_bandwidth)

    A = _smoothing_bias(L_f=L_R + gamma * L_V * L_p, L_beta=L_beta, h=h)
    B = sum(gamma * L_V * math.sqrt(2 / math.pi) * float(h_k) for h_k in h_phi)
    return (A + B) / (1 - gamma)


def printed_value_bias_bound(
    *,
    discount: float,
    reward_lipschitz: float,
    value_lipschitz: float,
    log_lipschitz: float,
    state_action_bandwidth: npt.ArrayLike,
    next_state_bandwidth: npt.ArrayLike,
) -> float:
    """Give the bound of theorem:ultimate as the paper prints it, which the value can exceed.

    It is half the corrected one of a world whose next state depends on neither state nor action.

    Args:
        discount: γ in [0, 1).
        reward_lipschitz: L_R ≥ 0, as for `value_bias_bound`.
        value_lipschitz: L_V ≥ 0, as for `value_bias_bound`.
        log_lipschitz: L_β ≥ 0, as for `value_bias_bound`.
        state_action_bandwidth: (h_ψ, h_φ) > 0, shape (d_s + d_a,).
        next_state_bandwidth: h_ϕ ≥ 0, shape (d_s,).

    Example:
        In the world of the example of `value_bias_bound` the value at 0 is off by 7.3, yet

        >>> bound = printed_value_bias_bound(
        ...     discount=0.9,
        ...     reward_lipschitz=1.0,
        ...     value_lipschitz=1.0,
        ...     log_lipschitz=0.0,
        ...     state_action_bandwidth=[0.1, 0.1],
        ...     next_state_bandwidth=[0.0],
        ... )
        >>> round(bound, 2)
        0.8
    """
    return _PRINTED_SHARE * value_bias_bound(
        discount=discount,
        reward_lipschitz=reward_lipschitz,
        value_lipschitz=value_lipschitz,
        transition_lipschitz=0.0,
        log_lipschitz=log_lipschitz,
        state_action_bandwidth=state_action_bandwidth,
        next_state_bandwidth=next_state_bandwidth,
    )


def _smoothing_bias(*, L_f: float, L_beta: float, h: npt.NDArray[np.float64]) -> float:
    """Evaluate the corrected formula of theorem:biasnadaraya without overflow on the way.

    With a = L_β h and Φ the normal distribution function, χ = 2 exp(a²/2) Φ(a) and the denominator's
    factors are 2 exp(a²/2) Φ(−a), so the bound is

        L_f · Πᵢ Φ(aᵢ)/Φ(−aᵢ) · Σₖ hₖ (aₖ + exp(−aₖ²/2) / (√(2π) Φ(aₖ))).
    """
    if L_f == 0.0:
        return 0.0
    with np.errstate(over="ignore"):
        a = L_beta * h  # (d,)
        log_ratio = np.sum(log_ndtr(a) - log_ndtr(-a))
        spread = np.sum(h * (a + np.exp(-0.5 * a**2 - log_ndtr(a)) / math.sqrt(2 * math.pi)))
        return float(np.exp(math.log(L_f) + log_ratio + np.log(spread)))


def _nonnegative(name: str, constant: float) -> float:
    if not 0 <= constant < math.inf:
        raise ArgumentError(
            f"{name} must be finite and at least 0, got {constant!r}; "
            "pass an upper bound of the slope, 0 for a constant function"
        )
    return float(constant)


def _positive_vector(name: str, bandwidth: npt.ArrayLike) -> npt.NDArray[np.float64]:
    h = _nonnegative_vector(name, bandwidth)
    if np.any(h == 0):
        raise ArgumentError(
            f"{name} must be above 0, got 0 in dimension {int(np.argmin(h))}; "
            "pass a small bandwidth, or leave that dimension out"
        )
    return h


def _nonnegative_vector(name: str, bandwidth: npt.ArrayLike) -> npt.NDArray[np.float64]:
    h = np.asarray(bandwidth, dtype=np.float64)
    if h.ndim != 1 or h.size == 0:
        raise ArgumentError(
            f"{name} must have one entry per dimension, got shape {h.shape}; try [0.1] for one dimension"
        )
    if not np.all((h >= 0) & (h < np.inf)):
        raise ArgumentError(f"{name} must be finite and at least 0, got {h.tolist()}; try [0.1]")
    return h

"""Bounds on the bias of kernel regression and of the value it leads to, with infinitely many samples.

Lipschitz constants refer to the 1-norm. `printed=True` gives the theorems as the paper prints them: they
integrate |z| over one half of the line only, and leave out that a small offset in (s, a) moves s′.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr


def regression_bias_bound(
    lipschitz: float, log_lipschitz: float, bandwidth: npt.ArrayLike, *, printed: bool = False
) -> float:
    """Bound the bias of Nadaraya-Watson regression with Gaussian kernels (theorem:biasnadaraya, corrected).

    With z the offset of a sample from the query, the estimate averages f with weights K(z)β(x+z), so its
    bias is at most L_f times the weighted mean of ‖z‖₁. The density is within a factor exp(±L_β‖z‖₁) of
    β(x); taking the upper one above the fraction bar and the lower one below gives, for z ~ N(0, diag h²),

        L_f Σₖ E[|zₖ| exp(L_β‖z‖₁)] / E[exp(−L_β‖z‖₁)]
            = L_f Σₖ hₖ (Πᵢ≠ₖ χᵢ) (√(2/π) + L_β hₖ χₖ) / Πᵢ exp(L_β²hᵢ²/2)(1 − erf(L_β hᵢ/√2)),

    χᵢ = exp(L_β²hᵢ²/2)(1 + erf(L_β hᵢ/√2)): twice what the paper prints. With a = L_β h and Φ the normal
    distribution function it is L_f · Πᵢ Φ(aᵢ)/Φ(−aᵢ) · Σₖ hₖ (aₖ + exp(−aₖ²/2)/(√(2π) Φ(aₖ))), which does
    not overflow on the way. The density may also live on a box with sides along the axes.

    Args:
        lipschitz: L_f ≥ 0 with |f(x) − f(y)| ≤ L_f ‖x − y‖₁.
        log_lipschitz: L_β ≥ 0 with |log β(x) − log β(y)| ≤ L_β ‖x − y‖₁; 0 for a uniform design.
        bandwidth: Standard deviations h > 0 of the kernel, one per dimension, shape (d,).
        printed: Whether to give the paper's half of it, which is no bound.

    Example:
        Regression of f(x) = |x| on a uniform design is off by .0798 at 0:

        >>> round(regression_bias_bound(1.0, 0.0, [0.1]), 4)
        0.0798
        >>> round(regression_bias_bound(1.0, 0.0, [0.1], printed=True), 4)
        0.0399
    """
    if lipschitz == 0.0:
        return 0.0
    h = np.asarray(bandwidth, dtype=np.float64)
    with np.errstate(over="ignore"):
        a = log_lipschitz * h
        log_ratio = np.sum(log_ndtr(a) - log_ndtr(-a))
        spread = np.sum(h * (a + np.exp(-0.5 * a**2 - log_ndtr(a)) / math.sqrt(2 * math.pi)))
        bound = float(np.exp(math.log(lipschitz) + log_ratio + np.log(spread)))
    return 0.5 * bound if printed else bound


def value_bias_bound(
    *,
    discount: float,
    reward_lipschitz: float,
    value_lipschitz: float,
    transition_lipschitz: float,
    log_lipschitz: float,
    state_action_bandwidth: npt.ArrayLike,
    next_state_bandwidth: npt.ArrayLike,
    printed: bool = False,
) -> float:
    """Bound the bias of the nonparametric Bellman equation's value (theorem:ultimate, corrected).

        |V_D(s) − V*(s)| ≤ (A + γ L_V Σₖ h_ϕ,ₖ √(2/π)) / (1 − γ)

    A is `regression_bias_bound` over states and actions with L_f = L_R + γ L_V L_p: the kernels ψ and φ
    average r + γ V(s′), not the reward alone. The paper has L_f = L_R and half of each term.

    Args:
        discount: γ in [0, 1).
        reward_lipschitz: L_R ≥ 0, of the mean reward r(s, a) in state and action.
        value_lipschitz: L_V ≥ 0, of V_D as in the paper; the constant of V* serves as well.
        transition_lipschitz: L_p ≥ 0, of the next state in state and action; for a stochastic transition,
            of its distribution in the Wasserstein-1 distance.
        log_lipschitz: L_β ≥ 0, of the logarithm of the density of the data over state and action.
        state_action_bandwidth: (h_ψ, h_φ) > 0, shape (d_s + d_a,).
        next_state_bandwidth: h_ϕ ≥ 0, shape (d_s,); 0 where next states are taken as they are.
        printed: Whether to give the paper's formula, which the value can exceed.

    Example:
        With s′ = 10a and r = −|s| the value of standing at 0 is off by 7.3:

        >>> world = {"discount": 0.9, "reward_lipschitz": 1.0, "value_lipschitz": 1.0, "log_lipschitz": 0.0}
        >>> h = {"state_action_bandwidth": [0.1, 0.1], "next_state_bandwidth": [0.0]}
        >>> round(value_bias_bound(**world, **h, transition_lipschitz=10.0), 2)
        15.96
        >>> round(value_bias_bound(**world, **h, transition_lipschitz=10.0, printed=True), 2)
        0.8
    """
    following = discount * value_lipschitz
    L_f = reward_lipschitz + (0.0 if printed else following * transition_lipschitz)
    A = regression_bias_bound(L_f, log_lipschitz, state_action_bandwidth, printed=printed)
    smoothing = following * float(np.sum(next_state_bandwidth)) * math.sqrt(2 / math.pi)
    return (A + (0.5 * smoothing if printed else smoothing)) / (1 - discount)

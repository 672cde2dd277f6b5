"""KL estimators on sampled tokens, and their gradients.

Value and gradient are different questions: in the loss, k1 pathwise has zero-mean gradient (no
regularisation), k2 has the reverse-KL gradient on-policy, k3 the forward-KL gradient, and ratio · k3
restores reverse KL. Estimators: J. Schulman, "Approximating KL divergence" (2020).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from audit.objectives.part import Estimator

if TYPE_CHECKING:
    from torch import Tensor


def kl_value(log_difference: Tensor, estimator: Estimator) -> Tensor:
    """Estimate of KL(pi || ref) from d = log pi - log ref on tokens sampled from pi; shape kept, nats.

    k1 = d (can be negative), k2 = d²/2, k3 = exp(-d) - 1 + d (both >= 0), abs = |d|.
    """
    if estimator == "k1":
        return log_difference
    if estimator == "k2":
        return 0.5 * log_difference.square()
    if estimator == "abs":
        return log_difference.abs()
    return (-log_difference).expm1() + log_difference


def kl_slope(log_difference: Tensor, estimator: Estimator) -> Tensor:
    """Derivative of :func:`kl_value` with respect to log pi: 1, d, 1 - exp(-d), or sign d."""
    if estimator == "k1":
        return log_difference.new_ones(()).expand_as(log_difference)
    if estimator == "k2":
        return log_difference
    if estimator == "abs":
        return log_difference.sign()
    return -(-log_difference).expm1()

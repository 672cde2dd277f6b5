"""What the quantities of :mod:`bench.calibration` are exactly, by sums over groups and over responses.

Nothing here comes from the code that is measured: binomial sums over the number of correct responses k of a
group, and moments of the length, which in the toy language's reference policy does not depend on correctness.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

from audit.testbed import exact
from audit.testbed.language import Language

LOW, HIGH = 0.1, 0.7
"""Success rates of prompts are uniform on this interval."""


@dataclass(frozen=True)
class Truth:
    """Expectations over prompts, groups and responses of the reference policy."""

    reward: float
    length: float
    zero_signal: float
    pressure_correct: float
    """GRPO's, tokens per unit of mean |weight|."""
    pressure_wrong: float
    distance: float
    """1 - cosine of GRPO and Dr. GRPO on fresh responses."""
    share_of_scale: float
    """Shapley share of the scale in that distance; the rest is the aggregation."""


def truth(language: Language, group_size: int) -> Truth:
    """Compute them for groups of G and rates uniform on [LOW, HIGH]."""
    length, inverse = length_moments(language)
    weight = binomial_weights(group_size)
    k = np.arange(group_size + 1)
    f = k / group_size
    spread = np.sqrt(f * (1.0 - f))
    live = spread > 0
    up = np.where(live, (1.0 - f) / np.where(live, spread, 1.0), 0.0)
    down = np.where(live, f / np.where(live, spread, 1.0), 0.0)

    # Weight of a token: A / length. Its covariance with length within a side is A (1 - E[l] E[1/l]).
    jensen = 1.0 - length * inverse
    size = weight @ (k * up + (group_size - k) * down) * inverse / (group_size * (weight @ live))
    right, wrong = np.maximum(k - 1, 0), np.maximum(group_size - k - 1, 0)
    # Groups of which only one response is on a side have no covariance there.
    correct = jensen * (weight @ (right * up)) / (weight @ right) / size
    incorrect = -jensen * (weight @ (wrong * down)) / (weight @ wrong) / size

    # Squares of token weights summed over a response: A²/l for GRPO, A² l for a constant, A² for the product.
    by_scale = 1.0 - (weight @ spread) / np.sqrt((weight @ live) * (weight @ spread**2))
    by_aggregation = 1.0 - 1.0 / np.sqrt(length * inverse)
    both = 1.0 - (1.0 - by_scale) * (1.0 - by_aggregation)
    of_scale = 0.5 * (by_scale + both - by_aggregation)
    return Truth(
        reward=(LOW + HIGH) / 2,
        length=length,
        zero_signal=float(weight @ ~live),
        pressure_correct=float(correct),
        pressure_wrong=float(incorrect),
        distance=float(both),
        share_of_scale=float(of_scale / both),
    )


def length_moments(language: Language) -> tuple[float, float]:
    """E[length] and E[1 / length] of the reference policy, the same for every prompt."""
    chance = exact.response_probability(language, language.reference)[0]
    length = language.response_length.to(chance.dtype)
    return float(chance @ length), float(chance @ (1.0 / length))


def binomial_weights(group_size: int) -> np.ndarray:
    """P(k of G correct) over uniform rates, shape (G + 1,), by Gauss-Legendre: exact for polynomials."""
    nodes, weights = np.polynomial.legendre.leggauss(group_size + 2)
    rates = LOW + (HIGH - LOW) * (nodes + 1.0) / 2.0
    k = np.arange(group_size + 1)
    return np.asarray((weights / 2.0) @ binom.pmf(k[None, :], group_size, rates[:, None]))

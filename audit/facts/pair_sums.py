"""Sums of the weights of two objectives and of their product, from one look at the tokens."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from audit.facts.rows import RunRows
from audit.facts.token_sums import WeightSums, token_sums
from audit.facts.tokenpass.factors import factors_of
from audit.facts.weigh import coefficients_of
from audit.facts.weight_sums import inner_products, read_ahead, weight_sums
from audit.objectives.coefficients import Coefficients
from audit.objectives.objective import Objective


class PairSums(NamedTuple):
    """Of each response of a run, under two objectives."""

    sums: tuple[WeightSums, WeightSums]
    dot: np.ndarray
    """Σ w_a · w_b over the response's tokens, float64, shape (R,)."""
    coefficients: tuple[Coefficients, Coefficients]
    """Arrays of shape (R,)."""


def pair_sums(rows: RunRows, a: Objective, b: Objective) -> PairSums:
    """Weigh every response under two objectives: from facts where both allow it, else token by token, once.

    Raises
    ------
    MissingColumn, BadLog
        The log lacks what an objective needs.
    """
    by_token = rows.has("token_advantage")
    if rows.facts is not None and None not in (factors_of(o, token_advantages=by_token) for o in (a, b)):
        read_ahead(rows, [a, b])
        sums = weight_sums(rows, a), weight_sums(rows, b)
        dot = inner_products(rows, [(a, b)])[:, 0]
        return PairSums(sums, dot, (coefficients_of(rows, a), coefficients_of(rows, b)))
    made = token_sums(rows, [a, b], [(0, 1)])
    return PairSums(
        (made.sums[0], made.sums[1]), made.products[:, 0], (made.coefficients[0], made.coefficients[1])
    )

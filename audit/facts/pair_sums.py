"""Sums of the weights of two objectives and of their product, from one look at the tokens."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from audit.facts.rows import RunRows
from audit.facts.tokenpass.factors import factors_of
from audit.facts.weigh import coefficients_of
from audit.facts.weight_sums import WeightSums, inner_products, read_ahead, weight_sums
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
    with _one_thread():
        return _by_token(rows, a, b)


def _by_token(rows: RunRows, a: Objective, b: Objective) -> PairSums:
    from audit.facts.tokens import token_batches
    from audit.objectives.weights import token_weights

    both = (a, b)
    given = coefficients_of(rows, a), coefficients_of(rows, b)
    whole = given[0].tensors(), given[1].tensors()
    made = tuple(WeightSums(*np.zeros((3, rows.num_rows))) for _ in both)
    dot = np.zeros(rows.num_rows)
    most = sys.maxsize if a.batch_wide or b.batch_wide else 1_000_000
    first = 0
    for tokens in token_batches(rows.run, max_tokens=most):
        stop = first + tokens.layout.num_rows
        weights = [
            token_weights(tokens, part.slice(first, stop), objective)
            for part, objective in zip(whole, both, strict=True)
        ]
        for sums, found in zip(made, weights, strict=True):
            sums.policy[first:stop] = tokens.layout.sum(found.policy).numpy()
            sums.square[first:stop] = tokens.layout.sum(found.weight.square()).numpy()
            sums.zeroed[first:stop] = tokens.layout.sum(found.zeroed.double()).numpy()
        dot[first:stop] = tokens.layout.sum(weights[0].weight * weights[1].weight).numpy()
        first = stop
    return PairSums((made[0], made[1]), dot, given)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Keep torch from waiting for its own threads, which costs several times the work on a busy machine."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)

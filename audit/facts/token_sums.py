"""Sums over the weights of a response's tokens, token by token: for objectives that facts do not tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from audit.facts.rows import RunRows
from audit.facts.weigh import coefficients_of, rows_together
from audit.objectives.batch import Tokens
from audit.objectives.coefficients import Coefficients
from audit.objectives.needs import token_columns
from audit.objectives.objective import Objective


class WeightSums(NamedTuple):
    """Of the tokens of each response; arrays of shape (R,), float64."""

    policy: np.ndarray
    """Sum of the part of the weights that the reward drives."""
    square: np.ndarray
    """Sum of the squared weights, the KL in the loss included."""
    zeroed: np.ndarray
    """Loss tokens that the trust region removed."""


class TokenSums(NamedTuple):
    """Of each response of a run, under some objectives."""

    sums: list[WeightSums]
    """One for each objective."""
    products: np.ndarray
    """Σ w_a · w_b over the response's tokens, float64, shape (R, pairs)."""
    coefficients: list[Coefficients]
    """One for each objective; arrays of shape (R,)."""


def token_sums(
    rows: RunRows, objectives: Sequence[Objective], pairs: Sequence[tuple[int, int]] = ()
) -> TokenSums:
    """Weigh every token under some objectives, in one pass once their coefficients are known.

    Parameters
    ----------
    pairs : sequence of (int, int)
        Places of two objectives whose weights are multiplied.

    Raises
    ------
    MissingColumn, BadLog
        The log lacks what an objective needs.
    """
    from audit.facts.token_walk import walk_tokens
    from audit.objectives.weights import token_weights

    given = [coefficients_of(rows, objective) for objective in objectives]
    whole = [coefficients.tensors() for coefficients in given]
    made = [WeightSums(*np.zeros((3, rows.num_rows))) for _ in objectives]
    products = np.zeros((rows.num_rows, len(pairs)))

    def work(first: int, tokens: Tokens) -> None:
        layout = tokens.layout
        here = slice(first, first + layout.num_rows)
        weights = [
            token_weights(tokens, part.slice(here.start, here.stop), objective)
            for part, objective in zip(whole, objectives, strict=True)
        ]
        for sums, found in zip(made, weights, strict=True):
            sums.policy[here] = layout.sum(found.policy).numpy()
            sums.square[here] = layout.sum(found.weight.square()).numpy()
            sums.zeroed[here] = layout.sum(found.zeroed.double()).numpy()
        for place, (a, b) in enumerate(pairs):
            products[here, place] = layout.sum(weights[a].weight * weights[b].weight).numpy()

    columns = frozenset().union(*(token_columns(objective) for objective in objectives))
    walk_tokens(rows.run, work, columns=columns, together=rows_together(objectives, given))
    return TokenSums(made, products, given)
